"""Prices records as they come in. What cannot be priced stays unknown: a call without a price is not a free one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tracehold_collector.core.record import Record
from tracehold_collector.normalise.price_classes import CACHED_AUDIO, INPUT_AUDIO, OUTPUT_AUDIO, SERVICE_TIER
from tracehold_collector.normalise.usage import credible_cost
from tracehold_collector.pricing.book import PriceBook
from tracehold_collector.pricing.call import Call

RECORDED: Final = "recorded"
"""The price source of a cost that the sender told."""

COMPUTED_USD: Final = "computed_usd"
COMPUTED_BY: Final = "computed_by"
"""Attributes that hold the computed cost, and the list it is from, beside one that the source recorded."""


def price_records(records: Iterable[Record], book: PriceBook, now_ns: int) -> None:
    """Fill in the cost of what tells usage; beside a recorded one the computed one is kept as attributes.

    An agent's usage is priced by the model it names, so that it can count where no call below it tells any.

    Args:
        records: changed in place.
        book: the prices.
        now_ns: taken for the time of a call whose own is unknown.
    """
    for record in records:
        if record.status == "started" or (record.kind != "llm" and record.input_tokens is None):
            continue
        call = call_of(record, now_ns)
        price = book.price(call) if call is not None else None
        usd = credible_cost(price.usd) if price is not None else None
        if price is None or usd is None:
            continue
        if record.cost_usd is None:
            record.cost_usd, record.price_source = usd, price.source
        else:
            record.attributes = {**(record.attributes or {}), COMPUTED_USD: usd, COMPUTED_BY: price.source}


def call_of(record: Record, now_ns: int) -> Call | None:
    """Return what there is to price, or `None` when model or usage are unknown.

    Calls without output are those of embeddings; else an output nobody counted is not one of 0 tokens.
    """
    model, given, made = record.model, record.input_tokens, record.output_tokens
    if model is None or given is None:
        return None
    if made is None:
        if "embed" not in f"{record.type} {record.name} {model}".lower():
            return None
        made = 0
    said = record.attributes or {}
    return Call(
        model,
        record.provider,
        record.started_at if record.started_at is not None else now_ns,
        given,
        made,
        record.cached_tokens or 0,
        record.cache_write_tokens or 0,
        record.reasoning_tokens or 0,
        said.get(INPUT_AUDIO) or 0,
        said.get(OUTPUT_AUDIO) or 0,
        said.get(CACHED_AUDIO) or 0,
        str(said[SERVICE_TIER]).lower() if SERVICE_TIER in said else None,
    )
