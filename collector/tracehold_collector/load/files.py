"""Which form a trace file has, and the requests it becomes."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import orjson

from tracehold_collector.core.errors import BadBodyError

PIECE_BYTES: Final = 2 * 1024 * 1024
"""Lines are gathered into requests of about this size."""

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
_MAX_FILE_BYTES: Final = 128 * 1024 * 1024

_LINES: Final = frozenset({".jsonl", ".ndjson"})
_DOCUMENTS: Final = frozenset({".json"})
_PROTOBUF: Final = frozenset({".pb", ".binpb"})
SUFFIXES: Final = _LINES | _DOCUMENTS | _PROTOBUF

READ: Final = (
    "JSON lines (.jsonl, .ndjson: Tracer events, CloudEvents, engine logs or OTLP requests), JSON (.json: an OTLP request "
    "or an array of events), protobuf (.pb: an OTLP request); each also with .gz"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One request to send.

    Attributes:
        path: of the API: "/v1/events" or "/v1/traces".
        content_type: of `body`.
        body: bytes.
        offset: where in the (uncompressed) file the next piece begins, in bytes.
    """

    path: str
    content_type: str
    body: bytes
    offset: int


def find_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files to load: files as given, folders walked for names whose form is known, sorted.

    Raises:
        BadBodyError: a path does not exist, or a file given by name has an unknown form.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(file for file in path.rglob("*") if file.is_file() and _suffix(file) in SUFFIXES)
        elif not path.exists():
            raise BadBodyError(f"there is no file {path}")
        elif _suffix(path) not in SUFFIXES:
            raise BadBodyError(f"{path} is of no known form; read are: {READ}")
        else:
            found.append(path)
    return found


def read_pieces(path: Path, offset: int = 0) -> Iterator[Piece]:
    """Yield the requests a file becomes, from byte `offset` of its uncompressed form on.

    Raises:
        BadBodyError: the file cannot be read, is too large for its form, or holds no trace; the text names it.
    """
    try:
        with _open(path) as file:
            suffix = _suffix(path)
            if suffix in _LINES:
                yield from _line_pieces(path, file, offset)
            elif offset == 0:
                yield _document(path, file.read(_MAX_FILE_BYTES + 1), protobuf=suffix in _PROTOBUF)
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise BadBodyError(f"cannot read {path}: {error}") from error


def _line_pieces(path: Path, file: IO[bytes] | gzip.GzipFile, offset: int) -> Iterator[Piece]:
    file.seek(offset)
    lines: list[bytes] = []
    size = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise BadBodyError(f"{path} has a line longer than {MAX_LINE_BYTES} bytes", where=f"byte {offset}")
        start, offset = offset, offset + len(line)
        if _is_otlp(line):
            if lines:
                yield _events(lines, start)
                lines, size = [], 0
            yield Piece("/v1/traces", "application/json", line, offset)
            continue
        lines.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            yield _events(lines, offset)
            lines, size = [], 0
    if lines:
        yield _events(lines, offset)


def _events(lines: list[bytes], offset: int) -> Piece:
    return Piece("/v1/events", "application/x-ndjson", b"".join(lines), offset)


def _document(path: Path, body: bytes, *, protobuf: bool) -> Piece:
    if len(body) > _MAX_FILE_BYTES:
        raise BadBodyError(
            f"{path} is larger than {_MAX_FILE_BYTES} bytes; write it as JSON lines, one request or event a line"
        )
    if protobuf:
        return Piece("/v1/traces", "application/x-protobuf", body, len(body))
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        # What exactly is wrong, and where, the collector says better.
        return Piece("/v1/events", "application/json", body, len(body))
    if isinstance(document, dict) and not (
        "type" in document or "resourceSpans" in document or "resource_spans" in document
    ):
        raise BadBodyError(f"{path} holds no OTLP request and no events; read are: {READ}")
    otlp = isinstance(document, dict) and "type" not in document
    return Piece("/v1/traces" if otlp else "/v1/events", "application/json", body, len(body))


def _is_otlp(line: bytes) -> bool:
    """An OTLP request on a line of its own, as the OpenTelemetry file exporter writes it."""
    head = line[:200]
    return b'"resourceSpans"' in head or b'"resource_spans"' in head


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _open(path: Path) -> IO[bytes] | gzip.GzipFile:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")
    return path.open("rb")
