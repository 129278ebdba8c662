"""What a run's log says about the run: the state every engine decision is made on (ENG-04)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from tracehold.engine.budget import Budget, Ledger
from tracehold.engine.event_types import (
    BUDGET_EXCEEDED,
    CHILD_COMPLETED,
    CHILD_STARTED,
    RUN_CANCEL,
    RUN_COMPLETED,
    RUN_ERASED,
    RUN_STARTED,
    child_completed_id,
    child_started_id,
    erased_id,
)
from tracehold.events.event import Event, MetaValue


class RunFold:
    """A fold of one stream, event by event; a cache, never the truth.

    Attributes:
        run_id: the run, which is also its stream.
        seq: the number of the last folded event, -1 before the first.
        algo, parent, tag, tenant, meta, budget, started_at: from the started event; `algo` is `None` before it.
        ledger: what it has spent.
        children: open children, id to tag.
        cancel_reason: why it was asked to end, or `None`; a crash may have kept it from ending.
        budget_reason: which budget it went beyond, likewise.
        completed: kind, value and reason, once it is done.
        erased: whether its payloads are gone.
    """

    __slots__ = (
        "_early",
        "algo",
        "budget",
        "budget_reason",
        "cancel_reason",
        "children",
        "completed",
        "erased",
        "ledger",
        "meta",
        "parent",
        "run_id",
        "seq",
        "started_at",
        "tag",
        "tenant",
    )

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.seq = -1
        self.algo: str | None = None
        self.parent: str | None = None
        self.tag: str | None = None
        self.tenant: str | None = None
        self.meta: dict[str, MetaValue] = {}
        self.budget = Budget()
        self.started_at: datetime | None = None
        self.ledger = Ledger()
        self.children: dict[str, str | None] = {}
        self.cancel_reason: str | None = None
        self.budget_reason: str | None = None
        self.completed: dict[str, Any] | None = None
        self.erased = False
        self._early: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether it was started and has not ended."""
        return self.algo is not None and self.completed is None

    def fold(self, event: Event) -> None:
        """Take in the next event of the stream; one that was folded already changes nothing."""
        if event.seq <= self.seq:
            return
        self.seq = event.seq
        kind, data = event.type, event.data
        if kind == RUN_STARTED:
            if self.algo is None:  # nobody raises a run's budget with a second one
                self._start(event)
        elif kind == RUN_COMPLETED:
            if self.completed is None:
                self.completed = {"kind": data.get("kind"), "value": data.get("value"), "reason": data.get("reason")}
        elif kind == CHILD_STARTED:
            if (child := _child_of(event, child_started_id)) is not None:
                self._child_started(child, data)
        elif kind == CHILD_COMPLETED:
            if (child := _child_of(event, child_completed_id)) is not None:
                self._child_completed(child)
            self.ledger = self.ledger.fold(event)
        elif kind == RUN_CANCEL:
            self.cancel_reason = _text(data.get("reason")) or "cancelled"
        elif kind == BUDGET_EXCEEDED:
            self.budget_reason = _text(data.get("reason")) or "budget exceeded"
        elif kind == RUN_ERASED:
            self.erased = self.erased or event.id == erased_id(self.run_id)
        else:
            self.ledger = self.ledger.fold(event)

    def _start(self, event: Event) -> None:
        data = event.data
        self.algo = _text(data.get("algo")) or ""
        self.parent = _text(data.get("parent"))
        self.tag = _text(data.get("run_tag"))
        self.tenant = event.tenant
        self.meta = dict(event.meta)
        self.started_at = event.time
        self.budget = read_budget(data.get("budget"))

    def _child_started(self, child: str, data: Mapping[str, Any]) -> None:
        if child in self._early:
            self._early.discard(child)
        else:
            self.children[child] = _text(data.get("tag"))

    def _child_completed(self, child: str) -> None:
        if child not in self.children:
            self._early.add(child)  # after a crash its start may be told last; that opens it no more
        else:
            del self.children[child]


def _child_of(event: Event, id_of: Callable[[str], str]) -> str | None:
    """Return the child an event tells of, if the engine wrote it: nobody else can take its id (EVT-07)."""
    child = _text(event.data.get("child_run_id"))
    return child if child is not None and event.id == id_of(child) else None


def read_budget(told: Any) -> Budget:
    """Return the budget a log tells, of any version.

    A limit that cannot be read limits nothing, rather than breaking the run (ENG-36), and switches no other one off
    (LED-07).
    """
    if not isinstance(told, Mapping):
        return Budget()
    limits = {name: told[name] for name in Budget.model_fields if told.get(name) is not None}
    try:
        return Budget.model_validate(limits)
    except ValidationError as error:
        unread = {problem["loc"][0] for problem in error.errors()}
        return Budget.model_validate({name: limit for name, limit in limits.items() if name not in unread})


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
