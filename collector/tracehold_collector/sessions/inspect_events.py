"""The transcript of one sample in an Inspect log: model calls, tool calls, approvals, spans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tracehold.core.clock import NS_PER_S

from tracehold_collector.core.record import Rejection
from tracehold_collector.sessions.reading import (
    Event,
    Session,
    guarded,
    items,
    mapping,
    open_half,
    others,
    text,
    time_ns,
    too_deep,
    width_ns,
)

_USAGE: Final = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "total_tokens": "total_tokens",
    "input_tokens_cache_read": "cached_tokens",
    "input_tokens_cache_write": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
}
"""Inspect's names of token counts -> ours; its total tells whether cached ones are inside the input."""

_APPROVALS: Final = {"approve": "allowed", "modify": "allowed", "reject": "rejected", "terminate": "rejected"}
"""What an approver said -> a decision; `escalate` hands over to the next approver and decides nothing."""

_REFUSALS: Final = ("reject", "terminate")
_HUMAN: Final = "human"
_KINDS: Final = {
    "sample_init": "session",
    "state": "context",
    "store": "context",
    "compaction": "context",
    "score": "score",
    "sandbox": "task",
    "subtask": "task",
    "step": "task",
    "input": "session",
}
_ATTACHMENT: Final = "attachment://"
_COMMON: Final = ("event", "timestamp", "span_id", "working_start", "completed", "working_time", "pending", "uuid")


def read(
    session: Session, found: list[Any], attachments: dict[str, Any], where: str, *, agent: str | None
) -> Iterator[Event | Rejection]:
    """Yield the events of a sample.

    Args:
        session: the sample's.
        found: its `events`.
        attachments: the texts that events refer to.
        where: the sample's place, for people.
        agent: who acts where no span names another.
    """
    yield from _Sample(session, attachments, agent).read(found, where, "event", None)


def outcome(error: Any, approver: str | None) -> dict[str, Any]:
    """Return how a tool call ended: Inspect tells a refused approval from the failures by the error's type.

    Args:
        error: of the call, or `None`.
        approver: who refused it, when an approval event says.
    """
    if not isinstance(error, dict):
        return {"status": "error", "error": error} if error else {"status": "ok"}
    if error.get("type") == "approval":
        decision = "rejected" if approver == _HUMAN else "denied"
        reason = error.get("message")
        return {"status": decision, "decision": decision, "decided_by": approver or "approval", "reason": reason}
    return {"status": "error", "error_type": text(error.get("type")), "error": error.get("message")}


def summed(by_model: dict[str, Any]) -> dict[str, int]:
    """Return the usage of several models together, under our names."""
    total: dict[str, int] = {}
    for usage in by_model.values():
        for name, count in _usage(mapping(usage)).items():
            if isinstance(count, int):
                total[name] = total.get(name, 0) + count
    return total


def attached(value: Any, attachments: dict[str, Any]) -> Any:
    """Return `value` with the texts it refers to in their places."""
    if isinstance(value, str):
        return attachments.get(value[len(_ATTACHMENT) :], value) if value.startswith(_ATTACHMENT) else value
    if isinstance(value, dict):
        return {key: attached(item, attachments) for key, item in value.items()}
    return [attached(item, attachments) for item in value] if isinstance(value, list) else value


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    return {ours: usage[theirs] for theirs, ours in _USAGE.items() if usage.get(theirs) is not None}


