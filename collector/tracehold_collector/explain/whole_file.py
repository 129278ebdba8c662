"""Explains the items of a file, in the form in which `tracehold ingest` would send them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tracehold_collector.core.record import Batch, Record, Rejection
from tracehold_collector.decode.events import Item, read_body, take
from tracehold_collector.decode.otlp import log_items, span_items
from tracehold_collector.explain.items import Explanation, explain_event, explain_log, explain_span
from tracehold_collector.load import read_pieces
from tracehold_collector.load.piece import Piece
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.engine_spans import OpenSpans
from tracehold_collector.sessions import Form


def explain_file(path: Path, context: NormaliseContext, form: Form = Form.AUTO) -> Iterator[Explanation | Rejection]:
    """Yield how each item of a file is read, in order, and a rejection for each that is not.

    Args:
        path: of a file that `tracehold ingest` takes.
        context: by what rules it is read.
        form: what the file is said to be.

    Raises:
        BadBodyError: the file cannot be read, or is in no form known here.
    """
    for piece in read_pieces(path, form=form):
        yield from piece.rejected
        if piece.path == "/v1/traces":
            for span in span_items(piece.body, _encoding(piece), context):
                yield span if isinstance(span, Rejection) else explain_span(span, context)
        elif piece.path == "/v1/logs":
            yield from _logs(piece, context)
        elif piece.path == "/v1/events" and piece.body:
            yield from _events(piece, context)


def _logs(piece: Piece, context: NormaliseContext) -> Iterator[Explanation | Rejection]:
    seen: dict[bytes, int] = {}
    for item in log_items(piece.body, _encoding(piece), context):
        if isinstance(item, Rejection):
            yield item
            continue
        digest = item.digest()
        place = seen[digest] = seen.get(digest, -1) + 1
        yield explain_log(item, context, place=place)


def _events(piece: Piece, context: NormaliseContext) -> Iterator[Explanation | Rejection]:
    spans: dict[str, OpenSpans] = {}
    encoding: Literal["ndjson", "json"] = "ndjson" if piece.content_type == "application/x-ndjson" else "json"
    for item in read_body(piece.body, encoding, context):
        # What came before it opened spans, and each reading must find them as they were.
        before = copy.deepcopy(spans)
        batch = Batch()
        take(item, batch, spans, context)
        yield from batch.rejected
        if batch.records and isinstance(item, Item):
            yield explain_event(item.where, item.value, partial(_taken, item, before, context))


def _taken(item: Item, spans: dict[str, OpenSpans], context: NormaliseContext, value: dict[str, Any]) -> Record:
    batch = Batch()
    take(item._replace(value=value), batch, copy.deepcopy(spans), context)
    if not batch.records:
        raise ItemError(batch.rejected[0].reason)
    return batch.records[0]


def _encoding(piece: Piece) -> Literal["protobuf", "json"]:
    return "protobuf" if piece.content_type == "application/x-protobuf" else "json"
