"""The collector's story, asked of a running one: everybody sees the gaps, and nobody's lists are changed by them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import duckdb
import httpx
import pytest
from support.keys import bearer, make_key
from support.otlp import chat_spans
from support.otlp_grpc import calling
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store.committer import Committer
from tracehold_queries import catalogue

Serve = Callable[..., CollectorServer]

PROTOBUF = {"Content-Type": "application/x-protobuf"}
SPANS = chat_spans(0, 3).SerializeToString()


def rows(server: CollectorServer, query: str = "gaps", headers: Any = None, **parameters: Any) -> list[dict[str, Any]]:
    answer = httpx.get(
        f"{server.url}/api/v1/queries/{query}", params=parameters, headers=headers, timeout=30, trust_env=False
    )
    assert answer.status_code == 200, answer.text
    return [dict(zip(answer.json()["columns"], row, strict=True)) for row in answer.json()["rows"]]


def post(server: CollectorServer, path: str = "/v1/traces", body: bytes = SPANS, **headers: str) -> httpx.Response:
    return httpx.post(server.url + path, content=body, headers=PROTOBUF | headers, timeout=60, trust_env=False)


def test_its_own_events_are_in_no_list_sum_or_service_of_anybody(serve: Serve) -> None:
    for _ in range(3):
        server = serve()
        server.close()
    server = serve()
    assert [row["cause"] for row in rows(server)] == ["stopped", "stopped", "stopped", "first_start"]
    asked = {"run_id": "r", "service": "s", "text": "start", "trace_ids": "1" * 32, "day": "2026-01-01"}
    for name, query in catalogue().items():
        needed = {item.name: asked[item.name] for item in query.parameters if item.required}
        if name == "overview":
            (overview,) = rows(server, name)
            assert (overview["runs"], overview["events"], overview["unmapped"], overview["first_at"]) == (0, 0, 0, None)
        elif name != "gaps":
            assert rows(server, name, **needed) == [], name
    for path in ("/api/services", "/api/v3/services"):
        answer = httpx.get(server.url + path, trust_env=False).json()
        assert not answer.get("data")
        assert not answer.get("services")


def test_whoever_may_read_sees_the_gaps_and_who_may_only_send_does_not(serve: Serve, tmp_path: Any) -> None:
    folder = tmp_path / "data"
    reader = make_key(folder, "read", tenants=("acme",))
    sender = make_key(folder, "ingest", tenants=("acme",))
    server = serve()
    assert [row["cause"] for row in rows(server, headers=bearer(reader))] == ["first_start"]
    refused = httpx.get(f"{server.url}/api/v1/queries/gaps", headers=bearer(sender), trust_env=False)
    assert refused.status_code == 403


def test_gaps_are_those_that_touch_the_asked_time(serve: Serve) -> None:
    server = serve()
    server.close()
    server = serve()
    stopped = rows(server)[0]
    assert rows(server, since="2100-01-01") == []
    assert [row["cause"] for row in rows(server, until="2001-01-01")] == ["first_start"]
    assert [row["cause"] for row in rows(server, since=stopped["started_at"][:26])][:1] == ["stopped"]
    assert [row["cause"] for row in rows(server, limit=1)] == ["stopped"]


@pytest.mark.parametrize("way", ["http", "grpc", "events"])
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (duckdb.IOException("IO Error: No space left on device"), "disk_full"),
        (duckdb.FatalException("database has been invalidated"), "store_failed"),
    ],
)
def test_a_store_that_cannot_write_is_a_pause_with_its_cause(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, way: str, error: Exception, cause: str
) -> None:
    server = serve(grpc=True)

    def fail(*_: Any) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(Committer, "commit", fail)
        for _ in range(2):
            if way == "grpc":
                with calling(server.grpc_address) as caller:
                    caller.refusal("traces", SPANS)
            elif way == "events":
                line = b'{"type": "llm_call", "run_id": "r"}'
                answer = httpx.post(
                    f"{server.url}/v1/events", content=line, headers={"Content-Type": "application/x-ndjson"},
                    trust_env=False,
                )  # fmt: skip
                assert answer.status_code == 503
            else:
                assert post(server).status_code == 503
    assert post(server).status_code == 200
    server.close()
    server = serve()
    (pause,) = [row for row in rows(server) if row["type"] == "pause"]
    assert (pause["cause"], pause["refused"]) == (cause, 2)
    assert pause["started_at"] <= pause["ended_at"]


def test_a_full_queue_is_a_pause(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(max_queued=1)
    entered, leave = threading.Event(), threading.Event()
    real = Committer.commit

    def slow(self: Any, batch: Any) -> Any:
        entered.set()
        leave.wait(30)
        return real(self, batch)

    monkeypatch.setattr(Committer, "commit", slow)
    first = threading.Thread(target=post, args=(server,))
    first.start()
    assert entered.wait(20)
    assert post(server).status_code == 429
    leave.set()
    first.join()
    server.close()
    server = serve()
    assert [(row["cause"], row["refused"]) for row in rows(server) if row["type"] == "pause"] == [("queue_full", 1)]


def test_a_question_the_store_cannot_answer_is_no_pause(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    with monkeypatch.context() as broken:
        broken.setattr("tracehold_collector.store.database.Database.cursor", _unavailable)
        assert httpx.get(f"{server.url}/api/v1/queries/runs", trust_env=False).status_code == 503
    server.close()
    assert [row["type"] for row in rows(serve())] == ["gap", "gap"]


def _unavailable(_self: Any) -> Any:
    raise duckdb.ConnectionException("closed")
