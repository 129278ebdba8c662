"""Spans as each framework writes them, by the names in its own source, and the columns they fill."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.spans import Read
from tracehold_collector.normalise.dialects import DIALECTS, FIELD_KEYS, KIND_KEYS

SERVER, CLIENT = {"span_kind": 2}, {"span_kind": 3}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # attributes, other fields of the span, columns of the record
    "Strands, a model call": (  # strands/telemetry/tracer.py, end_model_invoke_span
        {
            "gen_ai.event.start_time": "2026-01-01T00:00:00", "gen_ai.operation.name": "chat",
            "gen_ai.system": "strands-agents", "gen_ai.request.model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "gen_ai.usage.prompt_tokens": 100, "gen_ai.usage.input_tokens": 100, "gen_ai.usage.completion_tokens": 20,
            "gen_ai.usage.output_tokens": 20, "gen_ai.usage.total_tokens": 120,
            "gen_ai.usage.cache_read_input_tokens": 60, "gen_ai.usage.cache_write_input_tokens": 30,
        },
        {"name": "chat", "status_code": 1},
        {
            "kind": "llm", "provider": "strands-agents", "input_tokens": 100, "output_tokens": 20, "cached_tokens": 60,
            "cache_write_tokens": 30, "status": "ok",
        },
    ),
    "Strands, a tool that failed under an OK status": (
        {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "tooluse_1",
            "gen_ai.tool.status": "error",
        },
        {"name": "execute_tool search", "status_code": 1},
        {"kind": "tool", "name": "search", "status": "error", "attributes": {"call_id": "tooluse_1"}},
    ),
    "Strands, a swarm": (
        {"gen_ai.operation.name": "invoke_swarm", "gen_ai.agent.name": "swarm"}, {}, {"kind": "task", "agent": "swarm"},
    ),
    "ADK, a model call": (  # google/adk/telemetry/tracing.py, trace_call_llm
        {
            "gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "gemini-2.5-flash",
            "gcp.vertex.agent.invocation_id": "e-1", "gcp.vertex.agent.session_id": "s-1",
            "gcp.vertex.agent.llm_request": '{"model": "gemini-2.5-flash"}', "gcp.vertex.agent.llm_response": "{}",
            "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 4,
            "gen_ai.usage.experimental.reasoning_tokens": 6, "gen_ai.response.finish_reasons": ["stop"],
        },
        {"name": "call_llm"},
        {"kind": "llm", "type": "call_llm", "input_tokens": 10, "output_tokens": 10, "reasoning_tokens": 6},
    ),
    "ADK, a tool": (
        {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather",
            "gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}",
            "gcp.vertex.agent.tool_response": '{"result": "sunny"}',
        },
        {},
        {"kind": "tool", "name": "get_weather", "decision": None},
    ),
    "ADK, parallel answers put together": (  # trace_merged_tool_calls
        {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)",
            "gcp.vertex.agent.tool_response": "{}", "gcp.vertex.agent.llm_request": "{}",
        },
        {},
        {"kind": "task"},
    ),
    "Bedrock": (  # GenAI conventions, AWS Bedrock
        {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "aws.bedrock",
            "gen_ai.request.model": "anthropic.claude-sonnet-4-5-20250929-v1:0",
            "aws.bedrock.guardrail.id": "sgi5gkybzqak",
            "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1,
        },
        {},
        {"kind": "llm", "provider": "aws.bedrock", "input_tokens": 5, "decision": None},
    ),
    "MCP, a client calls a tool": (  # GenAI conventions, MCP
        {
            "mcp.method.name": "tools/call", "gen_ai.tool.name": "pay", "mcp.session.id": "191c4850af6c49e0",
            "jsonrpc.request.id": "42", "mcp.protocol.version": "2026-07-28", "network.transport": "pipe",
        },
        {"name": "tools/call pay", "extra": dict(CLIENT)},
        {"kind": "tool", "name": "pay", "attributes": {"rpc_request_id": "42"}},
    ),
    "MCP, the server's side of a call that is traced": (
        {"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"},
        {"parent_span_id": "a" * 16, "extra": dict(SERVER)},
        {"kind": "task"},
    ),
    "MCP, a server that is traced alone": (
        {"mcp.method.name": "tools/call", "gen_ai.tool.name": "pay"}, {"extra": dict(SERVER)},
        {"kind": "tool", "name": "pay"},
    ),
    "MCP, an error of the protocol": (
        {"mcp.method.name": "tools/call", "rpc.response.status_code": "-32602"}, {"status_code": 2},
        {"kind": "tool", "status": "error", "error_type": "-32602"},
    ),
    "MCP, a list": ({"mcp.method.name": "tools/list"}, {}, {"kind": "task", "type": "tools/list"}),
    "MCP, a method nobody lists": ({"mcp.method.name": "x/y"}, {}, {"kind": "other"}),
    "GenAI conventions 1.36": (
        {
            "gen_ai.system": "openai", "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 9,
            "gen_ai.openai.request.service_tier": "auto", "gen_ai.openai.response.service_tier": "flex",
        },
        {},
        {"provider": "openai", "attributes": {"service_tier": "flex"}},
    ),
    "GenAI conventions 1.41": (
        {
            "gen_ai.provider.name": "anthropic", "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.cache_read.input_tokens": 40, "gen_ai.usage.cache_creation.input_tokens": 30,
            "gen_ai.usage.reasoning.output_tokens": 5, "gen_ai.usage.output_tokens": 8,
        },
        {},
        {"input_tokens": 100, "cached_tokens": 40, "cache_write_tokens": 30, "reasoning_tokens": 5},
    ),
    "the GenAI conventions' own repository": (
        {
            "gen_ai.provider.name": "openai", "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.cache_write.input_tokens": 30, "gen_ai.usage.audio.input_tokens": 20,
            "gen_ai.usage.audio.output_tokens": 3, "gen_ai.usage.audio.cache_read.input_tokens": 2,
            "gen_ai.usage.output_tokens": 8, "openai.response.service_tier": "batch",
        },
        {},
        {
            "cache_write_tokens": 30,
            "attributes": {
                "input_audio_tokens": 20, "output_audio_tokens": 3, "cached_audio_tokens": 2, "service_tier": "batch",
            },
        },
    ),
    "a memory operation": ({"gen_ai.operation.name": "upsert_memory"}, {}, {"kind": "memory"}),
    "OpenInference, audio": (
        {
            "openinference.span.kind": "LLM", "llm.token_count.prompt": 24, "llm.token_count.completion": 3,
            "llm.token_count.prompt_details.audio": 10, "llm.token_count.completion_details.audio": 0,
        },
        {},
        {"input_tokens": 24, "attributes": {"input_audio_tokens": 10}},
    ),
    "Langfuse, audio": (
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.usage_details": '{"input": 24, "output": 9, "input_audio_tokens": 10}',
        },
        {},
        {"input_tokens": 24, "output_tokens": 9, "attributes": {"input_audio_tokens": 10}},
    ),
    "MLflow": (  # mlflow/tracing/constant.py; its own values are JSON
        {
            "mlflow.traceRequestId": '"tr-1"', "mlflow.spanType": '"CHAT_MODEL"', "mlflow.llm.model": '"gpt-4o-mini"',
            "mlflow.llm.provider": '"openai"', "mlflow.spanInputs": "{}",
            "mlflow.chat.tokenUsage": json.dumps(
                {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, "cache_read_input_tokens": 40}
            ),
            "mlflow.llm.cost": '{"input_cost": 0.1, "output_cost": 0.2, "total_cost": 0.3}',
        },
        {},
        {
            "kind": "llm", "type": "CHAT_MODEL", "model": "gpt-4o-mini", "provider": "openai", "input_tokens": 100,
            "output_tokens": 7, "cached_tokens": 40, "cost_usd": 0.3, "price_source": "recorded",
        },
    ),
    "MLflow, a guardrail without quotes": (
        {"mlflow.spanType": "GUARDRAIL"}, {}, {"kind": "guardrail", "decision": None},
    ),
    "Semantic Kernel": (
        {
            "gen_ai.operation.name": "chat.completions", "gen_ai.system": "openai", "gen_ai.response.prompt_tokens": 9,
            "gen_ai.response.completion_tokens": 2,
        },
        {},
        {"kind": "llm", "input_tokens": 9, "output_tokens": 2},
    ),
    "AutoGen": (
        {"gen_ai.operation.name": "create_agent", "gen_ai.system": "autogen", "gen_ai.agent.name": "writer"}, {},
        {"kind": "agent", "agent": "writer", "provider": "autogen"},
    ),
    "LangSmith's exporter": (
        {"langsmith.span.kind": "embedding", "langsmith.trace.session_id": "s"}, {}, {"kind": "other"},
    ),
    "Claude Code, a model call": (  # its documentation, "Monitoring", traces
        {
            "span.type": "claude_code.llm_request", "model": "claude-sonnet-4-6", "gen_ai.system": "anthropic",
            "input_tokens": 5, "output_tokens": 9, "cache_read_tokens": 3, "cache_creation_tokens": 1,
            "session.id": "s",
        },
        {"name": "claude_code.llm_request"},
        {
            "kind": "llm", "model": "claude-sonnet-4-6", "input_tokens": 9, "output_tokens": 9, "cached_tokens": 3,
            "cache_write_tokens": 1,
        },
    ),
    "Claude Code, a tool that runs": (
        {"span.type": "claude_code.tool.execution", "tool_use_id": "toolu_1", "success": True},
        {"name": "claude_code.tool.execution"}, {"kind": "tool", "attributes": {"call_id": "toolu_1"}},
    ),
    "Claude Code, a tool with its waiting": (
        {"span.type": "claude_code.tool", "tool_name": "Bash"}, {"name": "claude_code.tool"}, {"kind": "task"},
    ),
    "plain names on somebody else's span": (
        {"gen_ai.operation.name": "chat", "input_tokens": 5, "cache_read_tokens": 3}, {},
        {"kind": "llm", "input_tokens": None, "cached_tokens": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_span_of_each_framework_fills_its_columns(name: str, read: Read) -> None:
    attributes, fields, columns = CASES[name]
    record = read(attributes, **fields)
    assert {column: getattr(record, column) for column in columns} == columns


@pytest.mark.parametrize("name", CASES)
def test_what_no_rule_reads_is_kept(name: str, read: Read) -> None:
    attributes, fields, _ = CASES[name]
    content = read(attributes | {"nobody.knows.this": 1}, **fields).content or {}
    assert content["attributes"].keys() == attributes.keys() | {"nobody.knows.this"}


def test_cache_tokens_beside_anthropics_input_and_inside_it_are_the_same_call(read: Read) -> None:
    # FR-29
    chat = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"}
    parts = {"gen_ai.usage.cache_read.input_tokens": 128_955, "gen_ai.usage.cache_write.input_tokens": 1_253}
    for given in (130_213, 5):
        record = read(chat | parts | {"gen_ai.usage.input_tokens": given})
        assert (record.input_tokens, record.cached_tokens, record.cache_write_tokens) == (130_213, 128_955, 1_253)


def test_an_attribute_fills_one_field_and_every_name_has_an_owner() -> None:
    named = [key for keys in FIELD_KEYS.values() for key in keys]
    twice = {key for key in named if named.count(key) > 1}
    assert twice == set()
    homeless = [key for key in (*named, *KIND_KEYS) if not any(key.startswith(start) for start in DIALECTS)]
    assert homeless == []
