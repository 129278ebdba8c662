"""The log events of the field, as data: which event is of which kind, and where it says what.

Read here: Claude Code's and Codex's events, and the events of OpenTelemetry's GenAI conventions. A log event has only
few attributes and they have plain names ("model", "source"), so each dialect has a table of its own; what it does not
list is looked for in the table of spans. An event that is not listed is kept as kind `other`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class LogEvent(NamedTuple):
    """What an event is.

    Attributes:
        kind: our kind.
        only_if: an attribute and the word it must have; with another word the event is of kind `other`.
        detail: the event repeats what its span says. It is of this kind only without a span, else `context`, and
            then its tokens are left to the content: they would count twice.
        decides: its decision is a gate's.
        fails: the event itself says that something failed.
    """

    kind: str
    only_if: tuple[str, str] | None = None
    detail: bool = False
    decides: bool = False
    fails: bool = False


class LogDialect(NamedTuple):
    """How one program writes its events.

    Attributes:
        prefix: of its event names.
        scope: the instrumentation scope in which it leaves the prefix out, if it does.
        events: by full name.
        fields: field -> the attributes that may carry it, the most trusted first.
        decisions: its words, without case and underscores -> a decision (DEC-01). No other word is one.
        policies: who, in its words without case and underscores, is no person: then `rejected` is `denied`.
        cache_apart: cache tokens are counted beside the input.
        stamped_at_end: an event with a duration carries the time of its end.
    """

    prefix: str
    scope: str | None = None
    events: dict[str, LogEvent] = {}  # noqa: RUF012 - never changed
    fields: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - never changed
    decisions: dict[str, str] = {}  # noqa: RUF012 - never changed
    policies: frozenset[str] = frozenset()
    cache_apart: bool = False
    stamped_at_end: bool = False


_SESSION: Final = LogEvent("session")
_CONTEXT: Final = LogEvent("context")

CLAUDE_CODE: Final = LogDialect(
    prefix="claude_code.",
    scope="com.anthropic.claude_code.events",
    events={
        "claude_code.user_prompt": _SESSION,
        "claude_code.permission_mode_changed": _SESSION,
        "claude_code.mcp_server_connection": _SESSION,
        "claude_code.api_request": LogEvent("llm"),
        "claude_code.api_error": LogEvent("llm", fails=True),
        "claude_code.tool_decision": LogEvent("gate", decides=True),
        "claude_code.tool_result": LogEvent("tool"),
        "claude_code.compaction": _CONTEXT,
    },
    fields={
        "turn": ("prompt.id",),
        "session": ("session.id",),
        "user": ("user.id", "user.account_uuid", "user.email"),
        "seq": ("event.sequence",),
        "tool": ("tool_name",),
        "call_id": ("tool_use_id",),
        "model": ("model",),
        "input_tokens": ("input_tokens",),
        "output_tokens": ("output_tokens",),
        "cached_tokens": ("cache_read_tokens",),
        "cache_write_tokens": ("cache_creation_tokens",),
        "cost_usd": ("cost_usd",),
        "duration_ms": ("duration_ms",),
        "success": ("success",),
        "error_type": ("error_type",),
        "word": ("decision",),
        "source": ("source",),
        "refused": ("decision_type", "decision"),
    },
    decisions={"accept": "allowed", "reject": "rejected"},
    policies=frozenset({"config", "hook"}),
    cache_apart=True,
    stamped_at_end=True,
)
"""Source: "Monitoring" in Claude Code's documentation, and recorded events of versions 2.1.x."""

CODEX: Final = LogDialect(
    prefix="codex.",
    events={
        "codex.conversation_starts": _SESSION,
        "codex.user_prompt": _SESSION,
        # A reply comes in many events. Its end tells the tokens, and counts as the call; the HTTP request does not.
        "codex.sse_event": LogEvent("llm", only_if=("event.kind", "response.completed")),
        "codex.tool_decision": LogEvent("gate", decides=True),
        "codex.tool_result": LogEvent("tool"),
    },
    fields={
        "session": ("conversation.id",),
        "user": ("user.account_id", "user.email"),
        "tool": ("tool_name",),
        "call_id": ("call_id",),
        "model": ("model",),
        "input_tokens": ("input_token_count",),
        "output_tokens": ("output_token_count",),
        "cached_tokens": ("cached_token_count",),
        "reasoning_tokens": ("reasoning_token_count",),
        "duration_ms": ("duration_ms",),
        "success": ("success",),
        "error": ("error.message",),
        "word": ("decision",),
        "source": ("source",),
    },
    decisions={
        "approved": "allowed",
        "approvedforsession": "allowed",
        "approvedexecpolicyamendment": "allowed",
        "approvedwithamendment": "allowed",
        "denied": "rejected",
        "abort": "rejected",
        "timedout": "expired",
    },
    policies=frozenset({"config", "automatedreviewer"}),
    stamped_at_end=True,
)
"""Source: codex-rs/otel/src/events/session_telemetry.rs of openai/codex."""

GEN_AI: Final = LogDialect(
    prefix="gen_ai.",
    events={
        "gen_ai.client.inference.operation.details": LogEvent("llm", detail=True),
        "gen_ai.evaluation.result": LogEvent("score"),
        "gen_ai.system.message": _CONTEXT,
        "gen_ai.user.message": _CONTEXT,
        "gen_ai.assistant.message": _CONTEXT,
        "gen_ai.tool.message": _CONTEXT,
        "gen_ai.choice": _CONTEXT,
    },
    fields={
        "label": ("gen_ai.evaluation.name",),
        "score": ("gen_ai.evaluation.score.value",),
        "score_label": ("gen_ai.evaluation.score.label",),
    },
)
"""Source: "Semantic conventions for Generative AI events" of OpenTelemetry, 1.36 to 1.41."""

PLAIN: Final = LogDialect(prefix="")
"""A log record of any other program."""

DIALECTS: Final = (CLAUDE_CODE, CODEX, GEN_AI)
