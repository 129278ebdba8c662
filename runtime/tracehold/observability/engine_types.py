"""What each type of engine event is, as data: its kind, its outcome, and whether it opens or ends a span.

The observer and the collector both go by it, so that an event that arrives both ways is the same.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from tracehold.observability.event_types import Kind, Status

Half = Literal["opens", "ends", "point"]


class EngineType(NamedTuple):
    """One type of the engine's log.

    Attributes:
        kind: our kind.
        status: how it ended, or "started" for the opening half of a span that another event ends.
        half: whether it opens a span, ends one, or is a point in time.
        decision: what a gate said, where the type alone says so (DEC-01).
    """

    kind: Kind
    status: Status
    half: Half = "point"
    decision: str | None = None


ENGINE_TYPES: Final[dict[str, EngineType]] = {
    "run.started": EngineType("run", "started", "opens"),
    "run.completed": EngineType("run", "unset", "ends"),
    "run.cancel": EngineType("run", "unset"),
    "run.resumed": EngineType("run", "unset"),
    "run.suspended": EngineType("run", "suspended"),
    "run.erased": EngineType("erasure", "ok"),
    "budget.exceeded": EngineType("gate", "blocked", decision="limited"),
    "llm.requested": EngineType("llm", "started", "opens"),
    "llm.completed": EngineType("llm", "ok", "ends"),
    "llm.failed": EngineType("llm", "error", "ends"),
    "llm.delta": EngineType("other", "unset"),
    "tool.requested": EngineType("tool", "started", "opens"),
    "tool.started": EngineType("tool", "started", "opens"),
    "tool.completed": EngineType("tool", "ok", "ends"),
    "tool.failed": EngineType("tool", "error", "ends"),
    "guard.verdict": EngineType("guardrail", "ok"),
    "approval.requested": EngineType("approval", "suspended", decision="suspended"),
    "approval.granted": EngineType("approval", "ok", decision="allowed"),
    "approval.rejected": EngineType("approval", "blocked", decision="rejected"),
    "approval.denied": EngineType("approval", "blocked", decision="rejected"),
    "approval.expired": EngineType("approval", "blocked", decision="expired"),
    "memory.requested": EngineType("memory", "started", "opens"),
    "memory.completed": EngineType("memory", "ok", "ends"),
    "memory.failed": EngineType("memory", "error", "ends"),
    "retrieval.requested": EngineType("retrieval", "started", "opens"),
    "retrieval.completed": EngineType("retrieval", "ok", "ends"),
    "retrieval.failed": EngineType("retrieval", "error", "ends"),
    "context.summary": EngineType("context", "ok"),
    "plan.created": EngineType("task", "ok"),
    "task.started": EngineType("task", "started", "opens"),
    "task.completed": EngineType("task", "ok", "ends"),
    "task.failed": EngineType("task", "error", "ends"),
    "child.started": EngineType("task", "started", "opens"),
    "child.completed": EngineType("task", "unset", "ends"),
    "session.message": EngineType("session", "ok"),
    "session.reply": EngineType("session", "ok"),
    "eval.score": EngineType("score", "ok"),
    "timer.fired": EngineType("other", "ok"),
}
"""Type without its prefix -> what it is. A type that is not here is kind "other", a point."""

UNLISTED: Final = EngineType("other", "unset")

PREFIXES: Final = ("aaa.", "tracehold.")
"""The engine's documented prefix and our own (DEC-16)."""

RUN_OUTCOMES: Final[dict[str, Status]] = {
    "success": "ok",
    "failed": "error",
    "invalid_input": "error",
    "error": "error",
    "timeout": "error",
    "budget_exceeded": "error",
    "deadline_exceeded": "error",
    "blocked": "blocked",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "suspended": "suspended",
}
"""`kind` of a run's outcome -> how the run ended. Why is in the content."""


STOPPED_BY_PERSON: Final = frozenset({"rejected", "expired"})
"""Error types of a call that never ran because of an approval. The approval's own event is the denial (DEC-01)."""


def short_type(event_type: str) -> str:
    """Return a type without the prefix of the engine or ours."""
    for prefix in PREFIXES:
        if event_type.startswith(prefix):
            return event_type[len(prefix) :]
    return event_type
