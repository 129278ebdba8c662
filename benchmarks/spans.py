"""Agent spans as senders make them: a run of 20, one root, model calls and tool calls under it, 20 attributes each."""

from __future__ import annotations

import random
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_MARK = bytes.fromhex("f39a5c01ee7742b6")
_WORDS = [
    "the",
    "order",
    "was",
    "shipped",
    "to",
    "region",
    "after",
    "review",
    "and",
    "customer",
    "asked",
    "about",
    "delivery",
    "date",
    "carrier",
    "reported",
    "delay",
]
_PER_RUN = 20
_START = 1_780_000_000_000_000_000


@dataclass(frozen=True)
class Template:
    """A serialised request whose ids can be made unique cheaply."""

    raw: bytes

    def body(self, number: int) -> bytes:
        """The request with ids of its own; the same length for every number."""
        return self.raw.replace(_MARK, (number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big"))


def template(count: int, seed: int = 7) -> Template:
    """Build a request of `count` spans."""
    draw = random.Random(seed)
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    _put(
        resource.resource.attributes,
        {"service.name": "shop-agents", "service.version": "2.4.1", "deployment.environment.name": "prod"},
    )
    scope = resource.scope_spans.add()
    scope.scope.name = "agents"
    for place in range(count):
        _fill(scope.spans.add(), place, draw)
    return Template(request.SerializeToString())


def _fill(span: Span, place: int, draw: random.Random) -> None:
    run, step = divmod(place, _PER_RUN)
    # 16 bytes: the mark twice would be replaced alike, so the run's number takes the place of its last byte.
    span.trace_id = _MARK + b"\x10" * 7 + bytes([run + 1])
    span.span_id = bytes([place // 250 + 1, place % 250 + 1]) + b"\x00" * 6
    if step:
        span.parent_span_id = bytes([run * _PER_RUN // 250 + 1, run * _PER_RUN % 250 + 1]) + b"\x00" * 6
    span.start_time_unix_nano = _START + place * 1_000_000
    span.end_time_unix_nano = span.start_time_unix_nano + draw.randrange(10**6, 10**9)
    common = {
        "gen_ai.agent.name": "researcher",
        "gen_ai.conversation.id": f"conv-{run}",
        "user.id": f"user-{run}",
        "session.id": f"s-{run}",
        "agent.step": step,
        "deployment.ring": "blue",
        "server.address": "api.example.com",
        "region": "eu-west-1",
    }
    if step == 0:
        span.name = "invoke_agent researcher"
        _put(
            span.attributes,
            common
            | {
                "gen_ai.operation.name": "invoke_agent",
                "agent.input": _prose(draw, 180),
                "agent.output": _prose(draw, 240),
            },
        )
    elif step % 2:
        span.name, span.kind = "chat gpt-4o-mini", Span.SPAN_KIND_CLIENT
        _put(
            span.attributes,
            common
            | {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
                "gen_ai.usage.input_tokens": draw.randrange(200, 9000),
                "gen_ai.usage.output_tokens": draw.randrange(20, 900),
                "gen_ai.request.temperature": 0.2,
                "gen_ai.request.max_tokens": 1024,
                "gen_ai.response.id": f"chatcmpl-{draw.randrange(10**12):012d}",
                "gen_ai.prompt": _prose(draw, 220),
                "gen_ai.completion": _prose(draw, 160),
                "gen_ai.response.finish_reasons": "stop",
            },
        )
    else:
        span.name = "execute_tool http_request"
        _put(
            span.attributes,
            common
            | {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "http_request",
                "gen_ai.tool.call.id": f"call_{draw.randrange(10**12):012d}",
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.arguments": '{"url": "https://api.example.com/orders/7", "method": "GET"}',
                "gen_ai.tool.call.result": _prose(draw, 200) + f" mail a{place}@example.com",
                "tool.attempt": 1,
                "tool.cached": False,
                "tool.bytes_out": draw.randrange(10**5),
                "policy.version": "2026-03-01",
                "tool.retries": 0,
                "tool.region": "eu",
            },
        )


def _put(attributes: object, values: dict[str, object]) -> None:
    for key, value in values.items():
        item = attributes.add()  # type: ignore[attr-defined]
        item.key = key
        if isinstance(value, bool):
            item.value.bool_value = value
        elif isinstance(value, int):
            item.value.int_value = value
        elif isinstance(value, float):
            item.value.double_value = value
        else:
            item.value.string_value = str(value)


def _prose(draw: random.Random, length: int) -> str:
    text = ""
    while len(text) < length:
        text += draw.choice(_WORDS) + " "
    return text[:length]
