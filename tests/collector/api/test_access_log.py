"""Who looked at what: every read, export, refusal and change leaves a line, and the line tells no secret."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.keys import bearer, make_key
from support.otlp import chat_spans
from support.records import make_record
from tracehold_collector.access.journal import Entry
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.access.tokens import new_token, parse_token
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]
Lines = list[dict[str, Any]]


def get(server: CollectorServer, path: str, key: str | None = None, **more: Any) -> httpx.Response:
    headers = {**(bearer(key) if key else {}), **more.pop("headers", {})}
    return httpx.get(server.url + path, headers=headers, timeout=30, trust_env=False, **more)


def lines_of(server: CollectorServer) -> Lines:
    """The lines, the oldest first; written by the time an answer was, or soon after."""
    server._access_log.add(Entry("read", "the end", None, "a test")).result(10)
    return read_log(server.settings.data_dir, Asked(), None)[1:][::-1]


def test_a_read_is_noted_with_who_what_whose_and_how_much(serve: Serve) -> None:
    server = serve()
    server.writer.submit([make_record(0), make_record(1, run="run-2")]).result(10)
    get(server, "/api/v1/queries/runs", params={"limit": "5", "agent": "mail to ann@example.org"})
    get(server, "/api/v1/queries/runs", headers={"Accept": "text/csv"})
    get(server, f"/api/v1/events/{make_record(0).event_id.hex()}")
    get(server, "/api/v1/contents", params={"event_id": ["0" * 32, "1" * 32]})
    query, export, event, contents = lines_of(server)
    assert query["who"] == "anyone on this machine"
    assert (query["action"], query["what"], query["status"], query["tenants"]) == (
        "read", "/api/v1/queries/{name}", 200, ["default"],
    )  # fmt: skip
    assert (query["parameters"]["name"], query["parameters"]["limit"]) == ("runs", "5")
    assert "ann@example.org" not in str(query)
    assert (export["action"], export["rows"]) == ("export", 2)
    assert (event["parameters"], event["rows"]) == ({"event_id": make_record(0).event_id.hex()}, 1)
    assert contents["parameters"]["event_id"] == ["0" * 32, "1" * 32]


def test_what_a_search_looked_for_in_contents_is_not_kept(serve: Serve) -> None:
    server = serve()
    get(
        server, "/api/traces", params={"service": "shop", "tag": "input.value:my illness", "tags": '{"a":"my illness"}'}
    )
    (line,) = lines_of(server)
    assert (line["what"], line["parameters"]["service"]) == ("/api/traces", "shop")
    assert line["parameters"]["tag"] == "(not kept)"
    assert "illness" not in str(line)


def test_refusals_are_noted_and_never_the_key_that_was_shown(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    sender = make_key(data, "ingest", name="mail agent")
    server = serve()
    stranger = new_token()
    get(server, "/api/v1/queries/runs", stranger.reveal())
    get(server, "/api/v1/queries/runs", params={"api_key": stranger.reveal(), stranger.reveal(): "x"})
    get(server, f"/api/v1/queries/{stranger.reveal()}", sender)
    get(server, "/api/v1/queries/runs", sender)
    lines = [line for line in lines_of(server) if line["action"] == "denied"]
    assert [(line["who"], line["status"]) for line in lines] == [
        ("a stranger", 401), ("a stranger", 401), ("mail agent", 403), ("mail agent", 403),
    ]  # fmt: skip
    token = parse_token(sender)
    assert token is not None
    assert lines[-1]["key_id"] == token.key_id
    server.close()
    kept = b"".join(path.read_bytes() for path in data.iterdir())
    for secret in (stranger.secret, token.secret):
        assert secret.encode() not in kept
        assert secret[:20].encode() not in kept


def test_pricing_anew_is_an_administrative_act_and_ingest_leaves_no_line(serve: Serve) -> None:
    server = serve()
    protobuf = {"Content-Type": "application/x-protobuf"}
    body = chat_spans(0, 3).SerializeToString()
    httpx.post(f"{server.url}/v1/traces", content=body, headers=protobuf, trust_env=False).raise_for_status()
    httpx.post(f"{server.url}/api/v1/prices/apply", trust_env=False).raise_for_status()
    get(server, "/metrics")
    (line,) = lines_of(server)
    assert (line["action"], line["what"]) == ("admin", "/api/v1/prices/apply")


def test_an_auditor_reads_it_over_http_as_far_as_the_key_reaches(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    every = make_key(data, "read", "audit", name="every", tenants=None)
    own = make_key(data, "audit", name="own", tenants=("acme",))
    make_key(data, "read", name="secret customer", tenants=("other",))
    server = serve()
    get(server, "/api/v1/queries/runs", every, params={"tenant": "acme"})
    get(server, "/api/v1/queries/runs", every, params={"tenant": "other"})
    get(server, "/api/v1/queries/runs", every, params={"run_id": "of other"})
    get(server, "/api/v1/queries/runs", "x")

    def asked(shown: str, **params: Any) -> Lines:
        answer = get(server, "/api/v1/access-log", shown, params=params)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return [dict(zip(body["columns"], row, strict=True)) for row in body["rows"]]

    seen = asked(own)
    assert "other" not in str(seen)
    assert "secret customer" not in str(seen)
    assert "stranger" not in str(seen)
    reads = [line for line in seen if line["who"] == "every" and line["action"] == "read"]
    assert [line["tenants"] for line in reads] == [["acme"], ["acme"]]
    assert [line["who"] for line in asked(every, action="denied")] == ["a stranger"]
    assert asked(every, key="own")[0]["what"] == "/api/v1/access-log"
    assert asked(every, limit=1)[0]["at"].endswith("Z")
    assert asked(every, since="2200-01-01") == []
    for bad in (
        {"limit": "0"},
        {"limit": "x"},
        {"action": "write"},
        {"since": "soon"},
        {"tenant": "a"},
        {"before": "-1"},
    ):
        assert get(server, "/api/v1/access-log", every, params=bad).status_code == 400, bad


def test_an_answer_does_not_wait_for_a_log_that_cannot_be_written(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    held = threading.Event()
    real = server._access_log._write
    monkeypatch.setattr(server._access_log, "_write", lambda entries: held.wait(60) and real(entries))
    try:
        answer = get(server, "/api/v1/queries/runs")
        assert answer.status_code == 200
        assert answer.elapsed.total_seconds() < 5
    finally:
        held.set()
    assert [line["status"] for line in lines_of(server)] == [200]
