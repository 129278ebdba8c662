"""Which form a trace file has, and the requests it becomes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import orjson

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.limits import DEFAULT_LIMITS
from tracehold_collector.decode.events import looks_like_event
from tracehold_collector.decode.json_text import parse_json
from tracehold_collector.decode.otlp_signals import SIGNALS
from tracehold_collector.load.piece import PIECE_BYTES, Piece
from tracehold_collector.load.session_files import archive_pieces, document_pieces, line_pieces, wrong_form
from tracehold_collector.sessions import READERS, Form, Reader, recognise

PIECE_LINES: Final = 20_000
"""Far below what a collector takes in one request."""

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
_MAX_FILE_BYTES: Final = 128 * 1024 * 1024

_SNIFF_LINES: Final = 20
_OTLP_KEYS: Final = frozenset(signal.resources for signal in SIGNALS)

_LINES: Final = frozenset({".jsonl", ".ndjson"})
_DOCUMENTS: Final = frozenset({".json", ".traj"})
_PROTOBUF: Final = frozenset({".pb", ".binpb"})
_ARCHIVES: Final = frozenset({".eval"})
SUFFIXES: Final = _LINES | _DOCUMENTS | _PROTOBUF | _ARCHIVES

READ: Final = (
    "JSON lines (.jsonl, .ndjson: Tracer events, CloudEvents, engine logs or OTLP requests), JSON (.json: an OTLP "
    "request or an array of events), protobuf (.pb: an OTLP request), and recorded sessions ("
    + ", ".join(READERS)
    + "); each also with .gz"
)

UNKNOWN: Final = "in no format known here"

_OTLP: Final = "an OTLP request; leave --from out"
_EVENTS: Final = "events in a format that is taken as it is; leave --from out"


def find_files(paths: Iterable[Path], form: Form = Form.AUTO) -> list[Path]:
    """Return the files to load: files as given, folders walked for names whose form is known, sorted.

    Args:
        paths: files and folders.
        form: what they are said to be; a file given by name may then be called anything.

    Raises:
        BadBodyError: a path does not exist, or a file given by name has an unknown form.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(file for file in path.rglob("*") if file.is_file() and _suffix(file) in SUFFIXES)
        elif not path.exists():
            raise BadBodyError(f"there is no file {path}")
        elif _suffix(path) not in SUFFIXES and form is Form.AUTO:
            raise _unknown(path)
        else:
            found.append(path)
    return found


def read_pieces(path: Path, offset: int = 0, form: Form = Form.AUTO) -> Iterator[Piece]:
    """Yield the requests a file becomes.

    Args:
        path: the file.
        offset: byte of its uncompressed form to begin at; a recorded session is always read from its start, since what
            its lines mean depends on those before them.
        form: what it is said to be.

    Raises:
        BadBodyError: the file cannot be read, is too large for its form, holds no trace, or is not of the form it is
            said to be; the text names it.
    """
    suffix = _suffix(path)
    try:
        with _open(path) as file:
            if suffix in _ARCHIVES:
                yield from archive_pieces(path, file, READERS.get(form))
            elif suffix in _LINES or (suffix not in _PROTOBUF and _holds_several_documents(file)):
                reader = _line_reader(path, file, form)
                file.seek(0)
                yield from line_pieces(reader, file) if reader else _line_pieces(path, file, offset)
            elif offset == 0 or form is not Form.AUTO:
                file.seek(0)
                yield from _document(path, file.read(_MAX_FILE_BYTES + 1), form, protobuf=suffix in _PROTOBUF)
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


def _document(path: Path, body: bytes, form: Form, *, protobuf: bool) -> Iterator[Piece]:
    if len(body) > _MAX_FILE_BYTES:
        raise BadBodyError(
            f"{path} is larger than {_MAX_FILE_BYTES} bytes; write it as JSON lines, one request or event a line"
        )
    wanted = READERS.get(form)
    if protobuf:
        if wanted is not None:
            raise wrong_form(path, wanted, ["an OTLP request in protobuf"])
        yield Piece("/v1/traces", "application/x-protobuf", body, len(body))
        return
    try:
        document = parse_json(body, DEFAULT_LIMITS.max_depth).value
    except BadBodyError as error:
        if wanted is not None:
            raise BadBodyError(f"{path} cannot be read: {error}") from error
        # What exactly is wrong, and where, the collector says better.
        yield Piece("/v1/events", "application/json", body, len(body))
        return
    reader = recognise(document, lines=False)
    like = _what_document(document)
    if wanted is not None and wanted is not reader:
        raise wrong_form(path, wanted, [reader.title] if reader else [like] if like else [])
    if reader is not None:
        yield from document_pieces(reader, path, document, len(body))
    elif like is _OTLP:
        yield Piece(_otlp_path(document), "application/json", body, len(body))
    elif like is not None:
        yield Piece("/v1/events", "application/json", body, len(body))
    else:
        raise _unknown(path)


def _what_document(document: Any) -> str | None:
    if isinstance(document, dict) and not _OTLP_KEYS.isdisjoint(document):
        return _OTLP
    first = document[0] if isinstance(document, list) and document else document
    return _EVENTS if first == [] or looks_like_event(first) else None


def _line_reader(path: Path, file: IO[bytes] | gzip.GzipFile, form: Form) -> Reader | None:
    """Return the reader of a recorded session, or `None` for lines that are sent as they are.

    Lines of which none of the first is of a form read here are refused: another program's log must not be misread.
    """
    file.seek(0)
    head = [line for line in islice(iter(lambda: file.readline(MAX_LINE_BYTES), b""), _SNIFF_LINES) if line.strip()]
    values = [_leniently_parsed(line) for line in head]
    ours = any(_is_otlp(line) or looks_like_event(value) for line, value in zip(head, values, strict=True))
    readers = [reader for value in values if (reader := recognise(value, lines=True))]
    wanted = READERS.get(form)
    if wanted is not None:
        if wanted in readers or not head:
            return wanted
        raise wrong_form(path, wanted, [*(reader.title for reader in readers), *([_EVENTS] if ours else [])])
    if head and not ours and not readers:
        raise _unknown(path)
    return None if ours or not readers else readers[0]


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


def _leniently_parsed(line: bytes) -> Any:
    try:
        return parse_json(line.strip(), DEFAULT_LIMITS.max_depth).value
    except BadBodyError:
        return None


def _unknown(path: Path) -> BadBodyError:
    return BadBodyError(f"{path} is {UNKNOWN}; read are: {READ}")


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _open(path: Path) -> IO[bytes] | gzip.GzipFile:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rb")
    return path.open("rb")
