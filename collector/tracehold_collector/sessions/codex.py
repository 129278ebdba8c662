"""Codex's rollouts: one item a line; a reply's tokens come in a line of their own.

Source: `codex-rs/protocol` of openai/codex (`RolloutLine`, `ResponseItem`, `EventMsg`); no recorded one was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson
from tracehold.core.clock import NS_PER_S

from tracehold_collector.core.record import Rejection
from tracehold_collector.sessions.reading import (
    Event,
    Line,
    Reader,
    Session,
    digest,
    guarded,
    mapping,
    open_half,
    others,
    run_id,
    text,
    time_ns,
    width_ns,
)

_FORM: Final = "codex"
_LINES: Final = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_ENDS: Final = frozenset({"exec_command_end", "patch_apply_end", "mcp_tool_call_end"})
"""Event messages that say how a call ended; not every version keeps them in its rollouts."""

_STATUS: Final = {"completed": "ok", "failed": "error"}
_DECLINED: Final = "declined"
"""The status of a command or patch that a person or a reviewer did not let pass; which of them is not said."""

_KINDS: Final = {
    "user_message": "session",
    "task_started": "session",
    "turn_started": "session",
    "task_complete": "session",
    "turn_complete": "session",
    "turn_aborted": "session",
    "agent_message": "context",
    "agent_reasoning": "context",
    "context_compacted": "context",
    "token_count": "context",
}
_FAILED: Final = frozenset({"error", "stream_error"})
_REPEATED: Final = ("type", "call_id", "aggregated_output", "stdout", "stderr", "formatted_output")
"""Parts of such a message that the call's output says too."""

_USAGE: Final = {"cache_write_input_tokens": "cache_write_tokens"}


@dataclass(slots=True)
class _Call:
    """A tool call whose output was not read yet."""

    started: int | None
    fields: dict[str, Any]
    end: dict[str, Any] | None = None


def looks(value: Any) -> bool:
    """Whether a parsed line is surely of a rollout."""
    return isinstance(value, dict) and value.get("type") in _LINES and isinstance(value.get("payload"), dict)


def read(lines: Iterator[Line | Rejection]) -> Iterator[Event | Rejection]:
    """Yield the events of a rollout: one run."""
    rollout: _Rollout | None = None
    for line in lines:
        if isinstance(line, Rejection):
            yield line
            continue
        if not looks(line.value):
            yield Rejection(f"line {line.number}", 'a line of a rollout needs a known "type" and a "payload"')
            continue
        if rollout is None:
            name = _session_name(line.value)
            if name is None:
                yield Rejection(f"line {line.number}", "a rollout begins with a session_meta line that has an id")
                continue
            rollout = _Rollout(name)
        yield from guarded(f"line {line.number}", rollout.take(line, line.value["payload"]))
    if rollout is not None:
        yield from guarded("the end of the file", rollout.end())


def _session_name(value: dict[str, Any]) -> str | None:
    payload = value["payload"]
    return (text(payload.get("id")) or text(payload.get("session_id"))) if value["type"] == "session_meta" else None


