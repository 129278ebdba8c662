"""What was acknowledged survives SIGKILL, once (design: decision 1)."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import duckdb
import httpx
from support.otlp import chat_spans
from support.processes import CollectorProcess, wait_for
from support.profile import SOAK

KILLS = 60 if SOAK else 10
SENDERS = 3
SPANS = 40


class Sender(threading.Thread):
    """Sends numbered requests and keeps those that were acknowledged; resends the one whose answer never came."""

    def __init__(self, url: str, place: int) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.place = place
        self.acknowledged: list[int] = []
        self.stopping = threading.Event()
        self.next = 0

    def run(self) -> None:
        while not self.stopping.is_set():
            first = (self.next * SENDERS + self.place) * SPANS
            body = chat_spans(first, SPANS).SerializeToString()
            try:
                answer = httpx.post(
                    f"{self.url}/v1/traces", content=body, timeout=20, trust_env=False,
                    headers={"Content-Type": "application/x-protobuf"},
                )  # fmt: skip
            except httpx.TransportError:
                self.stopping.wait(0.02)
                continue
            if answer.status_code == 200:
                self.acknowledged.append(first)
                self.next += 1


def test_every_acknowledged_span_is_there_once_after_ten_kills(tmp_path: Path) -> None:  # FR-25
    collector = CollectorProcess(tmp_path / "data").start()
    senders = [Sender(collector.url, place) for place in range(SENDERS)]
    for sender in senders:
        sender.start()
    moments = random.Random(20261129)
    for _ in range(KILLS):
        before = sum(len(sender.acknowledged) for sender in senders)
        target = before + moments.randrange(3, 25)
        wait_for(
            lambda target=target: sum(len(sender.acknowledged) for sender in senders) >= target,
            what="progress",
        )
        collector.kill()
        collector.start()
    for sender in senders:
        sender.stopping.set()
    for sender in senders:
        sender.join()
    collector.stop()

    with duckdb.connect(str(tmp_path / "data" / "tracehold.duckdb"), read_only=True) as store:
        stored = [row[0] for row in store.execute("SELECT span_id FROM events").fetchall()]
        counted = store.execute("SELECT sum(events), sum(llm_calls), sum(input_tokens) FROM runs").fetchone()
    acknowledged = {
        f"{n + 1:016x}" for sender in senders for first in sender.acknowledged for n in range(first, first + SPANS)
    }
    assert acknowledged <= set(stored)
    assert len(stored) == len(set(stored))
    assert counted == (len(stored), len(stored), 7 * len(stored))
