"""Human approval: the actions that wait, and the signal that one must (HITL)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tracehold.core.control import ControlSignal
from tracehold.core.scope import Scope


@dataclass
class PendingAction:
    """One tool call that waits for a person (HITL-01).

    Attributes:
        tool_name: the tool.
        arguments: what it would be called with.
        call_id: the call's id; decisions are keyed by it (HITL-07).
        digest: SHA-256 over the canonical JSON of tool and arguments, which an approval is bound to (DEC-02).
        requested_at_ns: UTC nanoseconds at which the approval was asked for.
        expires_at_ns: from when on an approval is refused, UTC nanoseconds; `None` is never.
    """

    tool_name: str
    arguments: dict[str, Any]
    call_id: str
    digest: str | None = field(default=None, kw_only=True)
    requested_at_ns: int | None = field(default=None, kw_only=True)
    expires_at_ns: int | None = field(default=None, kw_only=True)


@dataclass
class Interrupt:
    """What a run gives back when it is suspended: which actions wait, and where its state is kept (HITL-02, HITL-05).

    Attributes:
        pendings: the actions of this turn that wait; one given alone becomes a list (HITL-03).
        scope: what `resume` needs to find the state; `None` for a single session.
    """

    pendings: list[PendingAction]
    scope: Scope | None = None

    def __post_init__(self) -> None:
        """Take a single action for a list of one (HITL-03); any other collection becomes a list (HITL-02)."""
        self.pendings = [self.pendings] if isinstance(self.pendings, PendingAction) else list(self.pendings)

    @property
    def seen(self) -> dict[str, str]:
        """Digest by call id: give it back as `resume(..., seen=)`, so that what is approved is what was shown."""
        return {action.call_id: action.digest for action in self.pendings if action.digest is not None}

    @property
    def pending(self) -> PendingAction | None:
        """The first action, or `None` when there is none (HITL-04)."""
        return self.pendings[0] if self.pendings else None


class ApprovalRequired(ControlSignal):
    """A tool call waits for a person. Raised by the harness, caught by whoever suspends the run (HITL-06)."""

    def __init__(self, pending: PendingAction) -> None:
        super().__init__(f"{pending.tool_name} waits for approval (call {pending.call_id})")
        self.pending = pending

    @property
    def pendings(self) -> list[PendingAction]:
        """The actions that wait: one, unless a sub-agent was suspended with several."""
        return [self.pending]
