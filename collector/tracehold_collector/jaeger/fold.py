"""Events that tell of one span, such as its start and its end, as the one record a trace shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from tracehold_collector.core.record import Record
from tracehold_collector.forward.place import own_span_id

_TOLD_BY_ALL: Final = tuple(
    item.name
    for item in fields(Record)
    if item.name not in {"event_id", "tenant", "run_id", "started_at", "duration_ns", "content", "attributes"}
)
_LATEST: Final = 1 << 63


@dataclass(slots=True)
class Folded:
    """One span.

    Attributes:
        record: what its events tell together; its id is that of the event that tells most.
        others: further events with the same span id that are no opening half, such as an approval under way.
    """

    record: Record
    others: list[Record] = field(default_factory=list)


def grouped(records: Iterable[Record]) -> list[tuple[int, ...]]:
    """Return the places of the events of each span, in the order in which their first events come."""
    groups: dict[str, list[int]] = {}
    for place, record in enumerate(records):
        groups.setdefault(own_span_id(record), []).append(place)
    return [tuple(group) for group in groups.values()]


def fold(group: Sequence[Record]) -> Folded:
    """Return the one span that these events tell of.

    The rules are those of the query `waterfall`: an end tells more than a start, and each field comes from the event
    that tells most and has it.
    """
    return Folded(group[0]) if len(group) == 1 else _fold(group)


def _fold(group: Sequence[Record]) -> Folded:
    ranked = sorted(group, key=_rank)
    best, rest = ranked[0], ranked[1:]
    told = {name: _first(getattr(record, name) for record in ranked) for name in _TOLD_BY_ALL}
    starts = [record.started_at for record in group if record.started_at is not None]
    duration_ns = None
    if best.status != "started":
        duration_ns = _first(record.duration_ns for record in ranked)
        if duration_ns is None and starts:
            duration_ns = max(starts) - min(starts)
    openings = [record for record in rest if record.status == "started"]
    record = replace(
        best,
        **told,
        started_at=min(starts, default=None),
        duration_ns=duration_ns,
        attributes=_joined([*(opening.attributes for opening in openings), best.attributes]),
        content=_joined([*(opening.content for opening in openings), best.content]),
    )
    return Folded(record, [record for record in rest if record.status != "started"])


def _rank(record: Record) -> tuple[bool, bool, int, int, bytes]:
    return (
        record.status == "started",
        record.duration_ns is None,
        _LATEST if record.started_at is None else -record.started_at,
        _LATEST if record.seq is None else -record.seq,
        record.event_id,
    )


def _first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _joined(parts: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """What the parts say together, the later ones first; their attributes are joined too."""
    joined: dict[str, Any] = {}
    known = [part for part in parts if part is not None]
    for part in known:
        for key, value in part.items():
            earlier = joined.get(key)
            both = isinstance(value, dict) and isinstance(earlier, dict)
            joined[key] = {**earlier, **value} if both and earlier is not None else value
    return joined if known else None
