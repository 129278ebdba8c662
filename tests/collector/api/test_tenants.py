"""Whose data it is: a key decides, a claim only selects within the key, and nothing of one tenant shows to another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from starlette.routing import Route
from support.keys import bearer, make_key
from support.otlp import START, chat_spans
from support.otlp_grpc import calling
from support.profile import SOAK
from tracehold_collector.core.settings import load_settings
from tracehold_collector.core.tenants import Writes, is_tenant
from tracehold_collector.decoders.decoder import NOT_YOURS
from tracehold_collector.serve import CollectorServer
from tracehold_queries import catalogue

PROTOBUF = {"Content-Type": "application/x-protobuf"}
NDJSON = {"Content-Type": "application/x-ndjson"}


class Stage:
    """A collector with a key for each purpose."""

    def __init__(self, server: CollectorServer, keys: dict[str, str]) -> None:
        self.server = server
        self.keys = keys
        self.http = httpx.Client(base_url=server.url, trust_env=False, timeout=60)

    def get(self, key: str, path: str, **params: Any) -> httpx.Response:
        return self.http.get(path, params=params, headers=bearer(self.keys[key]))

    def events(self, key: str, *events: dict[str, Any], **headers: str) -> dict[str, Any]:
        body = "\n".join(json.dumps(event) for event in events)
        shown = {**NDJSON, **bearer(self.keys[key]), **{name.replace("_", "-"): said for name, said in headers.items()}}
        answer = self.http.post("/v1/events", content=body, headers=shown)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def spans(self, key: str, request: ExportTraceServiceRequest, **headers: str) -> ExportTraceServiceResponse:
        shown = {
            **PROTOBUF,
            **bearer(self.keys[key]),
            **{name.replace("_", "-"): said for name, said in headers.items()},
        }
        answer = self.http.post("/v1/traces", content=request.SerializeToString(), headers=shown)
        assert answer.status_code == 200, answer.text
        return ExportTraceServiceResponse.FromString(answer.content)

    def tenants(self) -> dict[str, int]:
        with self.server.database.cursor() as cursor:
            return dict(cursor.execute("SELECT tenant, count(*) FROM events GROUP BY tenant").fetchall())


def stage_in(folder: Path, *, grpc: bool = False) -> Stage:
    keys = {
        "ann": make_key(folder, "ingest", "read", "content", "audit", "admin", name="ann", tenants=("ann",)),
        "bob": make_key(folder, "ingest", "read", "content", "audit", "admin", name="bob", tenants=("bob",)),
        "both": make_key(folder, "ingest", "read", "content", name="both", tenants=("ann", "bob")),
        "every": make_key(folder, "admin", "content", name="every", tenants=None),
    }
    server = CollectorServer(load_settings(port=0, grpc=grpc, grpc_port=0, data_dir=folder))
    server.start()
    return Stage(server, keys)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = stage_in(tmp_path / "data", grpc=True)
    yield made
    made.http.close()
    made.server.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = stage_in(tmp_path_factory.mktemp("shared") / "data")
    yield made
    made.http.close()
    made.server.close()


def event(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_call", "event_id": f"{number:032x}", "run_id": "r", **fields}


def claimed(tenant: Any, first: int = 0, count: int = 2) -> ExportTraceServiceRequest:
    request = chat_spans(first, count)
    attribute = request.resource_spans[0].resource.attributes.add()
    attribute.key, attribute.value.string_value = "tracehold.tenant", tenant
    return request


def test_a_key_of_one_tenant_obeys_no_claim(stage: Stage) -> None:
    stage.events("ann", event(tenant="bob"), x_tracehold_tenant="bob")
    stage.events("ann", {"id": "1", "type": "aaa.run.started", "stream": "s", "tenant": "bob"})
    stage.events("ann", {"specversion": "1.0", "id": "2", "type": "aaa.run.started", "source": "s", "tenantid": "bob"})
    stage.spans("ann", claimed("bob"), x_tracehold_tenant="bob")
    assert stage.tenants() == {"ann": 5}


def test_a_claim_selects_within_a_key_of_several_and_its_own_comes_before_the_requests(stage: Stage) -> None:
    stage.events("both", event(1), event(2, tenant="bob"), event(3, tenant=""), event(4, tenant=None))
    assert stage.tenants() == {"ann": 3, "bob": 1}
    stage.events("both", event(5), event(6, tenant="ann"), x_tracehold_tenant="bob")
    assert stage.tenants() == {"ann": 4, "bob": 2}
    stage.spans("both", claimed("bob"))
    stage.spans("both", chat_spans(10, 2))
    stage.spans("both", chat_spans(20, 2), x_tracehold_tenant="bob")
    assert stage.tenants() == {"ann": 6, "bob": 6}
    stage.events("every", event(7, tenant="new"), event(8))
    assert stage.tenants() == {"ann": 6, "bob": 6, "new": 1, "default": 1}


@pytest.mark.parametrize(
    "claim", ["cyd", "ANN", " ann", "ann\0", "x" * 200, "anna", "\ud800", 7, True, ["ann"], {"a": 1}]
)
def test_a_claim_outside_the_key_refuses_the_item_alone_and_counts_it(stage: Stage, claim: Any) -> None:
    told = stage.events("both", event(1), event(2, tenant=claim), event(3))
    assert (told["accepted"], told["rejected_count"]) == (2, 1)
    assert told["rejected"] == [{"where": "line 2", "reason": NOT_YOURS}]
    metrics = stage.get("every", "/metrics").text
    assert "tracehold_events_rejected_total 1.0" in metrics
    if isinstance(claim, str) and claim.isascii():
        answer = stage.spans("both", claimed(claim))
        assert answer.partial_success.rejected_spans == 2
        assert NOT_YOURS in answer.partial_success.error_message
    assert stage.tenants() == {"ann": 2}


@pytest.mark.parametrize("claim", ["\0", "a b", "x" * 129, "\u202e", "'; DROP TABLE events", 3, [], {}])
def test_a_key_for_all_takes_no_claim_that_is_no_name(stage: Stage, claim: Any) -> None:
    assert stage.events("every", event(1, tenant=claim))["rejected_count"] == 1
    assert stage.tenants() == {}


def test_two_headers_that_differ_are_no_claim_anybody_could_mean(stage: Stage) -> None:
    headers = [("x-tracehold-tenant", "ann"), ("x-tracehold-tenant", "bob"), *NDJSON.items()]
    for key in ("both", "every"):
        shown = [*headers, *bearer(stage.keys[key]).items()]
        told = stage.http.post("/v1/events", content=json.dumps(event()), headers=shown).json()
        assert told["rejected_count"] == 1
    assert stage.tenants() == {}


def test_over_grpc_metadata_and_resources_claim_alike(stage: Stage) -> None:
    assert stage.server.grpc_address is not None
    with calling(stage.server.grpc_address) as caller:
        key = ("x-api-key", stage.keys["both"])
        caller.export("traces", claimed("bob").SerializeToString(), metadata=(key,))
        caller.export("traces", chat_spans(5, 1).SerializeToString(), metadata=(key, ("x-tracehold-tenant", "bob")))
        body = caller.export("traces", claimed("cyd", 9, 1).SerializeToString(), metadata=(key,))
        logs = ExportLogsServiceRequest()
        resource = logs.resource_logs.add()
        attribute = resource.resource.attributes.add()
        attribute.key, attribute.value.string_value = "tracehold.tenant", "bob"
        resource.scope_logs.add().log_records.add().body.string_value = "hello"
        caller.export("logs", logs.SerializeToString(), metadata=(key,))
    assert ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans == 1
    assert stage.tenants() == {"bob": 4}


def test_an_id_that_another_tenant_has_is_neither_a_duplicate_nor_told(stage: Stage) -> None:
    for who in ("ann", "bob"):
        told = stage.events(who, event(1, name=f"of-{who}", words=f"words of {who}"))
        assert (told["accepted"], told["duplicates"]) == (1, 0)
        assert stage.events(who, event(1))["duplicates"] == 1
    for who in ("ann", "bob"):
        answer = stage.get(who, f"/api/v1/events/{1:032x}").json()
        assert answer["event"]["tenant"] == who
        assert answer["content"]["words"] == f"words of {who}"
        assert f"words of {who}" in stage.get(who, "/api/v1/contents", event_id=f"{1:032x}").text


def test_what_a_call_costs_one_tenant_is_not_added_to_anothers_of_the_same_id(stage: Stage) -> None:
    call = {"type": "llm_call", "run_id": "r", "event_id": f"{1:032x}", "started_at": "2026-05-01T00:00:00Z"}
    stage.events("ann", {**call, "usage": {"input_tokens": 10, "output_tokens": 1}, "model": "nobody-knows-this"})
    stage.events("bob", {**call, "usage": {"input_tokens": 10, "output_tokens": 1}, "model": "nobody-knows-this"})
    with stage.server.database.cursor() as cursor:
        cursor.execute(
            "INSERT INTO costs BY NAME SELECT event_id, tenant, run_id, 5.0 AS cost_usd, 'a list' AS price_source, "
            "1 AS priced_at, 5.0 AS change_usd, 1 AS newly_priced FROM events WHERE tenant = 'ann'"
        )
        found = cursor.execute("SELECT tenant, cost_usd FROM priced_events ORDER BY tenant").fetchall()
    assert found == [("ann", 5.0), ("bob", None)]


def test_halves_of_two_tenants_make_no_span(stage: Stage) -> None:
    base = {"stream": "s", "run_id": "r", "data": {"call_id": "c", "name": "search"}}
    stage.events(
        "both",
        {**base, "id": "1", "type": "aaa.tool.requested", "time": "2026-05-01T00:00:00Z", "tenant": "ann"},
        {**base, "id": "2", "type": "aaa.tool.completed", "time": "2026-05-01T00:00:09Z", "tenant": "bob",
         "causation_id": "1"},
    )  # fmt: skip
    with stage.server.database.cursor() as cursor:
        durations = cursor.execute("SELECT duration_ns FROM events WHERE tenant = 'bob'").fetchall()
    assert durations == [(None,)]


NAMES = st.sampled_from(["n1", "n2"])
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["ann", "bob", "both"]),
        st.integers(1, 6),
        st.sampled_from(["llm_call", "tool_call", "tool_denied", "run_start"]),
        st.sampled_from(["r1", "r2"]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100 if SOAK else 8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=EVENTS)
def test_nothing_of_one_tenant_shows_to_another_by_any_address(
    shared: Stage, sent: list[tuple[str, str, int, str, str]]
) -> None:
    """Each tenant's answers are those of a collector where the other never was."""
    for tenant, key, number, kind, run in sent:
        by = key if key == "both" else tenant
        mark = f"mark-of-{tenant}"
        told = shared.events(
            by,
            event(number, type=kind, run_id=run, tenant=tenant, agent=mark, name=mark, model=mark, words=mark,
                  started_at="2026-05-01T00:00:00Z", trace_id=f"{number:032x}", span_id=f"{number:016x}"),
        )  # fmt: skip
        assert told["rejected_count"] == 0
    for reader, other in (("ann", "bob"), ("bob", "ann")):
        for path, params in addresses():
            answer = shared.get(reader, path, **params)
            assert f"mark-of-{other}" not in answer.text, path
            assert f'"{other}"' not in answer.text, path
        with shared.server.database.cursor() as cursor:
            counts = cursor.execute(
                "SELECT count(*), count(DISTINCT run_id) FROM events WHERE tenant = ?", [reader]
            ).fetchone()
        body = shared.get(reader, "/api/v1/queries/runs").json()
        events = [row[body["columns"].index("events")] for row in body["rows"]]
        assert (sum(events), len(events)) == counts


