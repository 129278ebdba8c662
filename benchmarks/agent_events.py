"""Events as an agent's harness records them. Only the standard library: other interpreters run this too."""

from __future__ import annotations

import random
import string
from typing import Any

_WORDS = [
    "the",
    "parcel",
    "left",
    "our",
    "warehouse",
    "on",
    "time",
    "and",
    "waits",
    "at",
    "the",
    "border",
    "for",
    "a",
    "signature",
    "from",
    "the",
    "broker",
    "who",
    "asked",
    "for",
    "one",
    "more",
    "copy",
    "of",
    "the",
    "invoice",
    "before",
    "it",
    "can",
    "go",
    "on",
    "to",
    "the",
    "customer",
    "in",
    "the",
    "morning",
]
_LETTERS = string.ascii_letters + string.digits


def events(kind: str, count: int = 512, seed: int = 11) -> list[dict[str, Any]]:
    """`count` events of `kind`, "tool_call" or "llm_call", none alike and the same for the same `seed`."""
    draw = random.Random(seed)
    make = {"tool_call": tool_call, "llm_call": llm_call}[kind]
    return [make(draw, number) for number in range(count)]


def tool_call(draw: random.Random, number: int) -> dict[str, Any]:
    """Twelve fields, 25 keys, nested parameters with a bearer header, a result of 500 characters with two secrets."""
    mail = f"{draw.choice(('ana.silva', 'b.okafor', 'yuki.mori'))}{number}@shop-example.org"
    result = (
        f"{_prose(draw, 180)} write to {mail} {_prose(draw, 120)} with sk-proj-{_token(draw, 40)} {_prose(draw, 500)}"
    )
    return {
        "type": "tool_call",
        "run_id": f"{draw.getrandbits(128):032x}",
        "step_index": number % 40,
        "agent": draw.choice(("support", "planner", "buyer")),
        "tool": draw.choice(("fetch_page", "run_query", "open_file", "post_message")),
        "status": "error" if number % 20 == 0 else "ok",
        "latency_ms": round(draw.uniform(3, 900), 3),
        "attempt": 1,
        "session_id": f"sess-{_token(draw, 10)}",
        "policy": {"decision": "allow", "rule": "net.default", "reason": None},
        "params": {
            "url": f"https://api.shop-example.org/v2/orders/{draw.randrange(10**8)}",
            "method": "GET",
            "headers": {"Accept": "application/json", "Authorization": f"Bearer {_token(draw, 36)}"},
            "query": {"expand": ["lines", "customer"], "limit": 20, "since": "2026-03-01T00:00:00Z"},
            "timeout_s": 30,
        },
        "result": result[:500],
    }


def llm_call(draw: random.Random, number: int) -> dict[str, Any]:
    """Twelve fields with usage and no secret."""
    prompt, completion = draw.randrange(200, 9000), draw.randrange(20, 900)
    return {
        "type": "llm_call",
        "run_id": f"{draw.getrandbits(128):032x}",
        "step_index": number % 40,
        "agent": draw.choice(("support", "planner", "buyer")),
        "model": draw.choice(("gpt-4o-mini-2024-07-18", "claude-sonnet-4-20250514", "gemini-2.5-flash")),
        "latency_ms": round(draw.uniform(120, 4000), 3),
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "cached_tokens": prompt // 2,
        },
        "finish_reason": draw.choice(("stop", "tool_calls", "length")),
        "has_tool_calls": number % 2 == 0,
        "streamed": False,
        "cost_usd": round(prompt * 1.5e-7 + completion * 6e-7, 8),
        "temperature": 0.2,
    }


def _token(draw: random.Random, length: int) -> str:
    return "".join(draw.choices(_LETTERS, k=length))


def _prose(draw: random.Random, length: int) -> str:
    text = ""
    while len(text) < length:
        text += draw.choice(_WORDS) + " "
    return text[:length].rstrip()
