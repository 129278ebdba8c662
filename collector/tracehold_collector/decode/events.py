"""Native events to records: Tracer events, the engine's log lines, CloudEvents, in any mix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import orjson
from tracehold.observability.engine_types import PREFIXES
from tracehold.observability.event_types import EVENT_TYPES

from tracehold_collector.core.errors import BadBodyError, TooLargeError
from tracehold_collector.core.record import Batch, Record, Rejection
from tracehold_collector.decode.json_text import check_depth, check_size, has_replacement, parse_json
from tracehold_collector.normalise.cloud_events import from_cloud_event
from tracehold_collector.normalise.context import ItemError, NormaliseContext
from tracehold_collector.normalise.engine_events import engine_record
from tracehold_collector.normalise.engine_spans import OpenSpans
from tracehold_collector.normalise.tracer_events import tracer_record

_LINES_AN_ITEM: Final = 4
"""Blank lines are allowed, but not without end: each costs memory before it is seen to be blank."""

_OWN_KEYS: Final = frozenset({"event_id", "run_id", "step_index", "started_at_ns"})


class Item(NamedTuple):
    """One event as parsed.

    Attributes:
        value: the parsed JSON.
        raw: its bytes, for the id of an event without one.
        position: its place in the body (index) or file (byte offset), for the same.
        where: its place, for people.
        replaced: whether invalid Unicode was replaced in the text it was parsed from.
    """

    value: Any
    raw: bytes
    position: int
    where: str
    replaced: bool


def decode_events(body: bytes, *, encoding: Literal["ndjson", "json"], context: NormaliseContext) -> Batch:
    """Return the records of a body of events; an empty body has none.

    Args:
        body: decompressed.
        encoding: "ndjson", one JSON object a line, blank lines allowed; or "json", one object or an array of
            them.
        context: whose events these are and by what rules they are read.

    Raises:
        BadBodyError: a JSON body is not JSON or is neither object nor array. In NDJSON a bad line is a
            rejection.
        TooLargeError: more events than `limits.max_items`.
    """
    if not body.strip():
        return Batch()
    limits = context.limits
    items = read_body(body, encoding, context)
    batch = Batch()
    spans: dict[str, OpenSpans] = {}
    for count, item in enumerate(items, start=1):
        if count > limits.max_items:
            raise TooLargeError(
                f"the body has more than {limits.max_items} events, which max_items allows. Send fewer at once"
            )
        take(item, batch, spans, context)
    return batch


def read_body(
    body: bytes, encoding: Literal["ndjson", "json"], context: NormaliseContext
) -> Iterator[Item | Rejection]:
    """Return the events of a body, parsed and not normalised yet; parameters and errors as in `decode_events`."""
    if encoding == "json":
        return _read_array(body, context)
    limit = context.limits.max_items
    if body.count(b"\n") > _LINES_AN_ITEM * limit:
        raise TooLargeError(f"the body has too many lines; max_items allows {limit} events. Send fewer")
    lines = enumerate(body.split(b"\n"), start=1)
    return read_lines(((line, f"line {number}", number) for number, line in lines), context)


def read_lines(lines: Iterable[tuple[bytes, str, int]], context: NormaliseContext) -> Iterator[Item | Rejection]:
    """Yield an item for each line that is JSON, a rejection for each that is not, nothing for a blank one.

    Args:
        lines: line without its newline, its place for people, its position.
        context: for the limits.
    """
    for line, where, position in lines:
        text = line.strip()
        if not text:
            continue
        try:
            check_size(text, context.limits)
            parsed = parse_json(text, context.limits.max_depth)
            check_depth(parsed.value, context.limits.max_depth)
        except (BadBodyError, TooLargeError) as error:
            yield Rejection(where, str(error))
            continue
        yield Item(parsed.value, text, position, where, parsed.replaced)


def take(item: Item | Rejection, batch: Batch, spans: dict[str, OpenSpans], context: NormaliseContext) -> None:
    """Normalise one item into `batch`, as a record or as a rejection.

    Args:
        item: as `read_lines` gives it.
        batch: where the result goes.
        spans: what the body or file has opened so far, by tenant.
        context: whose events these are.
    """
    if isinstance(item, Rejection):
        batch.rejected.append(item)
        return
    try:
        record = _normalise(item, spans, context)
    except ItemError as error:
        batch.rejected.append(Rejection(item.where, str(error)))
        return
    except Exception as error:  # noqa: BLE001 - one odd item must not take its neighbours down
        batch.rejected.append(Rejection(item.where, f"the event cannot be read ({type(error).__name__}); report it"))
        return
    if item.replaced and has_replacement(item.value):
        record.attributes = {**(record.attributes or {}), "invalid_unicode": True}
    batch.records.append(record)


def looks_like_event(value: Any) -> bool:
    """Whether a JSON value is surely in an event format read here: other programs' logs have a `type` too."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("event"), dict) or "specversion" in value or _is_engine(value):
        return True
    own_type = value.get("type")
    return isinstance(own_type, str) and (own_type in EVENT_TYPES or not _OWN_KEYS.isdisjoint(value))


def _normalise(item: Item, spans: dict[str, OpenSpans], context: NormaliseContext) -> Record:
    value = item.value
    if not isinstance(value, dict):
        raise ItemError("an event must be a JSON object")
    inner = value.get("event")
    if isinstance(inner, dict) and "type" not in value:
        stream = value.get("stream")
        return _engine(inner, stream if isinstance(stream, str) else None, spans, context)
    if "specversion" in value:
        return _engine(from_cloud_event(value), None, spans, context)
    if _is_engine(value):
        return _engine(value, None, spans, context)
    return tracer_record(value, context.of(value.get("tenant")), raw=item.raw, position=item.position)


def _engine(
    event: Mapping[str, Any], stream: str | None, spans: dict[str, OpenSpans], context: NormaliseContext
) -> Record:
    own = context.of(event.get("tenant"))
    return engine_record(event, stream, spans.setdefault(own.tenant, OpenSpans()), own)


def _is_engine(value: Mapping[str, Any]) -> bool:
    own_type = value.get("type")
    return isinstance(own_type, str) and own_type.startswith(PREFIXES) and isinstance(value.get("id"), str)


def _read_array(body: bytes, context: NormaliseContext) -> Iterator[Item]:
    check_size(body, context.limits)
    parsed = parse_json(body, context.limits.max_depth)
    value = parsed.value
    if isinstance(value, dict):
        check_depth(value, context.limits.max_depth)
        yield Item(value, body, 0, "the event", parsed.replaced)
        return
    if not isinstance(value, list):
        raise BadBodyError("the body is JSON but neither an event nor an array of events")
    check_depth(value, context.limits.max_depth)
    for index, entry in enumerate(value):
        yield Item(entry, orjson.dumps(entry, option=orjson.OPT_SORT_KEYS), index, f"[{index}]", parsed.replaced)