def addresses() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every address that reads, with parameters that could reach another tenant's data."""
    for query in catalogue().values():
        required = {item["name"]: "r1" for item in query.describe()["parameters"] if item["required"]}
        yield f"/api/v1/queries/{query.name}", required
        yield f"/api/v1/queries/{query.name}", required | {"tenant": "x"}
    span = {"start": "1", "end": str(START * 2 // 1000)}
    v3 = {"query.start_time_min": "2000-01-01T00:00:00Z", "query.start_time_max": "2100-01-01T00:00:00Z"}
    for number in range(1, 7):
        yield f"/api/v1/events/{number:032x}", {}
        yield f"/api/traces/{number:032x}", {}
        yield f"/api/v3/traces/{number:032x}", {}
    yield "/api/v1/contents", {"event_id": [f"{number:032x}" for number in range(1, 7)]}
    for service in ("mark-of-x", "tracehold"):
        yield "/api/traces", {"service": service, **span}
        yield "/api/traces", {"service": service, "tag": "words:mark", **span}
        yield "/api/operations", {"service": service}
        yield f"/api/services/{service}/operations", {}
        yield "/api/v3/operations", {"service": service}
    yield "/api/v3/traces", v3
    yield "/api/v3/trace-summaries", v3
    yield "/api/dependencies", {"endTs": str(START * 2 // 1_000_000), "lookback": str(START // 1_000_000)}
    for form in ("csv", "otlp"):
        yield "/api/v1/export/events", {"format": form}
        yield "/api/v1/export/events", {"format": form, "with_content": "true"}
        yield "/api/v1/export/events", {"format": form, "tenant": "x"}
    for number in range(1, 7):
        yield f"/api/v1/reviews/{number:032x}", {}
        yield f"/api/v1/reviews/{number:032x}", {"tenant": "x"}
    yield "/api/v1/review-days/2026-05-01", {}
    yield "/api/v1/export/evidence", {"question": "events", "with_content": "true"}
    yield "/api/v1/export/evidence", {"question": "events", "tenant": "x"}
    for path in ("checkpoint", "tile/entries/000.p/1", "proof", "consistency"):
        yield f"/api/v1/log/x/{path}", {}  # tests of their own ask for each other's logs
    yield "/api/v1/log", {}
    for whose in ({}, {"tenant": "x"}):
        yield "/api/v1/log/state", whose
        yield "/api/v1/log/frontier", {"size": 1, **whose}
        yield "/api/v1/log/window", {"first": 0, "end": 100, **whose}
    yield "/api/v1/sql", {}
    yield "/api/v1/search/content", {"text": "mark"}
    yield "/api/v1/search/content", {"text": "mark", "tenant": "x"}
    for path in ("/api/services", "/api/v3/services", "/api/v1/budgets", "/api/v1/access-log", "/metrics"):
        yield path, {}
    for path in ("/api/v1/erasures", f"/api/v1/erasures/{1:032x}", "/api/v1/holds", "/api/v1/retention"):
        yield path, {}
    for path in ("/report", "/report.pdf"):
        yield f"/api/v1/erasures/{1:032x}{path}", {}
    for path in ("/api/v1/erasure-register", "/api/v1/records-of-processing"):
        yield path, {}


def test_the_addresses_above_are_all_that_read(shared: Stage) -> None:
    asked = {path for path, _ in addresses()}
    for route in shared.server._app.routes:
        if isinstance(route, Route) and "GET" in (route.methods or ()):
            assert any(route.path_regex.match(path) for path in asked) or route.path in {
                "/healthz", "/readyz", "/api/v1/queries", "/openapi.json",
                "/api/v1/tail",  # has no end; tests of its own read it, by tenants too
            }, route.path  # fmt: skip


@given(
    allowed=st.none() | st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True).map(tuple),
    header=st.none() | st.text(max_size=4),
    claim=st.none() | st.text(max_size=4) | st.integers() | st.sampled_from("abc"),
)
def test_no_claim_reaches_beyond_the_key(allowed: tuple[str, ...] | None, header: str | None, claim: Any) -> None:
    writes = Writes(allowed[0] if allowed else "home", allowed, header)
    tenant = writes.tenant_of(claim)
    if allowed is not None and len(allowed) == 1:
        assert tenant == allowed[0]
    elif tenant is not None:
        assert tenant in allowed if allowed is not None else is_tenant(tenant)
    if claim is None and not header:
        assert tenant == writes.first
