"""What an event of the engine's log is called in the Tracer's record: the same facts under the same ids.

The collector reads engine logs too. What it makes of an event and what is made here agree in id, span, kind, status and
decision, so that an event that arrives both ways is stored and counted once (design: "event id").

A call is told once, when it has ended: its opening half only lends it a start, a name and its arguments.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from tracehold.core.clock import NS_PER_MS
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.events.event import Event
from tracehold.observability.engine_types import (
    ENGINE_TYPES,
    RUN_OUTCOMES,
    STOPPED_BY_PERSON,
    UNLISTED,
    EngineType,
    short_type,
)
from tracehold.observability.event_types import DECISIONS, DENIALS, LLM_CALL, RUN_END, RUN_START, TOOL_CALL

DEFAULT_TENANT: Final = "default"
"""Where the collector puts what has no tenant."""

_CALLS: Final = {"llm": LLM_CALL, "tool": TOOL_CALL}
_UNTOLD: Final = frozenset({"llm.delta"})
"""Pieces of a reply: the whole of it follows."""

_BLOCKING: Final = frozenset({"block", "blocked", "deny", "denied"})
_REMEMBERED: Final = 10_000


def engine_event_id(tenant: str, stream: str, event_id: str) -> str:
    """Return the record's id of an engine event, 32 hex digits: the same wherever and whenever it is read."""
    fields = [part.encode("utf-8", "replace") for part in (tenant, stream, event_id)]
    message = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return hashlib.blake2b(message, digest_size=16, person=b"tracehold-event").hexdigest()


def engine_span_id(run_id: str, key: str) -> str:
    """Return the span id of what `key` opened in a run, 16 hex digits."""
    text = f"{run_id}\x00{key}".encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=8, person=b"tracehold-span").hexdigest()


class _Opening(NamedTuple):
    at_ns: int
    name: str | None
    arguments: Any


