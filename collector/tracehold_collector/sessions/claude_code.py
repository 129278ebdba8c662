"""Claude Code's transcripts: one JSON object a line, a model's reply spread over several of them.

Source: recorded transcripts; Claude Code documents where they are, not their form. What no rule here reads is content.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tracehold_collector.core.record import Rejection
from tracehold_collector.sessions.reading import (
    Event,
    Line,
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
    width_ns,
)

_FORM: Final = "claude-code"
_SPEAKERS: Final = ("user", "assistant")
_SYNTHETIC: Final = "<synthetic>"
"""The model of what Claude Code wrote itself: an error in place of a reply, or a placeholder."""

_REJECTED: Final = "User rejected tool use"
"""The `toolUseResult` of a call that a person refused; all that older versions wrote."""

_DENIALS: Final[dict[str, tuple[str, str]]] = {
    "user-rejected": ("rejected", "user"),
    "permission-rule": ("denied", "permission-rule"),
    "automode-blocked": ("denied", "automode"),
}
"""`toolDenialKind` -> the decision and by whom; a hook's refusal is written as a `permission-rule` too.
`interrupted` and `cancelled` are no decisions: a call was stopped while it ran, or with another that failed."""

_CANCELLED: Final = frozenset({"interrupted", "cancelled"})
_KINDS: Final = {"summary": "context", "system": "session", "attachment": "context", "progress": "session"}
_ENVELOPE: Final = ("type", "sessionId", "uuid", "parentUuid", "timestamp", "isSidechain", "message")


_Key = tuple[str, str]
"""Session and message id."""


@dataclass(slots=True)
class _Reply:
    """A model's reply, as far as its lines were read."""

    session: Session
    local: str
    started: int | None
    ended: int | None
    fields: dict[str, Any]
    usage: dict[str, Any] = field(default_factory=dict)
    output: list[Any] = field(default_factory=list)
    stop: str | None = None


@dataclass(slots=True)
class _Call:
    """A tool call whose result was not read yet; `followed` when none can come any more."""

    session: Session
    reply: _Key | None
    started: int | None
    fields: dict[str, Any]
    followed: bool = False


def looks(value: Any) -> bool:
    """Whether a parsed line is surely of a Claude Code transcript."""
    if not isinstance(value, dict):
        return False
    if value.get("type") == "summary":
        return "leafUuid" in value
    if not isinstance(value.get("sessionId"), str):
        return False
    return mapping(value.get("message")).get("role") in _SPEAKERS or value.get("type") == "queue-operation"


def read(lines: Iterator[Line | Rejection]) -> Iterator[Event | Rejection]:
    """Yield the events of a transcript. Sub-agents, which run in side chains, are told apart by `agent`."""
    transcript = _Transcript()
    waiting: list[tuple[Line, dict[str, Any]]] = []
    for line in lines:
        if isinstance(line, Rejection):
            yield line
            continue
        problem = _problem(line.value)
        if problem:
            yield Rejection(f"line {line.number}", problem)
            continue
        if not transcript.known(line.value):
            # A summary stands before the first line that tells whose session this is.
            waiting.append((line, line.value))
            continue
        for early, value in [*waiting, (line, line.value)]:
            yield from guarded(f"line {early.number}", transcript.take(early, value))
        waiting.clear()
    for line, _ in waiting:
        yield Rejection(f"line {line.number}", "no line of the file tells its session")
    yield from guarded("the end of the file", transcript.end())


def _problem(value: Any) -> str | None:
    if not isinstance(value, dict):
        return "a line of a transcript must be an object"
    own_type = value.get("type")
    if own_type is None and mapping(value.get("message")).get("role") not in _SPEAKERS:
        return 'the object has neither a "type" nor a message'
    if (own_type is None or own_type in _SPEAKERS) and time_ns(value.get("timestamp")) is None:
        return 'the line has no readable "timestamp"'
    return None


