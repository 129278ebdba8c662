"""Erasures and legal holds over HTTP: who may ask, who may see, and what a late sender is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import generate_latest
from support.keys import bearer, make_key
from support.records import make_record
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def keys(data: Path) -> dict[str, str]:
    return {
        "dpo": make_key(data, "erase", name="dpo", tenants=("acme",)),
        "counsel": make_key(data, "erase", name="counsel", tenants=("acme",)),
        "auditor": make_key(data, "audit", name="auditor", tenants=("acme",)),
        "other": make_key(data, "erase", name="other", tenants=("globex",)),
        "sender": make_key(data, "ingest", "read", name="sender", tenants=("acme",)),
    }


def _ask(server: CollectorServer, key: str, path: str, body: Any = None) -> httpx.Response:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60, headers=bearer(key)) as http:
        return http.get(path) if body is None else http.post(path, json=body)


def _fill(server: CollectorServer) -> str:
    alice = server.erasures._pseudonyms.of("acme").user("alice")
    server.writer.submit([make_record(n, "run-1", tenant="acme", user_ref=alice) for n in range(3)]).result(30)
    server.writer.submit([make_record(9, "run-9", tenant="globex")]).result(30)
    return alice


def test_a_request_is_previewed_made_and_seen_by_who_may(serve: Serve, keys: dict[str, str]) -> None:
    server = serve()
    alice = _fill(server)
    body = {"scope": "subject", "value": "alice", "mode": "delete", "basis": "gdpr-17-1-a", "note": "by mail"}
    preview = _ask(server, keys["dpo"], "/api/v1/erasures/preview", body).json()
    assert (preview["events"], preview["runs"], preview["scope_value"]) == (3, 1, alice)
    asked = _ask(server, keys["dpo"], "/api/v1/erasures/request", body)
    assert asked.status_code == 200, asked.text
    record = asked.json()
    server.erasures.wait(record["id"], 60)
    seen = _ask(server, keys["auditor"], f"/api/v1/erasures/{record['id']}").json()
    assert (seen["status"], seen["requester"], seen["overdue"]) == ("bytes gone", "dpo", False)
    assert seen["canaries"]["found"] == {}
    assert seen["canaries"]["sealed"] == 1
    assert seen["basis_text"].startswith("GDPR Art. 17(1)(a)")
    assert seen["due_at"] > seen["received_at"]
    assert [row["id"] for row in _ask(server, keys["auditor"], "/api/v1/erasures").json()["erasures"]] == [record["id"]]
    # Another tenant's officer sees nothing of it, and audit is no permission to erase.
    assert _ask(server, keys["other"], "/api/v1/erasures").json() == {"erasures": []}
    assert _ask(server, keys["other"], f"/api/v1/erasures/{record['id']}").status_code == 404
    assert _ask(server, keys["auditor"], "/api/v1/erasures/request", body).status_code == 403
    assert _ask(server, keys["other"], "/api/v1/erasures/request", body | {"tenant": "acme"}).status_code == 403
    with server.database.cursor() as cursor:
        assert cursor.execute("SELECT tenant, count(*) FROM events WHERE source = 'tracer' GROUP BY 1").fetchall() == [
            ("globex", 1)
        ]


def test_a_late_sender_is_told_erased(serve: Serve, keys: dict[str, str]) -> None:  # FR-47
    server = serve()
    event = {"event_id": "a" * 32, "type": "llm_call", "run_id": "run-1", "prompt": "secret"}

    def send(**more: Any) -> dict[str, Any]:
        with httpx.Client(base_url=server.url, trust_env=False, headers=bearer(keys["sender"])) as http:
            content = json.dumps(event | more)
            headers = {"Content-Type": "application/x-ndjson"}
            told: dict[str, Any] = http.post("/v1/events", content=content, headers=headers).json()
            return told

    assert send()["accepted"] == 1
    record = _ask(server, keys["dpo"], "/api/v1/erasures/request", {"scope": "run", "value": "run-1"}).json()
    server.erasures.wait(record["id"], 60)
    late = send(event_id="b" * 32)
    assert (late["accepted"], late["rejected_count"]) == (0, 1)
    assert late["rejected"][0]["reason"].startswith("erased:")
    assert "tracehold_events_erased_total 1.0" in _metrics(server)


def test_holds_are_placed_listed_and_released(serve: Serve, keys: dict[str, str]) -> None:
    server = serve()
    _fill(server)
    placed = _ask(server, keys["counsel"], "/api/v1/holds/place", {"scope": "tenant", "reason": "case 7"}).json()
    assert (placed["placed_by"], placed["active"], placed["scope"]) == ("counsel", True, "tenant")
    record = _ask(server, keys["dpo"], "/api/v1/erasures/request", {"scope": "run", "value": "run-1"}).json()
    assert server.erasures.wait(record["id"], 60).refused_why == "hold"
    assert _ask(server, keys["other"], f"/api/v1/holds/{placed['id']}/release", {}).status_code == 404
    released = _ask(server, keys["dpo"], f"/api/v1/holds/{placed['id']}/release", {}).json()
    assert (released["released_by"], released["active"]) == ("dpo", False)
    assert [hold["active"] for hold in _ask(server, keys["auditor"], "/api/v1/holds").json()["holds"]] == [False]


def test_in_strict_mode_a_second_key_approves(serve: Serve, keys: dict[str, str]) -> None:
    server = serve(strict_erasure=True)
    _fill(server)
    record = _ask(server, keys["dpo"], "/api/v1/erasures/request", {"scope": "run", "value": "run-1"}).json()
    assert record["status"] == "waiting for approval"
    own = _ask(server, keys["dpo"], f"/api/v1/erasures/{record['id']}/approve", {})
    assert (own.status_code, "somebody else" in own.text) == (403, True)
    assert _ask(server, keys["counsel"], f"/api/v1/erasures/{record['id']}/approve", {}).status_code == 200
    assert server.erasures.wait(record["id"], 60).approver == "counsel"


def test_a_page_in_a_browser_cannot_erase(serve: Serve) -> None:
    server = serve()
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        answer = http.post(
            "/api/v1/erasures/request", content=b'{"scope":"tenant"}', headers={"Content-Type": "text/plain"}
        )
    assert answer.status_code == 415


def test_pseudonyms_of_runs_differ_by_tenant() -> None:
    own = Pseudonyms(b"k" * 32, "acme")
    assert own.run("r") != own.of("globex").run("r")


def _metrics(server: CollectorServer) -> str:
    return generate_latest(server._app.state.metrics).decode()
