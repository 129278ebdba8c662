"""Trace files, read in pieces: what `tracehold ingest` takes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

from tracehold_collector.core.errors import BadBodyError, CollectorError, TooLargeError
from tracehold_collector.core.record import Batch, Rejection
from tracehold_collector.decode.events import Item, decode_events, looks_like_event, read_lines, take
from tracehold_collector.decode.json_text import parse_json
from tracehold_collector.decode.otlp import collect_spans, decode_otlp_traces
from tracehold_collector.decode.otlp_json import read_json
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.engine_spans import OpenSpans

PIECE_ITEMS: Final = 1000
_SNIFF_LINES: Final = 20
_LINE_SUFFIXES: Final = frozenset({".jsonl", ".ndjson"})
_OTLP_KEYS: Final = frozenset({"resourceSpans", "resourceLogs", "resourceMetrics"})
_READ: Final = (
    "read here: .jsonl or .ndjson (Tracer events, engine log, CloudEvents, or OTLP/JSON requests a line,"
    " as the OpenTelemetry file exporter writes them), .json (an OTLP/JSON request, an event, an array of"
    " events, or lines as above), .pb (an OTLP request in protobuf)"
)


class FileFormat(StrEnum):
    """What a file holds."""

    LINES = "JSON lines"
    EVENTS = "JSON events"
    OTLP_JSON = "OTLP/JSON request"
    OTLP_PROTOBUF = "OTLP/protobuf request"


class Piece(NamedTuple):
    """A part of a file.

    Attributes:
        offset: bytes of the file that are done once this batch is stored; start there to resume.
        batch: what the part decoded to. Its rejections name the file.
    """

    offset: int
    batch: Batch


def sniff_file(path: Path, context: NormaliseContext) -> FileFormat:
    """Return what a file holds, by its suffix and its content.

    Args:
        path: the file.
        context: for the limits.

    Raises:
        BadBodyError: none of the formats read here; the text names the file and what is read.
        TooLargeError: a .json file over `limits.max_decompressed_bytes`.
        OSError: it cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".pb":
        return FileFormat.OTLP_PROTOBUF
    if suffix in _LINE_SUFFIXES and _has_known_lines(path, context):
        return FileFormat.LINES
    if suffix == ".json":
        return _sniff_json(path, context)
    raise _unknown(path)


def iter_file(path: Path, context: NormaliseContext, *, offset: int = 0) -> Iterator[Piece]:
    """Yield the file in pieces of about 1,000 items.

    Only files of lines can be resumed in the middle; the others are one piece. A bad line is a rejection that
    names the file and the line's byte offset, and the lines after it are read. An unfinished last line, one
    without a newline that is not JSON yet, is a rejection too, but its bytes do not count as done: somebody
    may still be writing.

    Args:
        path: the file.
        context: whose data it is and by what rules it is read.
        offset: where to start, as an earlier piece said.

    Raises:
        BadBodyError: in no format known here, or a whole-file format that is broken; names the file.
        TooLargeError: a whole-file format over `limits.max_decompressed_bytes`.
        OSError: it cannot be read.
    """
    kind = sniff_file(path, context)
    if kind is FileFormat.LINES:
        yield from _iter_lines(path, context, offset)
        return
    body = _read_whole(path, context)
    if offset >= len(body) > 0:
        return
    try:
        if kind is FileFormat.EVENTS:
            batch = decode_events(body, encoding="json", context=context)
        else:
            encoding: Literal["json", "protobuf"] = "json" if kind is FileFormat.OTLP_JSON else "protobuf"
            batch = decode_otlp_traces(body, encoding=encoding, context=context)
    except BadBodyError as error:
        raise BadBodyError(f"{path.name}: {error}") from error
    batch.rejected = [Rejection(f"{path.name}, {item.where}", item.reason) for item in batch.rejected]
    yield Piece(len(body), batch)