class _Rollout:
    def __init__(self, name: str) -> None:
        self._session = Session(_FORM, name, run_id(_FORM, digest(name)), _FORM, name=name)
        self._begun = False
        self._own_from = 0
        self._model: str | None = None
        self._provider: str | None = None
        self._calls: dict[str, _Call] = {}
        self._output: list[Any] = []
        self._output_from = 0
        self._asked: int | None = None
        self._total: Any = None

    def take(self, line: Line, payload: dict[str, Any]) -> Iterator[Event]:
        """Yield what a line says."""
        own_type = line.value["type"]
        at = time_ns(line.value.get("timestamp"))
        number = line.value.get("ordinal")
        local = f"line/{number if type(number) is int else line.number}"
        if own_type == "session_meta" and not self._begun:
            self._begun = True
            start = payload.get("subagent_history_start_ordinal")
            self._own_from = start if type(start) is int else 0
            self._provider = text(payload.get("model_provider"))
            yield self._session.run(
                name="Codex", agent=_FORM, status="unset", started_at_ns=at, said=others(payload, "id", "session_id")
            )
        elif type(number) is int and number < self._own_from:
            # A sub-agent's rollout begins with a copy of its parent's, which was counted there.
            yield self._other(local, "copied", "context", at, line, payload)
        elif own_type == "response_item":
            yield from self._item(local, line, payload, at)
        elif own_type == "event_msg":
            yield from self._message(local, line, payload, at)
        else:
            self._model = text(payload.get("model")) or self._model
            yield self._other(local, own_type, "context", at, line, payload)

    def _item(self, local: str, line: Line, payload: dict[str, Any], at: int | None) -> Iterator[Event]:
        kind = str(payload.get("type"))
        call_id = text(payload.get("call_id"))
        if kind in _CALLS and call_id:
            self._add(line, payload)
            self._calls[call_id] = _Call(at, self._fields(line, payload, call_id))
        elif kind.endswith("_call_output") and call_id:
            call = self._calls.pop(call_id, None) or _Call(at, self._fields(line, {}, call_id))
            yield self._ended(call, payload, at)
            self._asked = at
        elif kind.endswith("_call"):
            # Run by the provider, within the reply: it has no output of its own.
            self._add(line, payload)
            fields = self._fields(line, payload, call_id)
            status = _STATUS.get(str(payload.get("status")), "unset")
            yield self._session.event(local, "tool_call", started_at_ns=at, status=status, **fields)
        elif kind == "reasoning" or payload.get("role") == "assistant":
            self._add(line, payload)
        else:
            if payload.get("role") == "user":
                self._asked = at
            yield self._other(local, kind, "context", at, line, payload)

    def _message(self, local: str, line: Line, payload: dict[str, Any], at: int | None) -> Iterator[Event]:
        kind = str(payload.get("type"))
        info = mapping(payload.get("info"))
        usage = mapping(info.get("last_token_usage"))
        total = info.get("total_token_usage")
        call = self._calls.get(str(payload.get("call_id")))
        if kind in _ENDS and call is not None:
            call.end = payload
        elif kind == "token_count" and usage and (total is None or total != self._total):
            # The same count is written again when only the limits of the account changed.
            self._total = total
            yield self._reply(local, line, usage, at)
        else:
            status = "error" if kind in _FAILED else "cancelled" if kind == "turn_aborted" else "unset"
            yield self._other(local, kind, _KINDS.get(kind, "other"), at, line, payload, status)

    def _reply(self, local: str, line: Line, usage: dict[str, Any], at: int | None) -> Event:
        output, self._output = self._output, []
        return self._session.event(
            local,
            "llm_call",
            agent=_FORM,
            step_index=line.number,
            status="ok",
            started_at_ns=self._asked if self._asked is not None else at,
            duration_ns=width_ns(self._asked, at),
            model=self._model,
            provider=self._provider,
            usage={_USAGE.get(name, name): count for name, count in usage.items()},
            output=output or None,
        )

    def _add(self, line: Line, payload: dict[str, Any]) -> None:
        if not self._output:
            self._output_from = line.number
        self._output.append(payload)

    def _fields(self, line: Line, payload: dict[str, Any], call_id: str | None) -> dict[str, Any]:
        given = payload.get("arguments", payload.get("input", payload.get("action")))
        return {
            "agent": _FORM,
            "step_index": line.number,
            "tool": text(payload.get("name")) or str(payload.get("type", "unknown")).removesuffix("_call"),
            "call_id": call_id,
            "params": _unpacked(given),
            "said": others(payload, "type", "call_id", "name", "arguments", "input", "action"),
        }

    def _ended(self, call: _Call, payload: dict[str, Any], at: int | None) -> Event:
        output = _unpacked(payload.get("output"))
        end = call.end or {}
        said = mapping(output)
        code = end.get("exit_code", mapping(said.get("metadata")).get("exit_code"))
        outcome: dict[str, Any] = {"status": _STATUS.get(str(end.get("status")), "unset")}
        if end.get("status") == _DECLINED:
            outcome = {"status": "denied", "decision": "denied", "reason": output}
        elif outcome["status"] == "unset" and isinstance(said.get("success"), bool):
            outcome = {"status": "ok" if said["success"] else "error"}
        elif outcome["status"] == "unset" and type(code) is int:
            outcome = {"status": "error" if code else "ok"}
        return self._session.event(
            f"call/{call.fields['call_id']}",
            "tool_call",
            started_at_ns=call.started,
            duration_ns=_took(end) or width_ns(call.started, at),
            result=output,
            ended=others(end, "type", "call_id", "aggregated_output", "stdout", "stderr", "formatted_output")
            if end
            else None,
            **call.fields,
            **outcome,
        )

    def _other(
        self,
        local: str,
        word: str,
        kind: str,
        at: int | None,
        line: Line,
        payload: dict[str, Any],
        status: str = "unset",
    ) -> Event:
        return self._session.event(
            local,
            f"codex.{word}",
            kind=kind,
            agent=_FORM,
            step_index=line.number,
            status=status,
            started_at_ns=at,
            invalid_unicode=line.replaced or None,
            said=payload,
        )

    def end(self) -> Iterator[Event]:
        """Yield what the file ended in the middle of: a reply without its tokens, calls without an output."""
        if self._output:
            yield open_half(
                self._session.event(
                    f"reply/{self._output_from}",
                    "llm_call",
                    agent=_FORM,
                    started_at_ns=self._asked,
                    model=self._model,
                    output=self._output,
                )
            )
        for name, call in self._calls.items():
            yield open_half(self._session.event(f"call/{name}", "tool_call", started_at_ns=call.started, **call.fields))


def _took(end: dict[str, Any]) -> int | None:
    duration = mapping(end.get("duration"))
    seconds, nanos = duration.get("secs"), duration.get("nanos", 0)
    return seconds * NS_PER_S + nanos if type(seconds) is int and type(nanos) is int and seconds >= 0 else None


def _unpacked(value: Any) -> Any:
    """Return what a text of JSON says, where it is an object; arguments and outputs are written so."""
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


READER: Final = Reader(_FORM, "a Codex rollout", lines=True, looks=looks, read=read)
