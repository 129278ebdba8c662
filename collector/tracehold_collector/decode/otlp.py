"""An OTLP trace request, in either encoding, to records (FR-11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tracehold_collector.core.errors import TooLargeError
from tracehold_collector.core.record import Batch, Rejection
from tracehold_collector.decode.json_text import check_size, parse_json
from tracehold_collector.decode.otlp_json import read_json
from tracehold_collector.decode.otlp_protobuf import read_protobuf
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.span_item import SpanItem
from tracehold_collector.normalise.spans import span_record


def decode_otlp_traces(body: bytes, *, encoding: Literal["protobuf", "json"], context: NormaliseContext) -> Batch:
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
    return collect_spans(_items(body, encoding, context), context)


def collect_spans(items: Iterator[SpanItem | Rejection], context: NormaliseContext) -> Batch:
    """Return the records of a request's spans and its rejections.

    Raises:
        TooLargeError: more spans than `limits.max_items`.
    """
    batch = Batch()
    limit = context.limits.max_items
    for count, item in enumerate(items, start=1):
        if count > limit:
            raise TooLargeError(
                f"the request has more than {limit} spans, which max_items allows. Send smaller batches"
            )
        if isinstance(item, Rejection):
            batch.rejected.append(item)
            continue
        try:
            batch.records.append(span_record(item, context))
        except Exception as error:  # noqa: BLE001 - one odd span must not take its neighbours down
            reason = f"the span cannot be read ({type(error).__name__}); report it"
            batch.rejected.append(Rejection(f"span {item.span_id}", reason))
    return batch


def _items(body: bytes, encoding: str, context: NormaliseContext) -> Iterator[SpanItem | Rejection]:
    if encoding == "protobuf":
        return read_protobuf(body, context)
    check_size(body, context.limits)
    parsed = parse_json(body, context.limits.max_depth)
    return read_json(parsed.value, context, replaced=parsed.replaced)
