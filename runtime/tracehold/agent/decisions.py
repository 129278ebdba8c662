"""What a resume does with the decisions it is given: check, claim, record (DEC-02).

1. Every decision is about an action that waits (HITL-07, HITL-08).
2. An approval is bound to what was hashed when it was asked for, and to what the approver saw: for anything else the
   action waits again.
3. One that came too late is refused.
4. The claim replaces the checkpoint; only the process whose claim holds goes on, so an approval is used once.
5. Who decided, when and on which digest is recorded by that process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from tracehold.agent.journal import Journal
from tracehold.agent.rulings import Ruling, drop, keep, rulings_of
from tracehold.agent.turn import NESTED, TurnCall
from tracehold.core.clock import now_ns
from tracehold.core.errors import CanonicalJsonError
from tracehold.core.ids import derived_event_id
from tracehold.execution.recording import Tracing, emit
from tracehold.governance.approvals import Verification, bind, verify
from tracehold.governance.decisions import Decisions, behind
from tracehold.governance.hitl import PendingAction
from tracehold.observability.event_types import APPROVAL_DECISION, APPROVAL_REQUEST


class Answer(NamedTuple):
    """One decision as it arrives.

    Attributes:
        approved: yes or no.
        decided_by: the principal, `None` when nobody said.
        reason: in their own words.
        decided_at_ns: UTC nanoseconds.
        seen: the digest of what the approver saw, when they said.
    """

    approved: bool
    decided_by: str | None
    reason: str | None
    decided_at_ns: int
    seen: str | None = None


class WaitsAgain(NamedTuple):
    """An action that waits once more, because the approval was for other arguments.

    Attributes:
        action: as it stands now.
        approved_digest: what the approval was for.
        decided_by: who gave it, `None` when nobody said.
    """

    action: PendingAction
    approved_digest: str
    decided_by: str | None


Again: TypeAlias = list[WaitsAgain]


def rule(journal: Journal, table: Decisions, seen: Mapping[str, str] | None = None) -> Again:
    """Apply decisions to the pending actions of a loaded state, and return those that wait again.

    Args:
        journal: the suspended run.
        table: what was decided on which of them, and by whom.
        seen: digest by call id, as the approver saw the actions; checked beside the stored one.

    Raises:
        ValueError: `seen` is given and leaves out an action that is approved.
    """
    _check_seen(table, seen)
    now = now_ns()
    answers = {}
    for call_id, approved in table.items():
        who = behind(table, call_id)
        answers[call_id] = Answer(approved, who.decided_by, who.reason, now, (seen or {}).get(call_id))
    return _apply(journal, answers)


def _check_seen(table: Decisions, seen: Mapping[str, str] | None) -> None:
    left_out = [call_id for call_id, approved in table.items() if approved and seen is not None and call_id not in seen]
    if left_out:
        raise ValueError(f"seen must hold the digest of each action that is approved; it lacks {len(left_out)}")


def hand_over(outer: Journal, call: TurnCall, inner: Journal) -> tuple[bool, Again]:
    """Apply what was decided in the outer run to the actions that wait inside one of its calls.

    An answer holds for the request it was given to, and for no later one under the same call id.

    Returns:
        Whether there was an answer, and the actions that wait again.
    """
    prefix = call.call_id + NESTED
    asked = {prefix + action.call_id: action.requested_at_ns for action in inner.state.pending}
    answers = {
        ruling.call_id.removeprefix(prefix): Answer(
            ruling.approved, ruling.decided_by, ruling.reason, ruling.decided_at_ns, ruling.digest
        )
        for ruling in rulings_of(outer)
        if ruling.call_id in asked and asked[ruling.call_id] == ruling.requested_at_ns
    }
    return bool(answers), _apply(inner, answers)


def _apply(journal: Journal, answers: Mapping[str, Answer]) -> Again:
    state = journal.state
    again = _changed_since(journal)
    waiting: list[PendingAction] = []
    told: set[str] = set()  # what the call it stands in has to hear
    for action in state.pending:
        answer = answers.get(action.call_id)
        if answer is None:
            waiting.append(action)
            continue
        verdict = _verdict(journal, action, answer)
        if verdict == "mismatch" and answer.approved:
            fresh = _bound_again(journal, action, answer.decided_at_ns)
            again.append(WaitsAgain(fresh, answer.seen or action.digest or "", answer.decided_by))
            waiting.append(fresh)
            if _nested_in(journal, action.call_id):
                told.add(action.call_id)  # entered again, it shows what really waits
            continue
        told.add(action.call_id)
        keep(journal, _ruling(action, answer, expired=verdict == "expired"))
    for call in journal.calls:
        if call.state == "pending" and any(call.owns(call_id) for call_id in told):
            call.state = "waiting"
            # What still waits inside it is told again when it is entered again.
            waiting = [action for action in waiting if not call.owns(action.call_id)]
    state.pending = [*waiting, *(one.action for one in again if one.action.call_id not in answers)]
    return again


def _ruling(action: PendingAction, answer: Answer, *, expired: bool) -> Ruling:
    return Ruling(
        action.call_id,
        action.tool_name,
        answer.approved,
        action.digest,
        answer.decided_by,
        answer.reason,
        answer.decided_at_ns,
        requested_at_ns=action.requested_at_ns,
        expires_at_ns=action.expires_at_ns,
        expired=expired,
    )


def _changed_since(journal: Journal) -> Again:
    """Take back approvals, given before a crash, of calls that are not what was approved any more."""
    again: Again = []
    for ruling in rulings_of(journal):
        call = _call(journal, ruling.call_id)
        if call is None or call.state != "waiting" or not ruling.approved or ruling.expired:
            continue
        asked = PendingAction(
            ruling.tool_name, call.arguments, call.call_id, digest=ruling.digest, expires_at_ns=ruling.expires_at_ns
        )
        if verify(asked, tool_name=call.name, arguments=call.arguments, now_ns=ruling.decided_at_ns) == "ok":
            continue
        drop(journal, [ruling.call_id])
        call.state = "pending"
        again.append(WaitsAgain(_bound_again(journal, asked, now_ns()), ruling.digest or "", ruling.decided_by))
    return again


def record(journal: Journal, tracer: Tracing | None) -> None:
    """Record decisions whose event is not out yet; an id made from the decision keeps a repeat from counting twice."""
    for ruling in rulings_of(journal):
        if ruling.recorded or _nested_in(journal, ruling.call_id):
            continue  # one that waited inside a call is recorded there
        decision = "expired" if ruling.expired else "allowed" if ruling.approved else "rejected"
        event = {
            "type": APPROVAL_DECISION,
            "event_id": event_id_of(journal, ruling.decided_at_ns, ruling.call_id, ruling.digest or ""),
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
        keep(journal, replace(ruling, recorded=True))


def record_mismatches(again: Again, tracer: Tracing | None) -> None:
    """Record that actions wait again, because the approval was for other arguments (DEC-02)."""
    for action, approved_digest, decided_by in again:
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
                "decided_by": decided_by or "approval",
                "reason": "the approval was for other arguments; this call waits again",
            },
        )


def event_id_of(journal: Journal, at_ns: int, *parts: str) -> str:
    """Return the id of an event that a crash may make this run record twice."""
    where = journal.scope.session if journal.scope is not None and journal.inner else None
    return derived_event_id(at_ns, str(journal.state.run_id), where or "", *parts)


def _call(journal: Journal, call_id: str) -> TurnCall | None:
    return next((call for call in journal.calls if call.call_id == call_id), None)


def _nested_in(journal: Journal, call_id: str) -> bool:
    return _call(journal, call_id) is None and any(call.owns(call_id) for call in journal.calls)


def _verdict(journal: Journal, action: PendingAction, answer: Answer) -> Verification:
    if answer.seen is not None and answer.seen != action.digest:
        return "mismatch"
    call = _call(journal, action.call_id)
    if call is not None:
        name, arguments = call.name, call.arguments
    elif _nested_in(journal, action.call_id):
        name, arguments = action.tool_name, action.arguments  # the agent inside compares it with its call
    else:
        return "mismatch"
    return verify(action, tool_name=name, arguments=arguments, now_ns=answer.decided_at_ns)


def _bound_again(journal: Journal, action: PendingAction, now: int) -> PendingAction:
    call = _call(journal, action.call_id)
    if call is None:
        return action
    try:
        fresh = bind(call.name, call.arguments, call.call_id, now_ns=now)
    except CanonicalJsonError:
        return replace(action, digest=None)  # never approved as it stands
    return replace(fresh, expires_at_ns=action.expires_at_ns)
