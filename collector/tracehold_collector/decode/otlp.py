"""OTLP requests of every signal, in either encoding, to records (FR-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

from tracehold_collector.core.errors import TooLargeError
from tracehold_collector.core.record import Batch, Record, Rejection
from tracehold_collector.decode.json_text import check_size, parse_json
from tracehold_collector.decode.otlp_columns import read_columns
from tracehold_collector.decode.otlp_json import read_json
from tracehold_collector.decode.otlp_logs import read_logs_json, read_logs_protobuf
from tracehold_collector.decode.otlp_metrics import points_in_json, points_in_protobuf
from tracehold_collector.decode.otlp_protobuf import read_protobuf
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.log_item import LogItem
from tracehold_collector.normalise.logs import log_record
from tracehold_collector.normalise.span_item import SpanItem
from tracehold_collector.normalise.spans import span_record

Encoding = Literal["protobuf", "json"]
_Item = TypeVar("_Item", SpanItem, LogItem)


def decode_otlp_traces(body: bytes, *, encoding: Encoding, context: NormaliseContext) -> Batch:
    """Return the records of an ExportTraceServiceRequest; an empty body is a request without spans.

    Spans that cannot be stored are rejected one by one, with place and reason; the others are kept.

    Args:
        body: decompressed.
        encoding: of the body.
        context: whose spans these are and by what rules they are read.

    Raises:
        BadBodyError: the body as a whole is not such a request.
        TooLargeError: more spans than `limits.max_items`.
    """
    if not body:
        return Batch()
    return collect_spans(span_items(body, encoding, context), context)


def span_items(body: bytes, encoding: Encoding, context: NormaliseContext) -> Iterator[SpanItem | Rejection]:
    """Yield the spans of a request, not normalised yet; parameters and errors as in `decode_otlp_traces`."""
    if encoding == "json":
        return _json(body, context, read_json)
    spans = read_columns(body, context)
    return read_protobuf(body, context) if spans is None else iter(spans)


def log_items(body: bytes, encoding: Encoding, context: NormaliseContext) -> Iterator[LogItem | Rejection]:
    """Yield the log records of a request, not normalised yet; parameters and errors as in `decode_otlp_traces`."""
    return read_logs_protobuf(body, context) if encoding == "protobuf" else _json(body, context, read_logs_json)


def decode_otlp_logs(body: bytes, *, encoding: Encoding, context: NormaliseContext) -> Batch:
    """Return the records of an ExportLogsServiceRequest; parameters and errors as in `decode_otlp_traces`."""
    if not body:
        return Batch()
    seen: dict[bytes, int] = {}

    def record(item: LogItem) -> Record:
        digest = item.digest()
        place = seen[digest] = seen.get(digest, -1) + 1
        return log_record(item, context.of(item.shared.tenant), digest=digest, place=place)

    return _collect(log_items(body, encoding, context), record, "log record", context)


def count_otlp_points(body: bytes, *, encoding: Encoding, context: NormaliseContext) -> int:
    """Return how many data points an ExportMetricsServiceRequest has.

    Args:
        body: decompressed.
        encoding: of the body.
        context: for the limits.

    Raises:
        BadBodyError: the body as a whole is not such a request.
    """
    if not body:
        return 0
    if encoding == "protobuf":
        return points_in_protobuf(body)
    check_size(body, context.limits)
    return points_in_json(parse_json(body, context.limits.max_depth).value, context)


def collect_spans(items: Iterator[SpanItem | Rejection], context: NormaliseContext) -> Batch:
    """Return the records of a request's spans and its rejections.

    Raises:
        TooLargeError: more spans than `limits.max_items`.
    """
    return _collect(items, lambda span: span_record(span, context.of(span.shared.tenant)), "span", context)


def _collect(
    items: Iterator[_Item | Rejection], record: Callable[[_Item], Record], word: str, context: NormaliseContext
) -> Batch:
    batch = Batch()
    limit = context.limits.max_items
    for count, item in enumerate(items, start=1):
        if count > limit:
            raise TooLargeError(
                f"the request has more than {limit} {word}s, which max_items allows. Send smaller batches"
            )
        if isinstance(item, Rejection):
            batch.rejected.append(item)
            continue
        try:
            batch.records.append(record(item))
        except ItemError as error:
            batch.rejected.append(Rejection(f"{word} {item.span_id or count - 1}", str(error)))
        except Exception as error:  # noqa: BLE001 - one odd item must not take its neighbours down
            where = f"{word} {item.span_id or count - 1}"
            batch.rejected.append(Rejection(where, f"the {word} cannot be read ({type(error).__name__}); report it"))
    return batch


def _json(body: bytes, context: NormaliseContext, read: Callable[..., Iterator[Any]]) -> Iterator[Any]:
    check_size(body, context.limits)
    parsed = parse_json(body, context.limits.max_depth)
    return read(parsed.value, context, replaced=parsed.replaced)
