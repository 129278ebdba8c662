"""What a run's log says about the run: the state every engine decision is made on (ENG-04)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tracehold.engine.budget import Budget, Ledger
from tracehold.engine.event_types import CHILD_COMPLETED, CHILD_STARTED, RUN_COMPLETED, RUN_ERASED, RUN_STARTED
from tracehold.events.event import Event, MetaValue


class RunFold:
    """A fold of one stream, event by event; a cache, never the truth.

    Attributes:
        run_id: the run, which is also its stream.
        seq: the number of the last folded event, -1 before the first.
        algo, parent, tag, tenant, meta, budget, started_at: from the started event; `algo` is `None` before it.
        ledger: what it has spent.
        children: open children, id to tag.
        completed: kind, value and reason, once it is done.
        erased: whether its payloads are gone.
    """

    __slots__ = (
        "algo",
        "budget",
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
        self.completed: dict[str, Any] | None = None
        self.erased = False

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
            self._start(event)
        elif kind == RUN_COMPLETED:
            if self.completed is None:
                self.completed = {"kind": data.get("kind"), "value": data.get("value"), "reason": data.get("reason")}
        elif kind == CHILD_STARTED:
            self.children[str(data.get("child_run_id"))] = data.get("tag")
        elif kind == CHILD_COMPLETED:
            self.children.pop(str(data.get("child_run_id")), None)
            self.ledger = self.ledger.fold(event)
        elif kind == RUN_ERASED:
            self.erased = True
        else:
            self.ledger = self.ledger.fold(event)

    def _start(self, event: Event) -> None:
        data = event.data
        self.algo = str(data.get("algo") or "")
        self.parent = data.get("parent")
        self.tag = data.get("run_tag")
        self.tenant = event.tenant
        self.meta = dict(event.meta)
        self.started_at = event.time
        self.budget = read_budget(data.get("budget"))


def read_budget(told: Any) -> Budget:
    """Return the budget a log tells; one that cannot be read limits nothing rather than breaking the run (ENG-36)."""
    try:
        return Budget.model_validate(told or {})
    except ValueError:
        return Budget()
