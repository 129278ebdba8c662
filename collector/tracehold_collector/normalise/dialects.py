"""The attribute names of the field, as data: which one says what, and who is believed first.

Read here: our own `tracehold.*`; Langfuse; OpenTelemetry's GenAI semantic conventions, current and older
names; OpenInference (Arize: smolagents, Agno, CrewAI, BeeAI, ADOT's Claude agent); OpenLLMetry (Traceloop,
LangSmith's exporter); the Vercel AI SDK; Logfire with Pydantic AI and the OpenAI Agents SDK; Codex.

To teach the collector a dialect, add its names here and a trace of it to the tests; no code changes.
"""

from __future__ import annotations

from typing import Final

FIELD_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "event_id": ("tracehold.event_id",),
    "run_id": ("tracehold.run_id", "tracehold.run.id"),
    "seq": ("tracehold.seq", "tracehold.step_index"),
    "kind": ("tracehold.kind",),
    "type": ("tracehold.type",),
    "status": ("tracehold.status",),
    "decision": ("tracehold.decision",),
    "decided_by": ("tracehold.decided_by",),
    "rule": ("tracehold.rule",),
    "policy_decision": ("policy.decision",),
    "policy_rule": ("policy.rule",),
    "error_type": ("tracehold.error_type", "error.type"),
    "agent": ("tracehold.agent", "gen_ai.agent.name", "agent.name", "agent_name"),
    "tool": ("tracehold.tool", "gen_ai.tool.name", "tool.name", "ai.toolCall.name"),
    "entity": ("traceloop.entity.name",),
    "logfire_name": ("name",),
    "user": (
        "tracehold.user",
        "langfuse.user.id",
        "user.id",
        "enduser.id",
        "traceloop.association.properties.user_id",
        "ai.telemetry.metadata.userId",
    ),
    "session": (
        "tracehold.session",
        "langfuse.session.id",
        "session.id",
        "gen_ai.conversation.id",
        "traceloop.association.properties.session_id",
        "ai.telemetry.metadata.sessionId",
        "langsmith.trace.session_id",
        "langsmith.metadata.session_id",
    ),
    "model": (
        "tracehold.model",
        "gen_ai.response.model",
        "gen_ai.request.model",
        "llm.model_name",
        "embedding.model_name",
        "reranker.model_name",
        "ai.response.model",
        "langfuse.observation.model.name",
        "ai.model.id",
        "llm.request.model",
        "model_name",
    ),
    "provider": (
        "tracehold.provider",
        "gen_ai.provider.name",
        "gen_ai.system",
        "llm.provider",
        "llm.system",
        "ai.model.provider",
    ),
    "input_tokens": (
        "tracehold.input_tokens",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
        "llm.usage.prompt_tokens",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
        "codex.turn.token_usage.input_tokens",
    ),
    "output_tokens": (
        "tracehold.output_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
        "llm.usage.completion_tokens",
        "ai.usage.outputTokens",
        "ai.usage.completionTokens",
        "codex.turn.token_usage.output_tokens",
    ),
    "total_tokens": (
        "gen_ai.usage.total_tokens",
        "llm.token_count.total",
        "llm.usage.total_tokens",
        "ai.usage.totalTokens",
        "codex.turn.token_usage.total_tokens",
    ),
    "cached_tokens": (
        "tracehold.cached_tokens",
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.cached_tokens",
        "gen_ai.usage.details.cache_read_tokens",
        "gen_ai.usage.details.cached_tokens",
        "llm.token_count.prompt_details.cache_read",
        "llm.token_count.prompt_details.cache_input",
        "ai.usage.cachedInputTokens",
        "codex.turn.token_usage.cached_input_tokens",
    ),
    "cache_write_tokens": (
        "tracehold.cache_write_tokens",
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.details.cache_write_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "reasoning_tokens": (
        "tracehold.reasoning_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.details.reasoning_tokens",
        "llm.token_count.completion_details.reasoning",
        "ai.usage.reasoningTokens",
        "codex.turn.token_usage.reasoning_output_tokens",
    ),
    "cost_usd": (
        "tracehold.cost_usd",
        "operation.cost",
        "gen_ai.usage.cost",
        "gen_ai.usage.total_cost",
        "llm.cost.total",
    ),
    "langfuse_usage": ("langfuse.observation.usage_details",),
    "langfuse_cost": ("langfuse.observation.cost_details",),
    "finish_reason": (
        "gen_ai.response.finish_reasons",
        "gen_ai.response.finish_reason",
        "ai.response.finishReason",
    ),
    "call_id": ("gen_ai.tool.call.id", "ai.toolCall.id", "tool.id", "tool_call.id"),
    "level": ("logfire.level_num",),
}
"""Field -> the attributes that may carry it, the most trusted first; the first usable value wins."""

