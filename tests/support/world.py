"""A collector over real HTTP, and what one does with it: send, ask, look."""

from __future__ import annotations

import json
from typing import Any

import httpx
import orjson
from tracehold_collector.serve import CollectorServer

from support.asking import Asker

TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_780_000_000_000_000_000
M = 1_000_000

Json = dict[str, Any]


def value(of: Any) -> Json:
    """A value as OTLP's JSON writes it."""
    if isinstance(of, bool):
        return {"boolValue": of}
    if isinstance(of, int):
        return {"intValue": str(of)}
    if isinstance(of, float):
        return {"doubleValue": of}
    if isinstance(of, list):
        return {"arrayValue": {"values": [value(each) for each in of]}}
    return {"stringValue": of} if isinstance(of, str) else of


def attributes(of: Json) -> list[Json]:
    return [{"key": key, "value": value(each)} for key, each in of.items()]


def span(n: int, parent: int | None = None, said: Json | None = None, **fields: Any) -> Json:
    """Span `n`, below span `parent`, a millisecond wide and `n` milliseconds after the first."""
    start = START + n * M
    whole: Json = {
        "traceId": TRACE,
        "spanId": f"{n + 1:016x}",
        "name": "work",
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + M),
        "attributes": attributes(said or {}),
    }
    if parent is not None:
        whole["parentSpanId"] = f"{parent + 1:016x}"
    whole |= fields
    return {key: each for key, each in whole.items() if each is not None}


def chat(tokens: tuple[int, int] | None = None, **more: Any) -> Json:
    said: Json = {"gen_ai.operation.name": "chat"}
    if tokens:
        said |= {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
    return said | {key.replace("__", "."): each for key, each in more.items()}


class World:
    """One collector."""

    def __init__(self, server: CollectorServer) -> None:
        self.server = server
        self.url = server.url
        self.ask = Asker(server.url)
        self.http = httpx.Client(base_url=server.url, trust_env=False, timeout=60)

    def post(self, body: bytes, content_type: str = "application/json", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): each for name, each in headers.items()}
        return self.http.post("/v1/traces", content=body, headers={"Content-Type": content_type} | named)

    def send(self, *spans: Json, resource: Json | None = None, scope: Json | None = None) -> Json:
        """Send spans as OTLP/JSON; the answer, which must be 200."""
        body = {"resourceSpans": [{"resource": resource or {}, "scopeSpans": [{"scope": scope or {}, "spans": spans}]}]}
        answer = self.post(json.dumps(body).encode())
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def strict(self, path: str, **parameters: Any) -> Any:
        """What an address answers, read by a parser that knows no NaN and no half characters."""
        answer = self.http.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return orjson.loads(answer.content)

    def events(self, run: str = TRACE) -> dict[str, Json]:
        """A run's events by span."""
        return {row["span_id"]: row for row in self.ask.rows("run_events", run_id=run, limit=10_000)}

    def content(self, n: int) -> Json:
        """What span `n` said."""
        return self.ask.content(self.events()[f"{n + 1:016x}"]["event_id"])

    def shown_everywhere(self, n: int = 0) -> list[Any]:
        """The trace by every way to show it; fails when one cannot."""
        event = self.events()[f"{n + 1:016x}"]["event_id"]
        return [
            self.strict("/api/v1/queries/runs"),
            self.strict("/api/v1/queries/run", run_id=TRACE),
            self.strict("/api/v1/queries/waterfall", run_id=TRACE),
            self.strict(f"/api/v1/events/{event}"),
            self.strict(f"/api/traces/{TRACE}"),
            self.strict(f"/api/v3/traces/{TRACE}"),
            self.strict("/api/services"),
        ]

    def close(self) -> None:
        self.ask.close()
        self.http.close()