class Translator:
    """Turns the events of many runs, each in the order of its log, into Tracer events.

    Args:
        tenant: whose events they are to the collector; default each event's own.
    """

    def __init__(self, tenant: str | None = None) -> None:
        self._tenant = tenant
        self._open: OrderedDict[tuple[str, str], _Opening] = OrderedDict()
        self._agents: OrderedDict[str, str] = OrderedDict()

    def translate(self, event: Event) -> dict[str, Any] | None:
        """Return the Tracer event of a stored event, or `None` for one that is told with another."""
        short = short_type(event.type)
        known = ENGINE_TYPES.get(short, UNLISTED)
        run_id = event.run_id or event.stream
        at_ns = _ns(event.time)
        data = event.data
        if short == "run.started":
            _keep(self._agents, run_id, str(data.get("algo") or "") or None)
            _keep(self._open, (run_id, "run"), _Opening(at_ns, None, None))
        elif known.half == "opens":
            self._note(event, short, run_id, at_ns)
            return None
        elif short in _UNTOLD:
            return None
        made = self._envelope(event, short, run_id, at_ns)
        made |= _judged(short, known, data)
        made |= _said(short, data)
        return {key: value for key, value in made.items() if value is not None}

    def _note(self, event: Event, short: str, run_id: str, at_ns: int) -> None:
        data = event.data
        key = _key(event, short)
        before = self._open.get((run_id, key))
        name = _text(data.get("name")) or (before.name if before else None)
        arguments = data.get("arguments", before.arguments if before else None)
        opening = _Opening(at_ns, name, arguments)
        _keep(self._open, (run_id, key), opening)
        if (call := _text(data.get("call_id"))) is not None:
            _keep(self._open, (run_id, "call:" + call), opening)

    def _envelope(self, event: Event, short: str, run_id: str, at_ns: int) -> dict[str, Any]:
        data, meta = event.data, event.meta
        is_run = short in {"run.started", "run.completed"}
        key = "run" if is_run else _key(event, short)
        root = run_root_span_id(run_id)
        call = _text(data.get("call_id"))
        ends = short.endswith((".completed", ".failed"))
        # Taken out: what a call was given need not be remembered beyond its end.
        opening = self._open.pop((run_id, key), None) if ends else None
        named = self._open.get((run_id, "call:" + call)) if call is not None else None
        agent = self._agents.get(run_id) or _text(meta.get("agent"))
        name = _text(data.get("name")) or _text(data.get("guard")) or (named or opening or _NOTHING).name
        made: dict[str, Any] = {
            "type": event.type,
            "event_id": engine_event_id(self._tenant or event.tenant or DEFAULT_TENANT, event.stream, event.id),
            "run_id": run_id,
            "trace_id": event.trace_id or run_trace_id(run_id),
            "span_id": root if is_run else event.span_id or engine_span_id(run_id, key),
            "parent_span_id": None if is_run else root,
            "step_index": event.seq if event.seq >= 0 else None,
            "started_at_ns": at_ns,
            "name": name or (agent if is_run else None) or short,
            "agent": agent,
            "user": meta.get("user"),
            "session": meta.get("session"),
            "tenant": event.tenant,
            "call_id": call,
            "tool": name if short.startswith(("tool.", "approval.")) else None,
            "params": (opening or named or _NOTHING).arguments if short.startswith(("tool.", "approval.")) else None,
        }
        if opening is not None and at_ns >= opening.at_ns:
            width = at_ns - opening.at_ns
            made |= {"started_at_ns": opening.at_ns, "duration_ns": width, "latency_ms": width // NS_PER_MS}
        return made


_NOTHING: Final = _Opening(0, None, None)


def _judged(short: str, known: EngineType, data: Mapping[str, Any]) -> dict[str, Any]:
    """What kind of event it is, how it ended, and what a gate said."""
    family = short.partition(".")[0]
    made: dict[str, Any] = {"kind": known.kind, "status": known.status, "decision": known.decision}
    if short == "run.started":
        return made | {"type": RUN_START}
    if short in {"run.completed", "child.completed"}:
        outcome = data.get("outcome") if family == "child" else data
        word = outcome.get("kind") if isinstance(outcome, Mapping) else None
        made["status"] = RUN_OUTCOMES.get(word, "unset") if isinstance(word, str) else "unset"
        return made | ({"type": RUN_END} if family == "run" else {})
    called = known.half == "ends" and family in _CALLS
    if called:
        made["type"] = _CALLS[family]
    if short == "guard.verdict":
        return made | _verdict(data)
    if short == "budget.exceeded":
        return made | {"rule": "budget"}
    if family == "approval":
        return made | {
            "decided_by": _text(data.get("by")) or _text(data.get("decided_by")),
            "digest": data.get("digest"),
        }
    error = data.get("error")
    if known.status == "error" and isinstance(error, Mapping):
        made["error_type"] = _text(error.get("type"))
        if called and made["error_type"] in STOPPED_BY_PERSON:
            made |= {"status": "blocked", "error_type": None}
    said = data.get("decision")
    if called and isinstance(said, str) and said in DECISIONS:
        made |= {"decision": said, "decided_by": data.get("decided_by"), "rule": data.get("rule")}
        made |= {"policy_digest": data.get("policy_digest")}
        if said in DENIALS:
            made |= {"status": said, "error_type": None}
    return made


def _verdict(data: Mapping[str, Any]) -> dict[str, Any]:
    action = str(data.get("action") or "").lower()
    if action in _BLOCKING:
        return {"rule": _text(data.get("guard")), "decision": "tripped", "status": "blocked"}
    return {"rule": _text(data.get("guard")), "decision": "allowed" if action == "allow" else None}


def _said(short: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What was spent and said; the Tracer redacts and cuts it like everything else."""
    response = data.get("response")
    response = response if isinstance(response, Mapping) else {}
    cost = data.get("cost", response.get("cost"))
    made: dict[str, Any] = {
        "usage": data.get("usage") or response.get("usage") or None,
        "cost_usd": cost if type(cost) in {int, float} else None,
        "reason": data.get("reason"),
    }
    error = data.get("error")
    if made["reason"] is None and isinstance(error, Mapping):
        made["reason"] = error.get("message")
    if short.startswith("llm."):
        message = response.get("message")
        made |= {
            "model": _text(response.get("model")),
            "provider": _text(response.get("provider")),
            "finish_reason": _text(response.get("finish_reason")),
            "output": message.get("content") if isinstance(message, Mapping) else None,
        }
    elif short.startswith("tool."):
        made["result"] = data.get("result")
    elif short == "run.started":
        made |= {"input": data.get("input"), "parent_run_id": data.get("parent")}
    elif short == "run.completed":
        made["output"] = data.get("value")
    elif not short.startswith("approval."):
        made["data"] = dict(data) or None
    return made


def _key(event: Event, short: str) -> str:
    """What the halves of one span have in common: the id of the event that asked for it."""
    child = event.data.get("child_run_id")
    if short.startswith(("child.", "task.")) and isinstance(child, str) and child:
        return child + ":childstarted"
    if short == "tool.started" or short.endswith((".completed", ".failed")):
        return event.causation_id or event.id
    return event.id


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        return
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _REMEMBERED:
        kept.popitem(last=False)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _ns(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000
