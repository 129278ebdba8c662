"""Which form a trace file has, and the requests it becomes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import orjson

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.decode.events import looks_like_event
from tracehold_collector.decode.otlp_signals import SIGNALS

PIECE_BYTES: Final = 2 * 1024 * 1024
"""Lines are gathered into requests of about this size."""

PIECE_LINES: Final = 20_000
"""Far below what a collector takes in one request."""

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
_MAX_FILE_BYTES: Final = 128 * 1024 * 1024

_SNIFF_LINES: Final = 20
_OTLP_KEYS: Final = frozenset(signal.resources for signal in SIGNALS)

_LINES: Final = frozenset({".jsonl", ".ndjson"})
_DOCUMENTS: Final = frozenset({".json"})
_PROTOBUF: Final = frozenset({".pb", ".binpb"})
SUFFIXES: Final = _LINES | _DOCUMENTS | _PROTOBUF

READ: Final = (
    "JSON lines (.jsonl, .ndjson: Tracer events, CloudEvents, engine logs or OTLP requests), JSON (.json: an OTLP "
    "request or an array of events), protobuf (.pb: an OTLP request); each also with .gz"
)


UNKNOWN: Final = "in no format known here"


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
            raise _unknown(path)
        else:
            found.append(path)
    return found


def read_pieces(path: Path, offset: int = 0) -> Iterator[Piece]:
    """Yield the requests a file becomes, from byte `offset` of its uncompressed form on.

    Raises:
        BadBodyError: the file cannot be read, is too large for its form, or holds no trace; the text names it.
    """
    suffix = _suffix(path)
    try:
        with _open(path) as file:
            if suffix in _LINES or (suffix in _DOCUMENTS and _holds_several_documents(file)):
                _refuse_unknown_lines(path, file)
                yield from _line_pieces(path, file, offset)
            elif offset == 0:
                file.seek(0)
                yield _document(path, file.read(_MAX_FILE_BYTES + 1), protobuf=suffix in _PROTOBUF)
    except (OSError, EOFError, zlib.error) as error:
        raise BadBodyError(f"cannot read {path}: {error}") from error


def _line_pieces(path: Path, file: IO[bytes] | gzip.GzipFile, offset: int) -> Iterator[Piece]:
    file.seek(offset)
    lines: list[bytes] = []
    size = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise BadBodyError(f"{path} has a line longer than {MAX_LINE_BYTES} bytes", where=f"byte {offset}")
        start, offset = offset, offset + len(line)
        if not line.endswith(b"\n") and not _is_json(line):
            # Somebody may still be writing it: it is sent and refused, but does not count as done.
            offset = start
        if _is_otlp(line):
            if lines:
                yield _events(lines, start)
                lines, size = [], 0
            yield Piece(_otlp_path(_parsed(line)), "application/json", line, offset)
            continue
        if lines and (size + len(line) > PIECE_BYTES or len(lines) >= PIECE_LINES):
            yield _events(lines, start)
            lines, size = [], 0
        lines.append(line)
        size += len(line)
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
    if isinstance(document, dict) and not _OTLP_KEYS.isdisjoint(document):
        return Piece(_otlp_path(document), "application/json", body, len(body))
    first = document[0] if isinstance(document, list) and document else document
    if first == [] or looks_like_event(first):
        return Piece("/v1/events", "application/json", body, len(body))
    raise _unknown(path)


def _refuse_unknown_lines(path: Path, file: IO[bytes] | gzip.GzipFile) -> None:
    """Refuse lines of which none of the first is of a form read here: another program's log must not be misread."""
    file.seek(0)
    lines = [line for line in islice(iter(lambda: file.readline(MAX_LINE_BYTES), b""), _SNIFF_LINES) if line.strip()]
    if lines and not any(_is_otlp(line) or looks_like_event(_parsed(line)) for line in lines):
        raise _unknown(path)


def _holds_several_documents(file: IO[bytes] | gzip.GzipFile) -> bool:
    """Say whether a .json file holds one document a line, as the OpenTelemetry file exporter writes it."""
    first, second = file.readline(MAX_LINE_BYTES), file.readline(MAX_LINE_BYTES)
    return bool(second.strip()) and isinstance(_parsed(first), dict)


def _is_otlp(line: bytes) -> bool:
    if b'"resource' not in line[:200]:
        return False
    document = _parsed(line)
    return isinstance(document, dict) and not _OTLP_KEYS.isdisjoint(document)


def _otlp_path(document: dict[str, Any]) -> str:
    return next(signal.path for signal in SIGNALS if signal.resources in document)


def _is_json(line: bytes) -> bool:
    return _parsed(line) is not None


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _unknown(path: Path) -> BadBodyError:
    return BadBodyError(f"{path} is {UNKNOWN}; read are: {READ}")


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _open(path: Path) -> IO[bytes] | gzip.GzipFile:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")
    return path.open("rb")