KIND_KEYS: Final[dict[str, dict[str, str]]] = {
    "logfire.span_type": {"log": "other", "pending_span": "other"},
    "langfuse.observation.type": {
        "generation": "llm",
        "embedding": "other",
        "agent": "agent",
        "tool": "tool",
        "chain": "task",
        "retriever": "retrieval",
        "evaluator": "score",
        "guardrail": "guardrail",
    },
    "openinference.span.kind": {
        "llm": "llm",
        "tool": "tool",
        "agent": "agent",
        "chain": "task",
        "retriever": "retrieval",
        "reranker": "retrieval",
        "embedding": "other",
        "guardrail": "guardrail",
        "evaluator": "score",
        "prompt": "context",
    },
    "ai.operationId": {
        "ai.generateText.doGenerate": "llm",
        "ai.generateObject.doGenerate": "llm",
        "ai.streamText.doStream": "llm",
        "ai.streamObject.doStream": "llm",
        "ai.toolCall": "tool",
        "ai.generateText": "wrapper",
        "ai.generateObject": "wrapper",
        "ai.streamText": "wrapper",
        "ai.streamObject": "wrapper",
        "ai.embed": "wrapper",
        "ai.embedMany": "wrapper",
        "ai.embed.doEmbed": "other",
        "ai.embedMany.doEmbed": "other",
    },
    "gen_ai.operation.name": {
        "chat": "llm",
        "text_completion": "llm",
        "generate_content": "llm",
        "embeddings": "other",
        "execute_tool": "tool",
        "invoke_agent": "agent",
        "create_agent": "agent",
        "invoke_workflow": "task",
        "plan": "task",
        "retrieval": "retrieval",
        "search_memory": "memory",
    },
    "traceloop.span.kind": {"workflow": "task", "task": "task", "agent": "agent", "tool": "tool"},
    "aws.genai.span_kind": {"llm": "llm", "tool": "tool", "agent": "agent", "chain": "task"},
    "langsmith.span.kind": {"llm": "llm", "tool": "tool", "retriever": "retrieval", "chain": "task"},
    "llm.request.type": {"chat": "llm", "completion": "llm", "rerank": "retrieval", "embedding": "other"},
    "sdk_span_type": {"turn": "task", "task": "task"},
    "logfire.msg_template": {
        "Function: {name}": "tool",
        "running tool: {gen_ai.tool.name}": "tool",
        "Agent run: {name!r}": "agent",
        "Guardrail {name!r} {triggered=}": "guardrail",
        "OpenAI Agents trace: {name}": "task",
    },
}
"""Attribute -> its values -> our kind; the first attribute with a value listed here decides. Values compare
without case. `wrapper` is a `task` whose usage repeats what its own model call, another span, says: it is
left to the content. A Langfuse `span` or `event` is not listed: it says nothing, and the next dialect is
asked."""

DIALECTS: Final[dict[str, str]] = {
    "tracehold.": "Tracehold",
    "langfuse.": "Langfuse",
    "gen_ai.": "OpenTelemetry GenAI",
    "error.type": "OpenTelemetry",
    "enduser.id": "OpenTelemetry",
    "openinference.": "OpenInference",
    "llm.": "OpenInference",
    "embedding.": "OpenInference",
    "reranker.": "OpenInference",
    "agent.name": "OpenInference",
    "tool.": "OpenInference",
    "tool_call.id": "OpenInference",
    "session.id": "OpenInference",
    "user.id": "OpenInference",
    "llm.usage.": "OpenLLMetry",
    "llm.request.": "OpenLLMetry",
    "traceloop.": "OpenLLMetry",
    "langsmith.": "LangSmith",
    "ai.": "Vercel AI SDK",
    "logfire.": "Logfire",
    "name": "Logfire",
    "operation.cost": "Logfire, Pydantic AI",
    "agent_name": "Logfire, Pydantic AI",
    "model_name": "Logfire, Pydantic AI",
    "sdk_span_type": "Logfire, OpenAI Agents SDK",
    "aws.genai.": "AWS",
    "policy.": "a policy's own attributes",
    "codex.": "Codex",
}
"""How an attribute's name begins -> whose it is, for people; the longest beginning wins."""

NAMED_BY_LOGFIRE: Final = frozenset({"Function: {name}", "Agent run: {name!r}"})
"""Logfire templates whose plain `name` attribute is the name of the tool or agent."""

LOGFIRE_ERROR_LEVEL: Final = 17
"""Logfire marks a failed tool by this level and an exception event, and leaves the span's status unset."""

LANGFUSE_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "input_tokens": ("input",),
    "output_tokens": ("output",),
    "cached_tokens": (
        "input_cached_tokens",
        "cache_read_input_tokens",
        "input_cache_read",
        "prompt_details.cache_read",
    ),
    "cache_write_tokens": (
        "input_cache_creation",
        "cache_creation_input_tokens",
        "prompt_details.cache_write",
    ),
    "reasoning_tokens": ("output_reasoning_tokens", "output_reasoning", "completion_details.reasoning"),
}
"""Keys inside `langfuse.observation.usage_details`."""
