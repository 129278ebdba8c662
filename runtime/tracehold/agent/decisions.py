"""What a resume does with the decisions it is given: check, claim, record (DEC-02).

1. Every decision is about an action that waits (HITL-07, HITL-08).
2. An approval is bound to what was hashed when it was asked for, and to what the approver saw: for anything else the
   action waits again.
3. One that came too late is refused.
4. The claim replaces the checkpoint; only the process whose claim holds goes on, so an approval is used once.
5. Who decided, when and on which digest is recorded by that process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from tracehold.agent.journal import Journal
from tracehold.agent.turn import TurnCall
from tracehold.core.clock import now_ns
from tracehold.core.ids import derived_event_id
from tracehold.execution.recording import Tracing, emit
from tracehold.governance.approvals import bind, verify
from tracehold.governance.decisions import Behind, Decisions, behind
from tracehold.governance.hitl import PendingAction
from tracehold.observability.event_types import APPROVAL_DECISION, APPROVAL_REQUEST

_RULINGS: Final = "rulings"


@dataclass
class Ruling:
    """What was decided on one action; kept with the checkpoint until its call is done.

    Attributes:
        call_id: the call.
        tool_name: its tool.
        approved: yes or no.
        digest: of the tool and arguments it holds for.
        decided_by: the principal, `None` when nobody said.
        reason: in their own words.
        decided_at_ns: UTC nanoseconds.
        expired: whether it came too late.
        recorded: whether its event was emitted.
    """

    call_id: str
    tool_name: str
    approved: bool
    digest: str | None
    decided_by: str | None
    reason: str | None
    decided_at_ns: int
    expired: bool = False
    recorded: bool = False


def rule(journal: Journal, table: Decisions, seen: Mapping[str, str] | None = None) -> list[tuple[PendingAction, str]]:
    """Apply decisions to the pending actions of a loaded state.

    Args:
        journal: the suspended run.
        table: what was decided on which of them, and by whom.
        seen: digest by call id, as the approver saw the actions; checked beside the stored one.

    Returns:
        Actions that wait again because the approval was for other arguments, each with the digest it was for.
    """
    state = journal.state
    now = now_ns()
    waiting: list[PendingAction] = []
    again: list[tuple[PendingAction, str]] = []
    rulings: dict[str, Any] = journal.meta.setdefault(_RULINGS, {})
    for action in state.pending:
        if action.call_id not in table:
            waiting.append(action)
            continue
        approved, who = table[action.call_id], behind(table, action.call_id)
        verdict = _verdict(journal, action, seen, now)
        if verdict == "mismatch" and approved:
            fresh = _bound_again(journal, action, now)
            waiting.append(fresh)
            again.append((fresh, (seen or {}).get(action.call_id) or action.digest or ""))
            continue
        ruling = Ruling(
            action.call_id,
            action.tool_name,
            approved,
            action.digest,
            who.decided_by,
            who.reason,
            now,
            expired=verdict == "expired",
        )
        rulings[action.call_id] = asdict(ruling)
    state.decisions = {call_id: ruling["approved"] for call_id, ruling in rulings.items()}
    for call in journal.calls:
        if call.state == "pending" and any(call.owns(call_id) for call_id in rulings):
            call.state = "waiting"
            # What still waits inside it is told again when it is entered again.
            waiting = [action for action in waiting if not call.owns(action.call_id)]
    state.pending = waiting
    return again


def decisions_of(journal: Journal) -> Decisions:
    """Return the decision table for the calls that are still to be carried out."""
    rulings = _rulings(journal)
    table = Decisions({ruling.call_id: ruling.approved for ruling in rulings})
    table.behind |= {ruling.call_id: Behind(ruling.decided_by, ruling.reason, ruling.expired) for ruling in rulings}
    return table


def record(journal: Journal, tracer: Tracing | None) -> None:
    """Record decisions whose event is not out yet; an id made from the decision keeps a repeat from counting twice."""
    for ruling in _rulings(journal):
        if ruling.recorded or _call(journal, ruling.call_id) is None:
            continue  # one that waited inside a call is recorded there
        decision = "expired" if ruling.expired else "allowed" if ruling.approved else "rejected"
        event = {
            "type": APPROVAL_DECISION,
            "event_id": derived_event_id(
                ruling.decided_at_ns, str(journal.state.run_id), ruling.call_id, ruling.digest or ""
            ),
            "tool": ruling.tool_name,
            "call_id": ruling.call_id,
            "status": "ok",
            "decision": decision,
            "decided_by": ruling.decided_by or "approval",
            "digest": ruling.digest,
            "decided_at_ns": ruling.decided_at_ns,
            "reason": ruling.reason,
        }
        emit(tracer, event)
        journal.meta[_RULINGS][ruling.call_id] = asdict(replace(ruling, recorded=True))


def record_mismatches(again: Iterable[tuple[PendingAction, str]], tracer: Tracing | None) -> None:
    """Record that actions wait again, because the approval was for other arguments (DEC-02)."""
    for action, approved_digest in again:
        emit(
            tracer,
            {
                "type": APPROVAL_REQUEST,
                "tool": action.tool_name,
                "params": action.arguments,
                "call_id": action.call_id,
                "status": "suspended",
                "decision": "suspended",
                "digest": action.digest,
                "approved_digest": approved_digest,
                "reason": "the approval was for other arguments; this call waits again",
            },
        )


def settle(journal: Journal, call: TurnCall) -> None:
    """Forget the rulings on a call that is done, and on what waited inside it: an approval is used once."""
    rulings = journal.meta.get(_RULINGS, {})
    for call_id in [known for known in rulings if call.owns(known)]:
        del rulings[call_id]
        journal.state.decisions.pop(call_id, None)


def _rulings(journal: Journal) -> list[Ruling]:
    return [Ruling(**fields) for fields in journal.meta.get(_RULINGS, {}).values()]


def _call(journal: Journal, call_id: str) -> TurnCall | None:
    return next((call for call in journal.calls if call.call_id == call_id and not call.nested), None)


def _verdict(journal: Journal, action: PendingAction, seen: Mapping[str, str] | None, now: int) -> str:
    if seen is not None and action.call_id in seen and seen[action.call_id] != action.digest:
        return "mismatch"
    if any(call.nested and call.owns(action.call_id) for call in journal.calls):
        return "ok"  # the agent inside judges its own
    call = _call(journal, action.call_id)
    if call is None:
        return "mismatch"
    return verify(action, tool_name=call.name, arguments=call.arguments, now_ns=now)


def _bound_again(journal: Journal, action: PendingAction, now: int) -> PendingAction:
    call = _call(journal, action.call_id)
    if call is None:
        return action
    fresh = bind(call.name, call.arguments, call.call_id, now_ns=now)
    return replace(fresh, expires_at_ns=action.expires_at_ns)
