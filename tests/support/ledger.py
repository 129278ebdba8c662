"""Senders that keep a ledger of what was acknowledged, to be held against the store afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import grpc
import httpx

from support.otlp import START, chat_spans
from support.otlp_grpc import METHODS

WAYS = ("http", "grpc", "events")


class Sender(threading.Thread):
    """Sends numbered events without end; one that was not acknowledged is sent again, as an SDK would.

    Args:
        way: one of `WAYS`.
        address: where to; an URL, for gRPC host and port.
        first: the number of its first event; its own are those up to `first + room`.
        each: events in a request.
        requests: how many requests to have acknowledged before it ends; `None` goes on until told to stop.
    """

    def __init__(self, way: str, address: str, first: int, *, each: int = 20, requests: int | None = None) -> None:
        super().__init__(daemon=True, name=f"{way}-{first}")
        self.way, self.address, self.each, self.requests = way, address, each, requests
        self.next = first
        self.acknowledged: list[int] = []
        self.refused: list[int] = []
        """What was answered to requests that were not taken: HTTP statuses, gRPC codes."""
        self.stopping = threading.Event()
        self._send: Callable[[int], int] = {"http": self._http, "grpc": self._grpc, "events": self._events}[way]
        self._client = httpx.Client(trust_env=False, timeout=30)

    def run(self) -> None:
        while not self.stopping.is_set() and (self.requests is None or len(self.acknowledged) < self.requests):
            try:
                status = self._send(self.next)
            except httpx.TransportError:
                self.stopping.wait(0.02)
                continue
            if status == 0:
                self.acknowledged.append(self.next)
                self.next += self.each
            else:
                self.refused.append(status)
                self.stopping.wait(0.05)
        self._client.close()

    def _http(self, first: int) -> int:
        return self._post("/v1/traces", chat_spans(first, self.each).SerializeToString(), "application/x-protobuf")

    def _events(self, first: int) -> int:
        lines = (
            json.dumps(
                {"type": "llm_call", "event_id": f"{number:032x}", "span_id": f"{number + 1:016x}"}
                | {"run_id": f"run-{number // 20}", "started_at_ns": START + number, "usage": {"input_tokens": 7}}
            )
            for number in range(first, first + self.each)
        )
        return self._post("/v1/events", "\n".join(lines).encode(), "application/x-ndjson")

    def _post(self, path: str, body: bytes, kind: str) -> int:
        answer = self._client.post(self.address + path, content=body, headers={"Content-Type": kind})
        return 0 if answer.status_code == 200 else answer.status_code

    def _grpc(self, first: int) -> int:
        # A channel of its own each time: one that lost its peer waits longer and longer before it looks again.
        with grpc.insecure_channel(self.address, options=(("grpc.enable_http_proxy", 0),)) as channel:
            try:
                channel.unary_unary(METHODS["traces"])(chat_spans(first, self.each).SerializeToString(), timeout=30)
            except grpc.RpcError as error:
                code: int = error.code().value[0]  # type: ignore[attr-defined]
                return code
        return 0


def stop_all(senders: Sequence[Sender]) -> None:
    """Stop the senders and wait for them."""
    for sender in senders:
        sender.stopping.set()
    for sender in senders:
        sender.join()


def acknowledged_spans(senders: Sequence[Sender]) -> set[str]:
    """The span ids of everything that was acknowledged."""
    return {
        f"{number + 1:016x}"
        for sender in senders
        for first in sender.acknowledged
        for number in range(first, first + sender.each)
    }


def hold_against_store(senders: Sequence[Sender], data_dir: Path) -> list[dict[str, Any]]:
    """Check that nothing acknowledged is lost and nothing is doubled; return the collector's own events, in order."""
    with duckdb.connect(str(data_dir / "tracehold.duckdb"), read_only=True) as store:
        stored = [row[0] for row in store.execute("SELECT span_id FROM events").fetchall()]
        counted = store.execute("SELECT sum(events), sum(llm_calls), sum(input_tokens) FROM runs").fetchone()
        own = store.execute("SELECT type, cause, started_at, ended_at, refused FROM collector_events ORDER BY rowid")
        names = [column[0] for column in own.description]
        story = [dict(zip(names, row, strict=True)) for row in own.fetchall()]
        in_gaps = store.execute(
            "SELECT count(*) FROM events, collector_events AS gap "
            "WHERE gap.type = 'gap' AND received_at > gap.started_at AND received_at < gap.ended_at"
        ).fetchone()
    assert acknowledged_spans(senders) <= set(stored)
    assert len(stored) == len(set(stored))
    assert counted == (len(stored), len(stored), 7 * len(stored))
    assert in_gaps == (0,)
    return story