def _iter_lines(path: Path, context: NormaliseContext, offset: int) -> Iterator[Piece]:
    spans = OpenSpans()
    batch = Batch()
    done = offset
    with path.open("rb") as file:
        file.seek(offset)
        for line in _lines(file, context.limits.max_body_bytes):
            where = f"{path.name}, byte {line.start}"
            if line.too_long:
                batch.rejected.append(Rejection(where, f"the line has {line.end - line.start} bytes, too many"))
            else:
                _take_line(line, where=where, batch=batch, spans=spans, context=context)
                if not line.text.endswith(b"\n") and not _is_json(line.text, context):
                    break
            done = line.end
            if len(batch.records) + len(batch.rejected) >= PIECE_ITEMS:
                yield Piece(done, batch)
                batch = Batch()
    if batch.records or batch.rejected or done == offset:
        yield Piece(done, batch)


class _Line(NamedTuple):
    start: int
    end: int
    text: bytes
    too_long: bool


def _lines(file: BinaryIO, limit: int) -> Iterator[_Line]:
    """Yield each line with its place in the file; of one over `limit` bytes only the place."""
    start = file.tell()
    while text := file.readline(limit):
        end = start + len(text)
        too_long = len(text) == limit and not text.endswith(b"\n")
        if too_long:
            while rest := file.readline(limit):
                end += len(rest)
                if rest.endswith(b"\n"):
                    break
        yield _Line(start, end, b"" if too_long else text, too_long)
        start = end


def _take_line(line: _Line, *, where: str, batch: Batch, spans: OpenSpans, context: NormaliseContext) -> None:
    for item in read_lines([(line.text, where, line.start)], context):
        if isinstance(item, Rejection) or not _is_otlp(item.value):
            take(item, batch, spans, context)
            continue
        try:
            found = collect_spans(read_json(item.value, context, replaced=item.replaced), context)
        except CollectorError as error:
            batch.rejected.append(Rejection(where, str(error)))
            continue
        batch.records += found.records
        batch.rejected += [Rejection(f"{where}, {entry.where}", entry.reason) for entry in found.rejected]


def _is_json(line: bytes, context: NormaliseContext) -> bool:
    try:
        parse_json(line, context.limits.max_depth)
    except BadBodyError:
        return False
    return True


def _is_otlp(value: Any) -> bool:
    return isinstance(value, dict) and not _OTLP_KEYS.isdisjoint(value)


def _has_known_lines(path: Path, context: NormaliseContext) -> bool:
    """Whether one of the first lines is in a format read here; a file without lines is, and holds nothing."""
    seen = False
    with path.open("rb") as file:
        for line in islice(_lines(file, context.limits.max_body_bytes), _SNIFF_LINES):
            for item in read_lines([(line.text, "", 0)], context):
                seen = True
                if isinstance(item, Item) and (_is_otlp(item.value) or looks_like_event(item.value)):
                    return True
    return not seen


def _sniff_json(path: Path, context: NormaliseContext) -> FileFormat:
    body = _read_whole(path, context)
    try:
        value = parse_json(body, context.limits.max_depth).value if body.strip() else []
    except BadBodyError as error:
        # The OpenTelemetry file exporter's usual file name ends in .json, and it writes lines.
        if body.count(b"\n", 0, -1) and _has_known_lines(path, context):
            return FileFormat.LINES
        raise BadBodyError(f"{path.name}: {error}") from error
    if _is_otlp(value):
        return FileFormat.OTLP_JSON
    if value == [] or looks_like_event(value[0] if isinstance(value, list) else value):
        return FileFormat.EVENTS
    raise _unknown(path)


def _read_whole(path: Path, context: NormaliseContext) -> bytes:
    limit = context.limits.max_decompressed_bytes
    with path.open("rb") as file:
        body = file.read(limit + 1)
    if len(body) > limit:
        raise TooLargeError(f"{path.name} has more than {limit} bytes, which max_decompressed_bytes allows; use lines")
    return body


def _unknown(path: Path) -> BadBodyError:
    return BadBodyError(f"{path.name} is in no format known here; {_READ}")
