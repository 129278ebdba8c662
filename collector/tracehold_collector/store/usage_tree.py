"""Which of a run's figures are spent, and which only repeat what other events below them tell (FR-27).

A model call counts. Any other event that tells usage (an agent, a task, the run itself, an embedding) counts when no
event below it tells any: then nobody else does. So an aggregate is never added to its leaves, whatever came first, and
an agent that alone knows what was spent is not passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tracehold_collector.core.record import Record
from tracehold_collector.normalise.verdicts import TOLD_BY_EVENTS, WRAPS_A_CALL

_MAY_REPEAT: Final = frozenset({WRAPS_A_CALL, *TOLD_BY_EVENTS})
"""Types of model calls that may repeat another one; each counts until that one is there."""


class Told(NamedTuple):
    """What one event tells of spend, and whose it is; the columns of `usage_shares`, and its place in the tree."""

    event_id: bytes
    tenant: str
    run_id: str
    started_at: int | None
    agent: str | None
    user_ref: str | None
    session_id: str | None
    service: str | None
    model: str | None
    provider: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    kind: str
    type: str
    status: str
    span_id: str | None
    parent_span_id: str | None

    @property
    def tells(self) -> bool:
        """Whether it says anything of tokens or cost. That a step without tokens cost nothing says nothing."""
        if self.input_tokens is not None or self.output_tokens is not None:
            return True
        return self.cost_usd is not None and (self.kind == "llm" or self.cost_usd > 0)

    @property
    def is_plain_call(self) -> bool:
        """Whether it is a model call that counts whatever is below it."""
        return self.kind == "llm" and self.type not in _MAY_REPEAT


_TELLERS: Final = frozenset(TOLD_BY_EVENTS.values())


class Share(NamedTuple):
    """What an event adds to the sums besides what its run's model calls add by themselves."""

    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    unpriced_calls: int


_COVERED: Final = Share(0, None, None, None, None, None, None, -1)
"""Of a call without usage, whose cost an event above it has told: the sum is no lower bound for lack of it."""


def needs_a_tree(record: Record) -> bool:
    """Whether a record's figures may repeat those of events below it. Asked of every record that is stored."""
    if record.kind == "llm":
        return record.type in _MAY_REPEAT
    return record.input_tokens is not None or record.output_tokens is not None or bool(record.cost_usd)


