"""Records as tests need them."""

from __future__ import annotations

from typing import Any

from tracehold_collector.core.record import Record

START = 1_780_000_000_000_000_000


def make_record(n: int = 0, run: str = "run-1", **fields: Any) -> Record:
    """A model call with content; `n` gives its id, place and time."""
    given: dict[str, Any] = {
        "event_id": n.to_bytes(16, "big"),
        "tenant": "default",
        "run_id": run,
        "kind": "llm",
        "type": "llm_call",
        "source": "tracer",
        "span_id": f"{n + 1:016x}",
        "parent_span_id": "f" * 16,
        "name": "chat m1",
        "status": "ok",
        "started_at": START + n * 1_000_000,
        "duration_ns": 500_000,
        "model": "m1",
        "input_tokens": 10,
        "output_tokens": 5,
        "cost_usd": 0.25,
        "content": {"n": n},
    }
    return Record(**(given | fields))
