"""A receiver that is down costs nothing, whatever happens to the collector meanwhile (issue: forwarding is durable)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import httpx
from support.otlp import chat_spans
from support.processes import CollectorProcess, free_port, wait_for

REQUESTS, SPANS = 8, 200


def post(collector: CollectorProcess, first: int) -> None:
    answer = httpx.post(
        f"{collector.url}/v1/traces",
        content=chat_spans(first, SPANS).SerializeToString(),
        headers={"Content-Type": "application/x-protobuf"},
        timeout=30,
        trust_env=False,
    )
    assert answer.status_code == 200


def forwarding(collector: CollectorProcess) -> dict[str, Any]:
    return dict(httpx.get(f"{collector.url}/readyz", timeout=10, trust_env=False).json()["forward"])


def stored(folder: Path) -> list[str]:
    with duckdb.connect(str(folder / "tracehold.duckdb"), read_only=True) as store:
        return sorted(str(row[0]) for row in store.execute("SELECT event_id FROM events").fetchall())


def test_what_came_in_before_every_kill_arrives_when_the_receiver_is_there(tmp_path: Path) -> None:
    """The receiver is a collector of ours: what is sent twice after a kill is recognised there."""
    port = free_port()
    receiver = CollectorProcess(tmp_path / "receiver", port)
    collector = CollectorProcess(tmp_path / "data", None, "--forward", f"http://127.0.0.1:{port}")
    try:
        for number in range(REQUESTS):
            if number % 4 == 0:
                collector.start()
            if number == REQUESTS // 2:
                # For a while only, so that the place to go on from lies in the middle.
                receiver.start()
                wait_for(lambda: forwarding(collector)["waiting"] == 0, what="the first half at the receiver")
                receiver.kill()
            post(collector, number * SPANS)
            if number % 4 == 3:
                collector.kill()
        collector.start()
        waiting = forwarding(collector)
        receiver.start()
        wait_for(lambda: forwarding(collector)["waiting"] == 0, what="all at the receiver")
    finally:
        collector.stop()
        receiver.stop()
    assert 0 < waiting["waiting"] <= REQUESTS * SPANS
    assert len(stored(collector.data_dir)) == REQUESTS * SPANS
    assert stored(receiver.data_dir) == stored(collector.data_dir)
