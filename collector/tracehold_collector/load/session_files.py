"""Files of recorded sessions become requests with native events, which the collector redacts like any others."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import orjson

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.record import Rejection
from tracehold_collector.load.piece import PIECE_BYTES, Piece
from tracehold_collector.sessions import READERS, Event, Reader, read_lines
from tracehold_collector.sessions.inspect_ai import archive

_MAX_EVENT_BYTES: Final = 24 * 1024 * 1024
"""What a collector takes in one request, with room to spare."""


def line_pieces(reader: Reader, file: IO[bytes] | gzip.GzipFile) -> Iterator[Piece]:
    """Yield the requests that a file of lines becomes.

    Args:
        reader: of its form.
        file: at its beginning.
    """
    offset = 0

    def note(read: int) -> None:
        nonlocal offset
        offset = read

    pending = _Pending()
    for event in reader.read(read_lines(file, note)):
        yield from pending.add(event, offset)
    yield from pending.flush(offset)


def document_pieces(reader: Reader, path: Path, document: Any, size: int) -> Iterator[Piece]:
    """Yield the requests that a parsed document of `size` bytes becomes.

    Raises:
        BadBodyError: nothing in it can be read.
    """
    pending = _Pending()
    try:
        for event in reader.read(document):
            yield from pending.add(event, 0)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadBodyError(f"{path} cannot be read as {reader.title} ({type(error).__name__}); report it") from error
    yield from pending.flush(size)


def archive_pieces(path: Path, file: IO[bytes] | gzip.GzipFile, wanted: Reader | None) -> Iterator[Piece]:
    """Yield the requests that an `.eval` file of Inspect becomes.

    Args:
        path: of the file, for errors.
        file: at its beginning.
        wanted: what it is said to be, if that was said.

    Raises:
        BadBodyError: it is said to be something else, or cannot be read.
    """
    reader = READERS["inspect"]
    if wanted is not None and wanted is not reader:
        raise wrong_form(path, wanted, [reader.title])
    try:
        document = archive(file)
    except BadBodyError as error:
        raise BadBodyError(f"{path} cannot be read: {error}") from error
    if not reader.looks(document):
        raise BadBodyError(f"{path} is not {reader.title}: its header names no task")
    yield from document_pieces(reader, path, document, path.stat().st_size)


class _Pending:
    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0
        self._rejected: list[Rejection] = []

    def add(self, item: Event | Rejection, offset: int) -> Iterator[Piece]:
        if isinstance(item, Rejection):
            self._rejected.append(item)
            return
        try:
            line = orjson.dumps(item) + b"\n"
        except orjson.JSONEncodeError:
            self._rejected.append(Rejection(str(item["event_id"]), "the event holds a number beyond 64 bits"))
            return
        if len(line) > _MAX_EVENT_BYTES:
            self._rejected.append(
                Rejection(str(item["event_id"]), f"the event has {len(line)} bytes, too many to send")
            )
            return
        if self._lines and self._size + len(line) > PIECE_BYTES:
            yield from self.flush(offset)
        self._lines.append(line)
        self._size += len(line)

    def flush(self, offset: int) -> Iterator[Piece]:
        if self._lines or self._rejected:
            body = b"".join(self._lines)
            yield Piece("/v1/events", "application/x-ndjson", body, offset, tuple(self._rejected))
        self._lines, self._size, self._rejected = [], 0, []


def wrong_form(path: Path, wanted: Reader, found: Iterable[str]) -> BadBodyError:
    """Return the error for a file that is not what `--from` says.

    Args:
        path: the file.
        wanted: what it should be.
        found: what it looks like instead, best first; may be empty.
    """
    like = next(iter(found), None)
    hint = f"it looks like {like}" if like else "nor does it look like any other form known here"
    return BadBodyError(f"{path} is not {wanted.title}; {hint}")