@dataclass(slots=True)
class UsageTree:
    """The spans of one run as far as they are known; events come in any order, and each costs a few steps once.

    Attributes:
        shares: what is stored of this run in `usage_shares`, by event.
    """

    shares: dict[bytes, Share] = field(default_factory=dict)
    _parents: dict[str, str | None] = field(default_factory=dict)
    _above: set[str] = field(default_factory=set)
    """Spans with an event below them that tells usage."""
    _open_ends: set[str] = field(default_factory=set)
    """Spans of `_above` that are not there, or not yet: what is above them is not known."""
    _aggregates: dict[bytes, Told] = field(default_factory=dict)
    _bare: dict[bytes, Told] = field(default_factory=dict)
    """Model calls that tell nothing."""
    _calls: int = 0
    """Model calls that tell something."""
    _call_types: set[str] = field(default_factory=set)
    """Of these, the types that spans may repeat."""

    def __len__(self) -> int:
        return len(self._parents)

    def add(self, given: Told) -> None:
        """Take an event in."""
        span = given.span_id
        parent = given.parent_span_id if given.parent_span_id != span else None
        if span is not None:
            self._place(span, parent)
        if given.status == "started":
            return
        if not given.tells:
            if given.kind == "llm":
                self._bare[given.event_id] = given
            return
        if given.is_plain_call:
            self._calls += 1
            if given.type in _TELLERS:
                self._call_types.add(given.type)
        else:
            self._aggregates[given.event_id] = given
        self._climb(parent)

    def current(self) -> dict[bytes, Share]:
        """Return what this run's events add to the sums, by what is known now."""
        counted = self._counted()
        shares = {event.event_id: _share(event, bare=bool(self._bare)) for event in counted if event.kind != "llm"}
        # A wrapped call is a model call: its run counted it when it came, and it is taken out when it repeats others.
        ids = {event.event_id for event in counted}
        shares |= {
            key: _taken_out(event) for key, event in self._aggregates.items() if event.kind == "llm" and key not in ids
        }
        told_by = [event for event in counted if event.kind != "llm"]
        wrapped = len(counted) - len(told_by)
        if told_by and not self._calls and not wrapped and all(event.cost_usd is not None for event in told_by):
            shares |= dict.fromkeys(self._bare, _COVERED)
        return shares

    def event(self, event_id: bytes) -> Told:
        """Return the event that a share is of."""
        return self._aggregates.get(event_id) or self._bare[event_id]

    def _place(self, span: str, parent: str | None) -> None:
        known = self._parents.get(span)
        if known is not None or (parent is None and span in self._parents):
            return
        self._parents[span] = parent
        if span in self._above:
            self._open_ends.discard(span)
            self._climb(parent)

    def _climb(self, span: str | None) -> None:
        while span is not None and span not in self._above:
            self._above.add(span)
            if span not in self._parents:
                self._open_ends.add(span)
                return
            span = self._parents[span]

    def _counted(self) -> list[Told]:
        """Return the aggregates that repeat nothing; of several by one span, and of several runs, the largest one."""
        tops: dict[str, str | None] = {}
        best: dict[object, Told] = {}
        alone = not self._calls and all(event.kind == "run" for event in self._aggregates.values())
        for event in self._aggregates.values():
            if not (alone if event.kind == "run" else self._is_lowest(event, tops)):
                continue
            if TOLD_BY_EVENTS.get(event.type) in self._call_types:
                continue
            place = "run" if event.kind == "run" else event.span_id or event.event_id
            other = best.get(place)
            if other is None or _size(event) > _size(other):
                best[place] = event
        return list(best.values())

    def _is_lowest(self, event: Told, tops: dict[str, str | None]) -> bool:
        if event.span_id is not None and event.span_id in self._above:
            return False
        if not self._open_ends:
            return True
        # A span that is missing may hang under this one, unless this one hangs under it.
        top = self._top(event.parent_span_id if event.parent_span_id != event.span_id else None, tops)
        return self._open_ends == {top}

    def _top(self, span: str | None, tops: dict[str, str | None]) -> str | None:
        """Return the missing span that `span` hangs under in the end, or `None`; `tops` remembers the way."""
        way: list[str] = []
        seen: set[str] = set()
        while span is not None and span in self._parents and span not in tops and span not in seen:
            way.append(span)
            seen.add(span)
            span = self._parents[span]
        top = None if span is None or span in seen else tops.get(span, span)
        tops.update(dict.fromkeys(way, top))
        return top


def _size(event: Told) -> tuple[int, float, bytes]:
    return ((event.input_tokens or 0) + (event.output_tokens or 0), event.cost_usd or 0.0, event.event_id)


def _share(event: Told, *, bare: bool) -> Share:
    """Return what an aggregate adds; with calls below that tell nothing, those say that the cost is not known."""
    return _figures(event, sign=1, calls=0, unpriced=int(event.cost_usd is None and not bare))


def _taken_out(event: Told) -> Share:
    return _figures(event, sign=-1, calls=-1, unpriced=-int(event.cost_usd is None))


def _figures(event: Told, *, sign: int, calls: int, unpriced: int) -> Share:
    def signed(count: int | None) -> int | None:
        return None if count is None else sign * count

    return Share(
        calls,
        signed(event.input_tokens),
        signed(event.output_tokens),
        signed(event.cached_tokens),
        signed(event.cache_write_tokens),
        signed(event.reasoning_tokens),
        None if event.cost_usd is None else sign * event.cost_usd,
        unpriced,
    )
