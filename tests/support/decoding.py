"""Decodes trace files the way `tracehold ingest` sends them, without a collector in between."""

from __future__ import annotations

from pathlib import Path

from tracehold_collector.core.record import Batch
from tracehold_collector.decode.events import decode_events
from tracehold_collector.decode.otlp import decode_otlp_traces
from tracehold_collector.load import read_pieces
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.sessions import Form


def decode_file(path: Path, context: NormaliseContext, form: Form = Form.AUTO) -> Batch:
    """Everything a file decodes to, read as `form`."""
    whole = Batch()
    for piece in read_pieces(path, form=form):
        whole.rejected += piece.rejected
        if not piece.body and piece.rejected:
            continue
        if piece.path == "/v1/events":
            encoding = "ndjson" if piece.content_type == "application/x-ndjson" else "json"
            batch = decode_events(piece.body, encoding=encoding, context=context)
        else:
            form = "protobuf" if piece.content_type == "application/x-protobuf" else "json"
            batch = decode_otlp_traces(piece.body, encoding=form, context=context)
        whole.records += batch.records
        whole.rejected += batch.rejected
    return whole
