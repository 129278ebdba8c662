"""Opens the file that `tracehold log` looks into, read-only, and says in words what is wrong with it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tracehold.core.database import is_busy
from tracehold.core.errors import StoreError
from tracehold.events.event import Event
from tracehold.events.sqlite import layout, reading
from tracehold.observability.exporters import trace_chain

from tracehold_collector.cli.render import cell

_PAGE: Final = 1000
_SUGGESTED: Final = 3
_NEEDED: Final = ("log_streams", "log_events")
_MAGIC: Final = b"SQLite format 3\0"
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNREADABLE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError)
"""What reading an event raises that no program of ours wrote."""


@contextlib.contextmanager
def opened(file: Path, *, to_verify: bool = False, traces: bool = False) -> Iterator[sqlite3.Connection]:
    """A read-only connection to a log.

    Args:
        file: its path.
        to_verify: also to what is left of a log that lacks tables.
        traces: also to a trace file.

    Raises:
        StoreError: it is none of these, or cannot be read.
    """
    if file.is_dir():
        raise StoreError(f"{file} is a folder; name a file in it")
    if not file.is_file():
        raise StoreError(f"there is no log file {file}; give the path that the engine's SQLiteEventStore has")
    try:
        uri = f"{file.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            # A text that is no UTF-8 must not hide what stands in front of it.
            connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
            layout.refuse_newer(str(file), layout.version_of(connection))
            _refuse_others(connection, file, traces=traces)
            if not to_verify:
                _refuse_incomplete(connection, file)
            yield connection
    except sqlite3.Error as error:
        raise StoreError(_in_words(file, error)) from error
    except _UNREADABLE as error:
        raise StoreError(
            f"an event in {file} cannot be read ({type(error).__name__}): it was altered or damaged. "
            f"'tracehold log verify {file}' says where"
        ) from error


def has_traces(connection: sqlite3.Connection) -> bool:
    """Whether a file holds the rows of a `SqliteExporter`, or what is left of them."""
    query = "SELECT 1 FROM sqlite_master WHERE name IN (?, 'trace_chain')"
    return connection.execute(query, (trace_chain.TABLE,)).fetchone() is not None


def require(connection: sqlite3.Connection, file: Path, run: str) -> None:
    """Refuse a run that is not in the log; name those of that id that belong to a tenant.

    Raises:
        StoreError: it is not there.
    """
    if reading.last_seq(connection, run) >= 0:
        return
    query = "SELECT name FROM log_streams WHERE substr(name, -length(?1)) = ?1 ORDER BY no LIMIT ?2"
    alike = [cell("run", name) for (name,) in connection.execute(query, (f"/{run}", _SUGGESTED))]
    hint = f"did you mean {' or '.join(alike)}?" if alike else f"'tracehold log list {file}' shows those it has"
    raise StoreError(f"{file} has no run {run!r}; {hint}")


def events_of(connection: sqlite3.Connection, file: Path, stream: str, from_seq: int = 0) -> Iterator[Event]:
    """Yield the events of a run, in order, up to one that cannot be read.

    Raises:
        StoreError: names that one.
    """
    while page := reading.read_rows(connection, stream, from_seq, _PAGE):
        for row in page:
            try:
                event = reading.to_event(stream, row)
                from_seq = event.seq + 1
            except _UNREADABLE as error:
                raise StoreError(
                    f"event {row[0]} of run {stream!r} in {file} cannot be read ({type(error).__name__}): it was "
                    f"altered or damaged. What stands before it was shown; 'tracehold log verify {file}' tells more"
                ) from error
            yield event


def _refuse_others(connection: sqlite3.Connection, file: Path, *, traces: bool) -> None:
    if layout.has_log(connection):
        return
    if not has_traces(connection):
        raise StoreError(
            f"{file} holds neither an engine log nor traces; give the path that an engine's SQLiteEventStore has. "
            "Trace files in JSON are read by 'tracehold ingest', a collector's store by 'tracehold runs'"
        )
    if not traces:
        raise StoreError(
            f"{file} holds traces of a SqliteExporter and no engine log; only 'tracehold log verify {file}' (without a "
            "run) reads it"
        )


def _refuse_incomplete(connection: sqlite3.Connection, file: Path) -> None:
    gone = [name for name in layout.missing_tables(connection) if name in _NEEDED]
    if gone:
        raise StoreError(
            f"table {gone[0]} is missing in {file}: the log was altered, and its runs cannot be read. Look for a copy"
        )


def _in_words(file: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if is_busy(error):
        return (
            f"cannot read {file}: another program has it locked; a collector's store is read by 'tracehold runs'. For "
            "a log, try again when that program is done"
        )
    if code in _DAMAGED and not _is_sqlite(file):
        return (
            f"cannot use {file} as a log: it is no SQLite file. Trace files in JSON are read by 'tracehold ingest', a "
            "collector's store by 'tracehold runs'"
        )
    if code in _DAMAGED:
        return f"cannot read {file}: the file is damaged or cut ({error}). Look for a copy"
    if code == sqlite3.SQLITE_ERROR:
        return f"cannot read {file}: its tables are not those of a log ({error}), they were altered. Look for a copy"
    return (
        f"cannot read {file}: {error}. If its folder is read-only, copy the file with its -wal beside it, and read the "
        "copy"
    )


def _is_sqlite(file: Path) -> bool:
    with file.open("rb") as opened_file:
        return opened_file.read(len(_MAGIC)) == _MAGIC
