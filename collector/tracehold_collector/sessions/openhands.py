"""OpenHands' event trajectories: actions and the observations they caused, with the whole reply of the model.

Source: `openhands/events` and `openhands/core/schema` of All-Hands-AI/OpenHands, and recorded trajectories.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from tracehold.core.clock import NS_PER_S

from tracehold_collector.core.record import Rejection
from tracehold_collector.sessions.reading import (
    Event,
    Reader,
    Session,
    digest,
    guarded,
    items,
    mapping,
    open_half,
    others,
    run_id,
    text,
    time_ns,
    too_deep,
    width_ns,
)

_FORM: Final = "openhands"
_SOURCES: Final = ("user", "agent", "environment")
_TOOLS: Final = frozenset(
    {"run", "run_ipython", "read", "write", "edit", "browse", "browse_interactive", "call_tool_mcp", "task_tracking"}
)
"""Actions that are a call of a tool; the others speak, think, or steer."""

_KINDS: Final = {
    "message": "session",
    "system": "context",
    "think": "context",
    "recall": "memory",
    "condensation": "context",
    "condensation_request": "context",
    "change_agent_state": "session",
    "agent_state_changed": "session",
    "delegate": "agent",
}
_REJECTED: Final = "user_rejected"
"""The observation in place of a call that a person refused (`ObservationType.USER_REJECTED`)."""

_ENDS: Final = {"finished": "ok", "error": "error", "stopped": "cancelled", "rejected": "error"}
_QUARTER_S: Final = 900
_SLOW_S: Final = 450
_READ: Final = ("id", "timestamp", "source", "action", "observation", "cause", "tool_call_metadata", "timeout")


def looks(value: Any) -> bool:
    """Whether a parsed document is surely a trajectory of OpenHands."""
    return isinstance(value, list) and bool(value) and all(map(_is_event, value[:5]))


def _is_event(value: Any) -> bool:
    if not isinstance(value, dict) or type(value.get("id")) is not int or value.get("source") not in _SOURCES:
        return False
    return "action" in value or "observation" in value


def read(found: Any) -> Iterator[Event | Rejection]:
    """Yield the events of a trajectory: one run. Delegates are told apart by `agent`."""
    first = found[0]
    key = digest(str(first.get("timestamp")), str(first.get("id")), str(first.get("source")))
    yield from _Trajectory(Session(_FORM, key, run_id(_FORM, key), _FORM), _zone_s(found)).read(found)


def _zone_s(found: list[Any]) -> int | None:
    """Return how many seconds the file's clock is ahead of UTC, or `None` when nothing tells.

    Times are written without a zone. A model's reply has a time of its own, in seconds since 1970: it came just before
    the event that holds it, and zones differ by quarters of an hour.
    """
    for event in found:
        created = _reply_of(event).get("created") if isinstance(event, dict) else None
        at = _naive_s(event.get("timestamp")) if isinstance(event, dict) else None
        if at is None or type(created) is not int:
            continue
        ahead = round((at - created) / _QUARTER_S) * _QUARTER_S
        if abs(at - created - ahead) < _SLOW_S and abs(ahead) <= 14 * 3600:
            return ahead
    return None


def _naive_s(value: object) -> float | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment.replace(tzinfo=UTC).timestamp() if moment is not None and moment.tzinfo is None else None
    except (ValueError, OverflowError):
        return None


def _reply_of(event: dict[str, Any]) -> dict[str, Any]:
    return mapping(mapping(event.get("tool_call_metadata")).get("model_response"))


class _Trajectory:
    def __init__(self, session: Session, zone_s: int | None) -> None:
        self._session = session
        self._zone_s = zone_s
        self._agents = [_FORM]
        self._replies: set[str] = set()
        self._calls: dict[int, tuple[int | None, dict[str, Any]]] = {}
        self._followed: set[int] = set()

    def read(self, found: list[Any]) -> Iterator[Event | Rejection]:
        started = self._at(found[0].get("timestamp"))
        zone = "not written; read as UTC" if self._zone_s is None else f"not written; {self._zone_s} s ahead of UTC"
        yield self._session.run(name="OpenHands", agent=_FORM, status="unset", started_at_ns=started, zone=zone)
        for place, event in enumerate(found):
            where = f"[{place}]"
            problem = (
                too_deep(event, where)
                if isinstance(event, dict) and type(event.get("id")) is int
                else Rejection(where, "an event must be an object with a number as its id")
            )
            if problem is not None:
                yield problem
                continue
            yield from guarded(where, self._take(event, event["id"], self._at(event.get("timestamp")), started))
        for name, (at, fields) in self._calls.items():
            made = self._session.event(f"event/{name}", "tool_call", status="unset", started_at_ns=at, **fields)
            yield made if name in self._followed else open_half(made)

    def _at(self, value: object) -> int | None:
        with_zone = time_ns(value)
        if with_zone is not None or _naive_s(value) is None:
            return with_zone
        at = time_ns(f"{value}+00:00")
        return at - (self._zone_s or 0) * NS_PER_S if at is not None else None

    def _take(self, event: dict[str, Any], name: int, at: int | None, began: int | None) -> Iterator[Event]:
        if "observation" in event:
            yield from self._observed(event, name, at, began)
            return
        yield from self._reply(event, name, at)
        action = str(event.get("action"))
        if event.get("source") == "agent":
            self._followed |= self._calls.keys()
        if action in _TOOLS:
            call = mapping(event.get("tool_call_metadata"))
            fields = {
                "agent": self._agents[-1],
                "step_index": name,
                "tool": text(call.get("function_name")) or action,
                "call_id": text(call.get("tool_call_id")),
                "params": event.get("args"),
                "said": others(event, *_READ, "args"),
            }
            self._calls[name] = at, fields
            return
        if action == "delegate":
            self._agents.append(text(mapping(event.get("args")).get("agent")) or "delegate")
        kind = "context" if action == "message" and event.get("source") == "agent" else _KINDS.get(action, "other")
        yield self._event(event, name, action, at, "task" if action in {"finish", "reject"} else kind)
        if action == "finish":
            yield self._end("ok", f"event/{name}/end", began, at)

    def _reply(self, event: dict[str, Any], name: int, at: int | None) -> Iterator[Event]:
        """Yield the model call that an action came out of; several actions may come out of one."""
        reply = _reply_of(event)
        reply_id = text(reply.get("id")) or f"event/{name}"
        if not reply or reply_id in self._replies:
            return
        self._replies.add(reply_id)
        choice = mapping(next(iter(items(reply.get("choices"))), None))
        yield self._session.event(
            f"reply/{reply_id}",
            "llm_call",
            agent=self._agents[-1],
            step_index=name,
            status="ok",
            started_at_ns=at,
            model=text(reply.get("model")),
            usage=reply.get("usage"),
            finish_reason=text(choice.get("finish_reason")),
            output=reply.get("choices"),
            said=others(reply, "id", "model", "usage", "choices"),
        )

    def _observed(self, event: dict[str, Any], name: int, at: int | None, began: int | None) -> Iterator[Event]:
        seen = str(event.get("observation"))
        cause = event.get("cause")
        call = self._calls.pop(cause, None) if type(cause) is int else None
        if call is not None:
            started, fields = call
            yield self._session.event(
                f"event/{cause}",
                "tool_call",
                started_at_ns=started,
                duration_ns=width_ns(started, at),
                result=event.get("content"),
                observed=others(event, *_READ, "content"),
                **fields,
                **_outcome(seen, event),
            )
            return
        if seen == "delegate" and len(self._agents) > 1:
            self._agents.pop()
        yield self._event(event, name, seen, at, _KINDS.get(seen, "other"))
        state = mapping(event.get("extras")).get("agent_state")
        if seen == "agent_state_changed" and isinstance(state, str) and state in _ENDS:
            yield self._end(_ENDS[state], f"event/{name}/end", began, at)

    def _event(self, event: dict[str, Any], name: int, word: str, at: int | None, kind: str) -> Event:
        return self._session.event(
            f"event/{name}",
            f"openhands.{word}",
            kind=kind,
            agent=self._agents[-1],
            step_index=name,
            status="error" if word == "error" else "unset",
            started_at_ns=at,
            said=others(event, "id", "timestamp", "tool_call_metadata"),
        )

    def _end(self, status: str, local: str, began: int | None, at: int | None) -> Event:
        """Return the end of the run: an event of its own, since a file is also read while it grows."""
        end = self._session.run(
            name="OpenHands", agent=_FORM, status=status, started_at_ns=began, duration_ns=width_ns(began, at)
        )
        end["event_id"] = self._session.event(local, "end")["event_id"]
        return end


def _outcome(seen: str, event: dict[str, Any]) -> dict[str, Any]:
    if seen == _REJECTED:
        return {"status": "rejected", "decision": "rejected", "decided_by": "user", "reason": event.get("content")}
    if seen == "error":
        return {"status": "error", "error_type": text(mapping(event.get("extras")).get("error_id"))}
    return {"status": "error" if event.get("success") is False else "ok"}


READER: Final = Reader(_FORM, "an OpenHands trajectory", lines=False, looks=looks, read=read)
