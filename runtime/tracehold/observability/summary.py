"""What the events in memory add up to, and how they read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

_PARTS: Final = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))

EMPTY_TIMELINE: Final = "(no trace events)"


def summarize(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `events` (count), `by_type`, `total_tokens` and `total_latency_ms` (TRC-18).

    Where a usage has no total, what went in and what came out are added. Values that are not numbers count as nothing:
    a summary never fails on what a program chose to record.
    """
    by_type: Counter[str] = Counter()
    tokens = 0
    latency_ms: float = 0
    for event in events:
        by_type[str(event.get("type"))] += 1
        usage = event.get("usage")
        if isinstance(usage, Mapping):
            tokens += _tokens(usage)
        latency_ms += _number(event.get("latency_ms"))
    return {
        "events": by_type.total(),
        "by_type": dict(by_type),
        "total_tokens": tokens,
        "total_latency_ms": latency_ms,
    }


def timeline(events: Iterable[Mapping[str, Any]]) -> str:
    """Return one line an event: its type, then its other fields (TRC-21)."""
    lines = [
        f"[{event.get('type')}] " + " ".join(f"{key}={value!r}" for key, value in event.items() if key != "type")
        for event in events
    ]
    return "\n".join(lines) or EMPTY_TIMELINE


def _tokens(usage: Mapping[str, Any]) -> int:
    if usage.get("total_tokens") is not None:
        return _count(usage["total_tokens"])
    # A provider that tells the parts only, in one spelling or the other.
    return sum(next((_count(usage[name]) for name in part if usage.get(name) is not None), 0) for part in _PARTS)


def _count(value: object) -> int:
    return max(0, int(_number(value)))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):  # noqa: PLR0124
        return 0
    return value