class _Sample:
    def __init__(self, session: Session, attachments: dict[str, Any], agent: str | None) -> None:
        self._session = session
        self._attachments = attachments
        self._agents: dict[str | None, str | None] = {None: agent}
        self._open: dict[str, dict[str, Any]] = {}
        self._refused: dict[str, Event] = {}
        self._approver: dict[str, str] = {}

    def read(self, found: list[Any], where: str, local: str, inside: str | None) -> Iterator[Event | Rejection]:
        for place, event in enumerate(found):
            spot = f"{where}.events[{place}]"
            problem = (
                Rejection(spot, "an event must be an object")
                if not isinstance(event, dict)
                else too_deep(others(event, "events"), spot)
            )
            if problem is not None:
                yield problem
                continue
            name = text(event.get("uuid")) or f"{local}/{place}"
            yield from guarded(spot, self._event(attached(event, self._attachments), name, place, inside))
            # Older logs hold what happened inside of a call in the call itself.
            yield from self.read(items(event.get("events")), spot, name, name)
        if inside is None:
            yield from self._left()

    def _event(self, event: dict[str, Any], local: str, place: int, inside: str | None) -> Iterator[Event]:
        kind = event.get("event")
        span = text(event.get("span_id"))
        start, end = time_ns(event.get("timestamp")), time_ns(event.get("completed"))
        common: dict[str, Any] = {
            "agent": self._agents.get(span, self._agents[None]),
            "step_index": place if inside is None else None,
            "parent": inside or (f"span/{span}" if span else None),
            "started_at_ns": start,
            "duration_ns": width_ns(start, end),
        }
        if kind == "span_begin":
            self._begin(event)
        elif kind == "span_end":
            begun = self._open.pop(str(event.get("id")), None)
            if begun is not None:
                yield self._span(begun, start)
        elif kind == "model":
            yield self._model(event, local, common)
        elif kind == "tool":
            yield self._tool(event, local, common)
        elif kind == "approval":
            yield self._approval(event, local, common)
        else:
            yield self._session.event(
                local,
                f"inspect.{kind}",
                kind=_KINDS.get(str(kind), "other"),
                status="error" if kind == "error" else "unset",
                said=others(event, *_COMMON, "events"),
                **common,
            )

    def _begin(self, event: dict[str, Any]) -> None:
        name = str(event.get("id"))
        above = text(event.get("parent_id"))
        agent = text(event.get("name")) if event.get("type") == "agent" else None
        self._agents[name] = agent or self._agents.get(above, self._agents[None])
        self._open[name] = event

    def _span(self, begun: dict[str, Any], end: int | None) -> Event:
        start, above = time_ns(begun.get("timestamp")), text(begun.get("parent_id"))
        return self._session.event(
            f"span/{begun.get('id')}",
            f"inspect.{begun.get('type') or 'span'}",
            kind="agent" if begun.get("type") == "agent" else "task",
            name=text(begun.get("name")),
            agent=self._agents.get(str(begun.get("id"))),
            parent=f"span/{above}" if above else None,
            status="unset",
            started_at_ns=start,
            duration_ns=width_ns(start, end),
            said=others(begun, *_COMMON, "id", "parent_id", "type", "name"),
        )

    def _model(self, event: dict[str, Any], local: str, common: dict[str, Any]) -> Event:
        output = mapping(event.get("output"))
        asked = text(event.get("model"))
        usage = mapping(output.get("usage"))
        first = mapping(next(iter(items(output.get("choices"))), None))
        took = output.get("time")
        if common["duration_ns"] is None and isinstance(took, int | float) and took >= 0:
            common["duration_ns"] = int(took * NS_PER_S)
        # A reply out of Inspect's own cache asked no model.
        cached = event.get("cache") == "read"
        made = self._session.event(
            local,
            "inspect.cached_reply" if cached else "llm_call",
            kind="context" if cached else None,
            status="error" if event.get("error") or output.get("error") else "ok",
            error=event.get("error") or output.get("error"),
            model=text(output.get("model")) or asked,
            provider=asked.partition("/")[0] if asked and "/" in asked else None,
            usage=(_usage(usage) or None) if not cached else None,
            cost_usd=usage.get("total_cost") if not cached else None,
            finish_reason=text(first.get("stop_reason")),
            input=event.get("input"),
            output=output or None,
            said=others(event, *_COMMON, "input", "output", "error", "model"),
            **common,
        )
        return open_half(made) if event.get("pending") else made

    def _tool(self, event: dict[str, Any], local: str, common: dict[str, Any]) -> Event:
        call_id = text(event.get("id"))
        ended = outcome(event.get("error"), self._approver.get(call_id or ""))
        if ended["status"] == "ok" and event.get("failed"):
            ended = {"status": "error"}
        if "decision" in ended and call_id:
            self._refused.pop(call_id, None)
        made = self._session.event(
            local,
            "tool_call",
            tool=text(event.get("function")),
            call_id=call_id,
            params=event.get("arguments"),
            result=event.get("result"),
            said=others(event, *_COMMON, "id", "function", "arguments", "result", "error", "events", "type"),
            **common,
            **ended,
        )
        return open_half(made) if event.get("pending") else made

    def _approval(self, event: dict[str, Any], local: str, common: dict[str, Any]) -> Event:
        call, approver = mapping(event.get("call")), text(event.get("approver"))
        decision = _APPROVALS.get(str(event.get("decision")))
        if decision == "rejected" and approver != _HUMAN:
            decision = "denied"
        call_id = text(call.get("id"))
        fields: dict[str, Any] = {
            "tool": text(call.get("function")),
            "call_id": call_id,
            "params": call.get("arguments"),
            "decision": decision,
            "decided_by": approver,
            "reason": event.get("explanation"),
            **common,
        }
        if event.get("decision") in _REFUSALS and call_id:
            self._approver[call_id] = approver or "approval"
            self._refused[call_id] = self._session.event(f"{local}/call", "tool_call", status=decision, **fields)
        said = others(event, *_COMMON, "call", "approver", "explanation")
        return self._session.event(local, "approval_decision", said=said, **fields)

    def _left(self) -> Iterator[Event]:
        """Yield spans without an end, and refused calls that no tool event tells of: the sample ended with them."""
        for begun in self._open.values():
            yield self._span(begun, None)
        yield from self._refused.values()