class _Transcript:
    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._current: Session | None = None
        self._replies: dict[_Key, _Reply] = {}
        self._done: set[_Key] = set()
        self._calls: dict[str, _Call] = {}
        self._times: dict[str, int] = {}
        self._locals: set[str] = set()
        self._chains: dict[str, tuple[str, str | None]] = {}
        self._asked: dict[str, tuple[str, str]] = {}
        self._stating: set[str] = set()

    def known(self, value: dict[str, Any]) -> bool:
        """Whether the session of a line is known, from itself or from one before it."""
        return self._current is not None or text(value.get("sessionId")) is not None

    def take(self, line: Line, value: dict[str, Any]) -> Iterator[Event]:
        session = yield from self._session(value)
        at = time_ns(value.get("timestamp"))
        uuid = text(value.get("uuid"))
        local = f"line/{uuid or line.number}"
        if local in self._locals:
            local += f"/{line.number}"
        self._locals.add(local)
        agent, parent = self._chain(value)
        common: dict[str, Any] = {"agent": agent, "step_index": line.number, "parent": parent}
        if line.replaced:
            common["invalid_unicode"] = True
        message = mapping(value.get("message"))
        role = value.get("type") or message.get("role")
        if role == "assistant" and isinstance(value.get("message"), dict):
            yield from self._reply(session, local, value, at, common)
        elif role == "user" and isinstance(value.get("message"), dict):
            yield from self._said(session, local, value, at, common)
        else:
            own_type = str(role)
            yield session.event(
                local,
                f"claude_code.{own_type}",
                kind=_KINDS.get(own_type, "other"),
                status="unset",
                started_at_ns=at,
                said=others(value, "type", "sessionId", "timestamp"),
                **common,
            )
        if uuid and at is not None:
            self._times[uuid] = at

    def _session(self, value: dict[str, Any]) -> Generator[Event, None, Session]:
        name = text(value.get("sessionId")) or ""
        session = self._sessions.get(name) if name else self._current
        if session is None:
            # Its own id is the conversation's: it is stored as a pseudonym, and the run must not show it.
            session = Session(_FORM, name, run_id(_FORM, digest(name)), _FORM, name=name, copied=True)
            self._sessions[name] = session
            if not value.get("isSidechain"):
                # A sub-agent's own file is a part of the run; the main file tells about the whole of it.
                yield session.run(
                    name="Claude Code",
                    agent=_FORM,
                    status="unset",
                    started_at_ns=time_ns(value.get("timestamp")),
                    said={key: value[key] for key in ("cwd", "version", "gitBranch", "userType") if key in value},
                )
        self._current = session
        return session

    def _chain(self, value: dict[str, Any]) -> tuple[str, str | None]:
        """Return who speaks in a line and under which event the line hangs."""
        if not value.get("isSidechain"):
            return _FORM, None
        uuid, above = text(value.get("uuid")), text(value.get("parentUuid"))
        chain = self._chains.get(above) if above else None
        if chain is None:
            asked = self._asked.get(str(_content(value)))
            agent = asked[0] if asked else text(value.get("agentId")) or "sidechain"
            chain = agent, asked[1] if asked else None
        if uuid:
            self._chains[uuid] = chain
        return chain

    def _reply(
        self, session: Session, local: str, value: dict[str, Any], at: int | None, common: dict[str, Any]
    ) -> Iterator[Event]:
        message = value["message"]
        name = text(message.get("id")) or local
        key = session.key, name
        yield from self._close(session, common["agent"], but=key)
        reply = self._replies.get(key)
        if reply is None and key in self._done:
            # More of a reply that was taken for complete: kept, but its tokens were counted.
            said = others(message, "role", "model", "usage", "id")
            yield session.event(
                local, "claude_code.assistant", kind="context", status="unset", started_at_ns=at, said=said, **common
            )
        elif reply is None:
            before = self._times.get(str(value.get("parentUuid")))
            reply = _Reply(session, f"message/{name}", at if before is None else before, at, dict(common))
            self._replies[key] = reply
        if reply is not None:
            self._add(reply, value, message, at)
        for block in items(message.get("content")):
            if isinstance(block, dict) and block.get("type") == "tool_use":
                self._ask(session, key, block, at, common)

    def _add(self, reply: _Reply, value: dict[str, Any], message: dict[str, Any], at: int | None) -> None:
        if at is not None:
            reply.ended = at
        usage = mapping(message.get("usage"))
        # Every line of a reply repeats its usage, the last ones with more output: counted once.
        if _count(usage) >= _count(reply.usage):
            reply.usage = usage or reply.usage
        content = message.get("content")
        reply.output += content if isinstance(content, list) else [content] if content else []
        stop = text(message.get("stop_reason"))
        reply.stop = stop or reply.stop
        if stop is not None:
            self._stating.add(reply.session.key)
        model = text(message.get("model"))
        reply.fields |= {"model": model, "request_id": text(value.get("requestId")), "api_error": value.get("error")}
        if value.get("costUSD") is not None:
            reply.fields["cost_usd"] = value["costUSD"]
        if value.get("isApiErrorMessage"):
            reply.fields["failed"] = True
        more = others(value, *_ENVELOPE, "requestId", "costUSD", "error", "cwd", "version", "gitBranch", "userType")
        if more:
            reply.fields["said"] = {**reply.fields.get("said", {}), **more}

    def _ask(
        self, session: Session, reply: _Key, block: dict[str, Any], at: int | None, common: dict[str, Any]
    ) -> None:
        name, given = text(block.get("id")), block.get("input")
        if name is None or name in self._calls:
            return
        fields = {**common, "tool": text(block.get("name")), "call_id": name, "params": given}
        self._calls[name] = _Call(session, reply, at, fields)
        if isinstance(given, dict) and text(given.get("prompt")) and text(given.get("subagent_type")):
            self._asked[given["prompt"]] = given["subagent_type"], f"tool/{name}"

    def _said(
        self, session: Session, local: str, value: dict[str, Any], at: int | None, common: dict[str, Any]
    ) -> Iterator[Event]:
        blocks = items(value["message"].get("content"))
        results = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
        for block in results:
            yield self._result(session, block, value, at, common)
        if not results or len(results) < len(blocks):
            if not value.get("isMeta"):
                yield from self._close(session, common["agent"], but=None)
            yield session.event(
                local,
                "claude_code.user",
                kind="context" if value.get("isMeta") else "session",
                status="unset",
                started_at_ns=at,
                message=value["message"],
                said=others(value, *_ENVELOPE),
                **common,
            )

    def _result(
        self, session: Session, block: dict[str, Any], value: dict[str, Any], at: int | None, common: dict[str, Any]
    ) -> Event:
        name = text(block.get("tool_use_id")) or "unknown"
        call = self._calls.pop(name, None) or _Call(session, None, at, {**common, "call_id": name})
        details = value.get("toolUseResult")
        result = block.get("content")
        outcome: dict[str, Any] = {"status": "error" if block.get("is_error") else "ok"}
        denial = value.get("toolDenialKind")
        decided = _DENIALS.get(denial) if isinstance(denial, str) else None
        if decided is None and denial is None and details == _REJECTED:
            decided = _DENIALS["user-rejected"]
        if decided is not None:
            outcome = {"status": decided[0], "decision": decided[0], "decided_by": decided[1], "reason": result}
        elif isinstance(denial, str) and denial in _CANCELLED:
            outcome = {"status": "cancelled"}
        return call.session.event(
            f"tool/{name}",
            "tool_call",
            started_at_ns=call.started,
            duration_ns=width_ns(call.started, at),
            result=result,
            result_details=details if details != result else None,
            denial_kind=denial,
            **call.fields,
            **outcome,
        )

    def _close(self, session: Session, agent: str, but: _Key | None) -> Iterator[Event]:
        """End the replies of a chain that goes on, and note that its open calls can have no result any more."""
        for key, reply in list(self._replies.items()):
            if key != but and key[0] == session.key and reply.fields["agent"] == agent:
                yield from self._finish(key, reply)
        for call in self._calls.values():
            if call.session is session and call.fields["agent"] == agent and (but is None or call.reply != but):
                call.followed = True

    def _finish(self, key: _Key, reply: _Reply, *, unfinished: bool = False) -> Iterator[Event]:
        del self._replies[key]
        self._done.add(key)
        failed, model = reply.fields.pop("failed", False), reply.fields.pop("model", None)
        if model == _SYNTHETIC:
            model = None
            reply.usage = {}
        own_type = "llm_call" if model or failed or reply.usage else "claude_code.assistant"
        event = reply.session.event(
            reply.local,
            own_type,
            kind=None if own_type == "llm_call" else "context",
            status="error" if failed else "ok",
            error_type=reply.fields.pop("api_error", None) if failed else None,
            started_at_ns=reply.started,
            duration_ns=width_ns(reply.started, reply.ended) or None,
            model=model,
            provider="anthropic" if model else None,
            usage=reply.usage or None,
            finish_reason=reply.stop,
            output=reply.output or None,
            **reply.fields,
        )
        yield open_half(event) if unfinished else event

    def end(self) -> Iterator[Event]:
        """Yield what the file ended in the middle of."""
        for key, reply in list(self._replies.items()):
            # Some versions never write why a reply ended. Of those that do, one without it is still being written.
            yield from self._finish(key, reply, unfinished=key[0] in self._stating and reply.stop is None)
        for name, call in self._calls.items():
            event = call.session.event(
                f"tool/{name}", "tool_call", started_at_ns=call.started, status="unset", **call.fields
            )
            yield event if call.followed else open_half(event)


def _count(usage: dict[str, Any]) -> int:
    """Return how many tokens of output a usage tells, 0 when it tells none."""
    count = usage.get("output_tokens")
    return count if type(count) is int else 0


def _content(value: dict[str, Any]) -> Any:
    """Return the text of a message that is one text."""
    content = mapping(value.get("message")).get("content")
    if isinstance(content, list) and len(content) == 1:
        return mapping(content[0]).get("text")
    return content


READER: Final = Reader(_FORM, "a Claude Code transcript", lines=True, looks=looks, read=read)
