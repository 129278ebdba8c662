"""Takes a statement, has it run in a process of its own, and brings back its rows or what was wrong."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import orjson
import pyarrow as pa

from tracehold_collector.core.errors import QueryError, StoreError, ThrottledError
from tracehold_collector.sql import frames
from tracehold_collector.sql.frames import Channel, ClosedError
from tracehold_collector.sql.process import Process
from tracehold_collector.sql.scans import Scans
from tracehold_collector.sql.schemas import text_of
from tracehold_collector.sql.tables import table_schemas
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access

MAX_STATEMENT_CHARS: Final = 50_000
DEFAULT_ROWS: Final = 10_000
MAX_ROWS: Final = 1_000_000

_MIB: Final = 1024 * 1024
_SPARE_CPU_S: Final = 10
_CUTS: Final = {"rows": "rows", "bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class SqlOptions:
    """What a statement may use.

    Attributes:
        timeout_s: seconds after which it is stopped.
        memory_bytes: what its process may allocate for it.
        max_answer_bytes: of rows, as Arrow holds them.
        at_once: statements that run at the same time.
    """

    timeout_s: float = 30.0
    memory_bytes: int = 512 * _MIB
    max_answer_bytes: int = 64 * _MIB
    at_once: int = 2


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """Rows, and what cut them short: `rows`, `bytes` or nothing."""

    table: pa.Table
    cut: str | None


class SqlDesk:
    """Runs analysts' statements; safe to use from any thread.

    Args:
        database: the open store.
        options: what a statement may use.
    """

    def __init__(self, database: Database, options: SqlOptions | None = None) -> None:
        self.options = options or SqlOptions()
        self._database = database
        self._places = threading.BoundedSemaphore(self.options.at_once)

    def tables(self) -> dict[str, pa.Schema]:
        """Return the columns of each table that may be read.

        Raises:
            StoreError: the store could not answer.
        """
        try:
            return table_schemas(self._database)
        except duckdb.Error as error:
            raise StoreError(f"the store could not answer: {type(error).__name__}") from error

    def statement(self, text: str, access: Access, *, max_rows: int = DEFAULT_ROWS) -> Statement:
        """Return a statement that is ready to run.

        Args:
            text: one SELECT.
            access: what the asker may see.
            max_rows: of the answer; what goes beyond is cut off, and said.

        Raises:
            QueryError: the text is longer than 50,000 characters, or no text.
        """
        if len(text) > MAX_STATEMENT_CHARS:
            raise QueryError(f"a statement has at most {MAX_STATEMENT_CHARS:,} characters; this one has {len(text):,}")
        if "\0" in text or (not text.isascii() and text != text.encode("utf-8", "replace").decode()):
            raise QueryError("the statement holds characters that are no text")
        return Statement(text, Scans(self._database, self.tables(), access), self.options, self._places, max_rows)


class Statement:
    """One statement. `run` it once, from any thread; `stop` it from any other.

    Args: see `SqlDesk.statement`.
    """

    def __init__(
        self, text: str, scans: Scans, options: SqlOptions, places: threading.Semaphore, max_rows: int
    ) -> None:
        self._text = text
        self._scans = scans
        self._options = options
        self._places = places
        self._max_rows = max_rows
        self._process: Process | None = None
        self._stopped = ""
        self._lock = threading.Lock()

    def run(self) -> SqlAnswer:
        """Run it and return its rows.

        Raises:
            QueryError: it may not run, is wrong, took too long or needed too much; the text says what to do.
            ThrottledError: as many statements run as may run at once.
            StoreError: the store could not answer.
        """
        if not self._places.acquire(blocking=False):
            raise ThrottledError(f"{self._options.at_once} statements are under way, as many as may be at once", 2)
        timer = threading.Timer(self._options.timeout_s, self.stop, ["time"])
        timer.daemon = True
        timer.start()
        try:
            with contextlib.closing(self._scans), Process() as process:
                with self._lock:
                    self._process = process
                    if self._stopped:
                        process.kill()
                return self._conversation(process.channel)
        except (ClosedError, duckdb.InterruptException) as error:
            raise self._unfinished() from error
        except duckdb.Error as error:
            if self._stopped:
                raise self._unfinished() from error
            raise StoreError(f"the store could not answer: {type(error).__name__}") from error
        finally:
            timer.cancel()
            self._places.release()

    def stop(self, why: str = "gone") -> None:
        """End it: `time` when it took too long, else because nobody waits for it any more."""
        with self._lock:
            self._stopped = self._stopped or why
            if self._process is not None:
                self._process.kill()
        self._scans.interrupt()

    def _conversation(self, channel: Channel) -> SqlAnswer:
        channel.send_json(frames.BEGIN, self._begin())
        pieces: list[pa.Table] = []
        size = 0
        while True:
            kind, body = channel.receive()
            if kind == frames.ANSWER:
                size += len(body)
                if size > 2 * self._options.max_answer_bytes:
                    raise ClosedError
                pieces.append(_rows(body))
            elif kind == frames.SCAN:
                self._scans.open(_said(body))
            elif kind == frames.NEXT:
                number = _said(body).get("scan")
                channel.send(frames.ROWS, self._scans.next(number) or b"")
                self._scans.ahead(number)
            elif kind == frames.FAULT:
                raise self._fault(_said(body))
            elif kind == frames.DONE and pieces:
                return SqlAnswer(_joined(pieces), _CUTS.get(str(_said(body).get("cut"))))
            elif kind != frames.READY:
                raise ClosedError

    def _begin(self) -> dict[str, Any]:
        schemas = self._scans.tables
        return {
            "sql": self._text,
            "tables": {name: text_of(schema) for name, schema in schemas.items()},
            "memory_bytes": self._options.memory_bytes,
            "cpu_s": int(self._options.timeout_s) + _SPARE_CPU_S,
            "max_rows": self._max_rows,
            "max_bytes": self._options.max_answer_bytes,
        }

    def _unfinished(self) -> QueryError:
        if self._stopped == "time":
            return QueryError(
                f"the statement took longer than {self._options.timeout_s:g} s and was stopped; narrow it down, say by "
                "time, or read fewer columns"
            )
        if self._stopped:
            return QueryError("the statement was stopped: nobody waits for it")
        return QueryError("the statement ended the process that ran it, and nothing else; write it another way")

    def _fault(self, fault: dict[str, Any]) -> QueryError:
        kind, text = fault.get("kind"), str(fault.get("text", ""))
        if kind == "memory":
            return QueryError(
                f"the statement needed more than {self._options.memory_bytes // _MIB} MiB (setting: sql_memory_mb); "
                "narrow it down, group before you sort or join, or read fewer columns"
            )
        if kind in {"refused", "sql"}:
            return QueryError(text)
        return QueryError(f"the statement could not be run ({text[:60]}); write it another way")


def _said(body: bytearray) -> dict[str, Any]:
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ClosedError from error
    if not isinstance(said, dict):
        raise ClosedError
    return said


def _joined(pieces: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(pieces)
    except pa.ArrowException as error:
        raise ClosedError from error


def _rows(body: bytearray) -> pa.Table:
    """Rows of an answer. The process ran what a stranger wrote: its bytes are checked like a stranger's."""
    try:
        table = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
        table.validate(full=True)
    except pa.ArrowException as error:
        raise ClosedError from error
    return table
