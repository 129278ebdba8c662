"""Which role opens what, over HTTP and gRPC: every address in one table, and what is in none is closed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from starlette.routing import Route
from support.keys import bearer, make_key
from support.otlp import chat_spans
from support.otlp_grpc import calling
from support.processes import wait_for
from support.records import make_record
from tracehold.core.clock import NS_PER_S, now_ns
from tracehold.core.errors import ConfigurationError
from tracehold_collector.access import gate as gate_module
from tracehold_collector.access.keys import KeyFile
from tracehold_collector.access.limits import Limit
from tracehold_collector.access.roles import ROLES, effective
from tracehold_collector.access.tokens import new_token, parse_token
from tracehold_collector.api import access as http_access
from tracehold_collector.api import needs, otlp_grpc
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]

SECRET = "the words that were said"
TRACE = f"{1:032x}"
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def routes_of(server: CollectorServer) -> list[Route]:
    return [route for route in server._app.routes if isinstance(route, Route)]


def ask(server: CollectorServer, path: str, key: str | None, method: str = "GET", **more: Any) -> httpx.Response:
    headers = {**more.pop("headers", {}), **(bearer(key) if key else {})}
    if path == "/api/v1/tail":  # ends when its reader does
        with httpx.stream(method, server.url + path, headers=headers, timeout=30, trust_env=False) as answer:
            return answer
    return httpx.request(method, server.url + path, headers=headers, timeout=30, trust_env=False, **more)


def filled(path: str) -> str:
    """A route's path with something in its place-holders."""
    return re.sub(r"\{[^}]+\}", "runs", path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(serve: Serve, data: Path) -> CollectorServer:
    make_key(data, "read", name="there is a key")
    started = serve()
    content = {"attributes": {"reason": SECRET, "mark": SECRET}, "span_kind": 3, "name": SECRET}
    started.writer.submit([make_record(0, trace_id=TRACE, source="otlp", service="shop", content=content)]).result(10)
    return started


@pytest.fixture
def key(server: CollectorServer, data: Path) -> Callable[..., str]:
    """Make a key that the running collector knows."""

    def make(*roles: str, **more: Any) -> str:
        made = make_key(data, *roles, **more)
        server.keys.refresh()
        return made

    return make


def test_every_address_has_a_need_and_no_need_lacks_an_address(server: CollectorServer) -> None:
    paths = {route.path for route in routes_of(server)} - needs.OPEN_PATHS
    assert paths == set(needs.HTTP)
    assert set(needs.GRPC) == set(otlp_grpc.SERVICES)
    assert {need.role for need in (*needs.HTTP.values(), *needs.GRPC.values())} <= set(ROLES)


def test_an_address_without_a_need_is_closed_to_everyone(
    server: CollectorServer, key: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = key("admin", "content", tenants=None)
    known = {path: need for path, need in needs.HTTP.items() if path != "/api/v1/queries"}
    monkeypatch.setattr(http_access, "HTTP", known)
    assert ask(server, "/api/v1/queries", every).status_code == 403
    assert "no role opens" in ask(server, "/api/v1/queries", every).json()["error"]


@pytest.mark.parametrize("role", [role for role in ROLES if role != "content"])
def test_a_role_opens_its_addresses_and_no_other(server: CollectorServer, key: Callable[..., str], role: Any) -> None:
    shown = key(role, tenants=None)
    for route in routes_of(server):
        method = "POST" if "POST" in (route.methods or ()) else "GET"
        status = ask(server, filled(route.path), shown, method, headers=PROTOBUF).status_code
        need = needs.HTTP.get(route.path)
        opened = need is None or need.role in effective([role])
        assert (status == 403) is not opened, (role, route.path, status)
        if need is not None:
            assert ask(server, filled(route.path), None, method, headers=PROTOBUF).status_code == 401


def test_up_and_ready_are_open_and_nothing_beside_them_is(server: CollectorServer) -> None:
    assert ask(server, "/healthz", None).status_code == ask(server, "/readyz", None).status_code == 200
    for path in ("/", "/healthz/", "/healthz/x", "/HEALTHZ", "//healthz", "/docs"):
        assert ask(server, path, None).status_code == 401, path


def test_a_refusal_names_the_role_and_no_secret(server: CollectorServer, key: Callable[..., str]) -> None:
    shown = key("ingest")
    answer = ask(server, "/api/v1/queries/runs", shown)
    assert answer.json()["error"] == "this needs a key with the role read; this one has ingest"
    token = parse_token(shown)
    assert token is not None
    assert token.secret not in answer.text
    otlp = ask(server, "/v1/traces", key("read"), "POST", content=b"", headers=PROTOBUF)
    assert (otlp.status_code, otlp.headers["content-type"]) == (403, "application/x-protobuf")


def test_metrics_count_for_all_tenants_and_so_open_only_to_a_key_for_all(
    server: CollectorServer, key: Callable[..., str]
) -> None:
    assert ask(server, "/metrics", key("read", tenants=("a", "b"))).status_code == 403
    assert ask(server, "/metrics", key("read", tenants=None)).status_code == 200


def test_without_the_role_content_no_answer_holds_what_was_said(
    server: CollectorServer, key: Callable[..., str]
) -> None:
    envelope, whole = key("read", "audit"), key("read", "content")
    event_id = make_record(0).event_id.hex()
    span = {"service": "shop", "start": "1", "end": "1900000000000000", "limit": "5"}
    v3 = {"query.service_name": "shop", "query.start_time_min": "2026-01-01T00:00:00Z",
          "query.start_time_max": "2027-01-01T00:00:00Z"}  # fmt: skip
    asked: list[tuple[str, dict[str, Any]]] = [
        (f"/api/v1/events/{event_id}", {}),
        ("/api/v1/contents", {"event_id": event_id}),
        (f"/api/traces/{TRACE}", {}),
        ("/api/traces", span),
        ("/api/traces", {"traceID": TRACE}),
        (f"/api/v3/traces/{TRACE}", {}),
        ("/api/v3/traces", v3),
    ]
    for path, params in asked:
        withheld, told = ask(server, path, envelope, params=params), ask(server, path, whole, params=params)
        assert told.status_code == withheld.status_code == 200, withheld.text
        assert SECRET in told.text
        assert "role content" not in told.text
        assert SECRET not in withheld.text
        if not path.startswith("/api/v3"):
            assert "role content" in withheld.text, path
    event = ask(server, asked[0][0], envelope).json()
    assert (event["event"]["model"], event["content"]) == ("m1", None)
    assert ask(server, "/api/v1/contents", envelope, params={"event_id": event_id}).json()["contents"] == {
        event_id: None
    }


def test_a_search_by_what_was_said_finds_nothing_for_a_key_that_may_not_see_it(
    server: CollectorServer, key: Callable[..., str]
) -> None:
    params = {"service": "shop", "start": "1", "end": "1900000000000000"}
    for tag, by_envelope in ((f"mark:{SECRET}", False), ("tracehold.model:m1", True)):
        withheld = ask(server, "/api/traces", key("read"), params=params | {"tag": tag}).json()
        told = ask(server, "/api/traces", key("read", "content"), params=params | {"tag": tag}).json()
        assert len(told["data"]) == 1, tag
        assert len(withheld["data"]) == by_envelope, tag
        assert ("role content" in json.dumps(withheld["errors"])) is not by_envelope


def test_grpc_asks_for_the_same_keys(serve: Serve, data: Path) -> None:
    sender, reader = make_key(data, "ingest"), make_key(data, "read")
    server = serve(grpc=True)
    body = chat_spans(0, 2).SerializeToString()
    assert server.grpc_address is not None
    with calling(server.grpc_address) as caller:
        for metadata, code in (
            ((), grpc.StatusCode.UNAUTHENTICATED),
            ((("authorization", f"Bearer {new_token().reveal()}"),), grpc.StatusCode.UNAUTHENTICATED),
            ((("x-api-key", reader),), grpc.StatusCode.PERMISSION_DENIED),
        ):
            refusal = caller.refusal("traces", body, metadata=metadata)
            assert (refusal.code, refusal.retry_after_s) == (code, None)
            assert reader not in refusal.text
        caller.export("traces", body, metadata=(("x-api-key", sender),))
    assert ask(server, "/api/v1/queries/runs", reader).json()["rows"]


def test_a_service_without_a_need_is_closed(serve: Serve, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = make_key(data, "admin")
    server = serve(grpc=True)
    monkeypatch.setattr(otlp_grpc, "GRPC", {})
    assert server.grpc_address is not None
    with calling(server.grpc_address) as caller:
        refusal = caller.refusal("traces", b"", metadata=(("x-api-key", sender),))
    assert refusal.code == grpc.StatusCode.PERMISSION_DENIED


def test_the_first_key_ends_keyless_access_of_a_running_collector(serve: Serve, data: Path) -> None:
    server = serve()
    assert ask(server, "/api/v1/queries/runs", None).status_code == 200
    shown = make_key(data, "read")
    wait_for(lambda: ask(server, "/api/v1/queries/runs", None).status_code == 401, within_s=2)
    assert ask(server, "/api/v1/queries/runs", shown).status_code == 200
    assert ask(server, "/api/v1/queries/runs", shown, headers={"Host": "collector.example"}).status_code == 200


def test_a_revoked_key_is_refused_within_a_second(server: CollectorServer, key: Callable[..., str], data: Path) -> None:
    shown = key("read", name="leaked")
    assert ask(server, "/api/v1/queries", shown).status_code == 200
    with closing(KeyFile(data, "a test")) as file:
        file.revoke("leaked")
    wait_for(lambda: ask(server, "/api/v1/queries", shown).status_code == 401, within_s=2)
    assert "revoked" in ask(server, "/api/v1/queries", shown).json()["error"]


def test_a_key_that_expires_while_the_collector_runs_is_refused_from_then_on(
    server: CollectorServer, key: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    end = now_ns() + 3600 * NS_PER_S
    shown = key("read", expires_at=end)
    assert ask(server, "/api/v1/queries", shown).status_code == 200
    monkeypatch.setattr(gate_module, "now_ns", lambda: end)
    assert ask(server, "/api/v1/queries", shown).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Bearer \x80\xff\xfe" * 50)],
        [(b"authorization", b"Bearer " + b"th_" * 5_000)],
        [(b"x-api-key", b"th_aaaaaaaaaaaa_" + b"a" * 43)] * 50,
        [(b"authorization", b"Bearer"), (b"authorization", b"Basic eDp5")],
        [(b"authorization", b"bearer x" + b"\t" * 1_000 + b"x")],
        [(b"x-tracehold-tenant", b"\xed\xa0\x80")],
    ],
)
def test_hostile_headers_are_answered_401(server: CollectorServer, headers: list[tuple[bytes, bytes]]) -> None:
    answer = httpx.get(f"{server.url}/api/v1/queries", headers=headers, trust_env=False, timeout=30)
    assert answer.status_code == 401
    assert ask(server, "/healthz", None).status_code == 200


@pytest.mark.parametrize("value", [b"a" * 1_048_576, b"a\0b"])
def test_headers_that_http_does_not_allow_harm_nobody(server: CollectorServer, value: bytes) -> None:
    try:
        answer = httpx.get(f"{server.url}/api/v1/queries", headers=[(b"x-api-key", value)], trust_env=False, timeout=30)
    except httpx.HTTPError:
        pass  # the connection was closed on it
    else:
        assert 400 <= answer.status_code < 500
    assert ask(server, "/healthz", None).status_code == 200


def test_requests_beyond_a_keys_rate_are_told_to_come_back(server: CollectorServer, key: Callable[..., str]) -> None:
    shown = key("read", "ingest", limit=Limit(requests_per_s=0.01))
    assert ask(server, "/api/v1/queries", shown).status_code == 200
    refused = ask(server, "/api/v1/queries", shown)
    assert (refused.status_code, int(refused.headers["retry-after"])) == (429, 100)
    assert ask(server, "/v1/traces", shown, "POST", content=b"", headers=PROTOBUF).status_code == 429
    assert ask(server, "/api/v1/queries", key("read")).status_code == 200


def test_events_beyond_a_keys_day_are_refused_whole_and_none_that_was_taken_is_lost(serve: Serve, data: Path) -> None:
    sender = make_key(data, "ingest", "read", limit=Limit(events_per_day=5))
    server = serve(grpc=True)
    first, later = chat_spans(0, 6).SerializeToString(), chat_spans(6, 1).SerializeToString()
    assert ask(server, "/v1/traces", sender, "POST", content=first, headers=PROTOBUF).status_code == 200
    refused = ask(server, "/v1/traces", sender, "POST", content=later, headers=PROTOBUF)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 3600
    assert server.grpc_address is not None
    with calling(server.grpc_address) as caller:
        refusal = caller.refusal("traces", later, metadata=(("x-api-key", sender),))
    assert refusal.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.retry_after_s is not None
    columns = ask(server, "/api/v1/queries/overview", sender).json()
    assert ask(server, "/api/v1/queries/runs", sender).json()["rows"], columns
    with server.database.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM events").fetchone() == (6,)


def test_a_collector_that_nobody_could_ask_does_not_start(serve: Serve) -> None:
    token = new_token()
    with pytest.raises(ConfigurationError, match="has no keys") as caught:
        serve(api_key=token.reveal())
    assert token.secret not in str(caught.value)


def test_another_address_needs_a_key_and_takes_a_made_one(serve: Serve, data: Path) -> None:
    with pytest.raises(ConfigurationError, match="tracehold keys create"):
        serve(host="0.0.0.0")  # noqa: S104
    shown = make_key(data, "read")
    server = serve(host="0.0.0.0")  # noqa: S104
    url = f"http://127.0.0.1:{server.port}/api/v1/queries"
    assert httpx.get(url, headers=bearer(shown), trust_env=False).status_code == 200
    assert httpx.get(url, trust_env=False).status_code == 401
