"""A trace is found by what one of its spans is: service, operation, tags, time, duration."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.records import START, make_record
from tracehold_collector.jaeger import search
from tracehold_collector.serve import CollectorServer

Ask = Callable[..., httpx.Response]
Serve = Callable[..., CollectorServer]

WINDOW = {"start": 1_485_300_000_000_000, "end": 1_485_500_000_000_000}
V3_WINDOW = {"query.start_time_min": "2017-01-01T00:00:00Z", "query.start_time_max": "2018-01-01T00:00:00Z"}
TRACE = "83a9efd15c1c98a977e0711cc93ee28b"


def found(ask: Ask, **params: Any) -> list[str]:
    answer = ask("/api/traces", {**WINDOW, **params})
    assert answer.status_code == 200, answer.text
    return sorted(trace["traceID"] for trace in answer.json()["data"])


def test_services_and_operations_are_listed(ask: Ask) -> None:
    services = ask("/api/services").json()
    assert services["total"] == len(services["data"]) == 11
    assert {"telemetrygen", "query18-service", "example-service-3"} <= set(services["data"])
    names = ask("/api/services/example-service-1/operations").json()["data"]
    assert names == ["example-operation-1", "example-operation-3", "example-operation-4"]


def test_operations_tell_the_kind_of_their_newest_span(ask: Ask) -> None:
    listed = ask("/api/operations", service="example-service-1").json()["data"]
    assert listed == [
        {"name": "example-operation-1", "spanKind": ""},
        {"name": "example-operation-3", "spanKind": "server"},
        {"name": "example-operation-4", "spanKind": "client"},
    ]
    servers = ask("/api/operations", service="example-service-1", spanKind="server").json()["data"]
    assert [one["name"] for one in servers] == ["example-operation-3"]


@pytest.mark.parametrize(
    ("params", "trace_id"),
    [
        ({"service": "query11-service"}, "0000000000000227"),
        ({"service": "query11-service", "operation": "query11-operation"}, "0000000000000227"),
        ({"service": "query02-service", "operation": "placeholder"}, "0000000000000002"),
        ({"service": "query05-service", "operation": "operation-list-test2"}, "0000000000000005"),
        ({"service": "example-service-2"}, "0000000000000011"),
        ({"service": "query24-service"}, "0000000000000225"),
        ({"service": "service-x", "tags": '{"peer.service":"service-y"}'}, "00000000000000010000000000000000"),
        ({"service": "service-x", "tag": "error:true"}, "00000000000000010000000000000000"),
        ({"service": "service-x", "tag": "temperature:72.5"}, "00000000000000010000000000000000"),
        ({"service": "service-x", "tag": "event:testing-event"}, "00000000000000010000000000000000"),
        ({"service": "service-x", "tag": "sdk.version:1.2.1"}, "00000000000000010000000000000000"),
        ({"service": "query24-service", "tag": "sameplacescopeattribute4:true"}, "0000000000000225"),
        ({"service": "query24-service", "tag": "sameplacespanattribute1:sameplacevalue"}, "0000000000000225"),
        ({"service": "query02-service", "tag": ["sameplacetag1:sameplacevalue", "sameplacetag2:123"]},
         "0000000000000002"),
        ({"service": "query23-service", "tags": '{"sameplacetag1":"same*"}'}, "0000000000000512"),
        ({"service": "query18-service", "operation": "query18-operation", "maxDuration": "10us", "tags": json.dumps(
            {"sameplacetag1": "sameplacevalue", "sameplacetag2": "123", "sameplacetag3": "72.5",
             "sameplacetag4": "true", "blob": "AAAwOQ=="})}, "0000000000000018"),
        ({"service": "query11-service", "minDuration": "100us"}, "0000000000000227"),
        ({"service": "query11-service", "maxDuration": "0.1ms"}, "0000000000000227"),
    ],
)  # fmt: skip
def test_each_fixture_is_found(ask: Ask, params: dict[str, Any], trace_id: str) -> None:
    assert found(ask, **params) == [trace_id]
    newer = {f"query.{new}": params[old] for old, new in _NEWER.items() if old in params}
    if "tag" not in params:
        answer = ask("/api/v3/traces", {**V3_WINDOW, **newer}).json()["result"]["resourceSpans"]
        spans = [span for resource in answer for scope in resource["scopeSpans"] for span in scope["spans"]]
        assert {span["traceId"] for span in spans} == {trace_id.rjust(32, "0")}


_NEWER = {
    "service": "service_name",
    "operation": "operation_name",
    "tags": "attributes",
    "minDuration": "duration_min",
    "maxDuration": "duration_max",
}


@pytest.mark.parametrize(
    "params",
    [
        {"service": "query11-service", "operation": "query18-operation"},
        {"service": "query23-service", "tag": "sameplacetag1:sameplacevalue"},  # no wildcard: the value is same*
        {"service": "query18-service", "tag": ["sameplacetag1:sameplacevalue", "sameplacetag2:124"]},
        {"service": "query11-service", "minDuration": "101us"},
        {"service": "query11-service", "maxDuration": "99us"},
        {"service": "query11-service", "start": 1_485_449_191_639_876},
        {"service": "query11-service", "end": 1_485_449_191_639_874},
        {"service": "nobody"},
    ],
)
def test_what_does_not_match_is_not_found(ask: Ask, params: dict[str, Any]) -> None:
    assert found(ask, **params) == []


def test_both_ends_of_the_time_asked_for_belong_to_it(ask: Ask) -> None:
    at = 1_485_449_191_639_875
    assert found(ask, service="query11-service", start=at, end=at) == ["0000000000000227"]


def test_traces_are_found_by_id_and_the_missing_are_named(ask: Ask) -> None:
    answer = ask("/api/traces", traceID=["227", "512", "227", "abc"]).json()
    assert [trace["traceID"] for trace in answer["data"]] == ["0000000000000227", "0000000000000512"]
    assert answer["errors"] == [{"msg": "trace not found", "traceID": "0000000000000abc"}]


def test_an_id_may_be_short_long_or_in_capitals(ask: Ask) -> None:
    for text in ("227", "0000000000000227", "227".rjust(32, "0")):
        assert ask(f"/api/traces/{text}", raw="true").json()["data"][0]["traceID"] == "0000000000000227"
    assert ask(f"/api/traces/{TRACE.upper()}").status_code == 200


def test_a_trace_that_is_not_there_is_404_in_jaegers_words(ask: Ask) -> None:
    answer = ask("/api/traces/abc")
    assert answer.status_code == 404
    assert answer.json()["errors"] == [{"code": 404, "msg": "trace not found"}]
    for path, params in (("/api/v3/traces/abc", {}), ("/api/v3/traces", {**V3_WINDOW, "query.service_name": "nobody"})):
        answer = ask(path, params)
        assert answer.status_code == 404
        assert answer.json() == {"error": {"httpCode": 404, "message": "No traces found"}}


def test_summaries_say_root_times_services_and_what_failed(ask: Ask) -> None:
    answer = ask("/api/v3/trace-summaries", {**V3_WINDOW, "query.serviceName": "service-x"}).json()
    assert answer == {
        "summaries": [
            {
                "traceId": "00000000000000010000000000000000",
                "rootServiceName": "service-x",
                "rootOperationName": "test-general-conversion",
                "minStartTimeUnixNano": "1485467191639875000",
                "maxEndTimeUnixNano": "1485467191639880000",
                "spanCount": 1,
                "errorSpanCount": 1,
                "orphanSpanCount": 1,
                "services": [{"name": "service-x", "spanCount": 1, "errorSpanCount": 1}],
            }
        ]
    }
    nothing = ask("/api/v3/trace-summaries", {**V3_WINDOW, "query.serviceName": "nobody"})
    assert (nothing.status_code, nothing.json()) == (200, {"summaries": []})


@pytest.fixture
def filled(serve: Serve) -> CollectorServer:
    """Thirty traces of three services, one event a millisecond, and one of another tenant."""
    server = serve()
    records = []
    for n in range(30):
        trace_id = f"{n + 1:032x}"
        root = {"trace_id": trace_id, "parent_span_id": None, "span_id": "a" * 16, "agent": f"agent-{n % 3}"}
        records += [
            make_record(4 * n, run=f"run-{n}", kind="run", type="run_start", status="started", **root),
            make_record(4 * n + 1, run=f"run-{n}", trace_id=trace_id, parent_span_id="a" * 16, service="models",
                        status="error" if n == 7 else "ok", content={"input": f"question {n}", "colour": f"c{n % 5}"}),
            make_record(4 * n + 2, run=f"run-{n}", trace_id=trace_id, parent_span_id="a" * 16, kind="gate",
                        type="tool_call", name="mail", status="blocked", decision="denied", rule=f"r{n % 2}",
                        agent="agent-0", duration_ns=None, attributes={"call_id": f"call-{n}", "streamed": True}),
        ]  # fmt: skip
    secret = {"tenant": "another", "trace_id": f"{1:032x}", "service": "theirs", "run": "theirs"}
    records.append(make_record(900, **secret))
    server.writer.submit(records).result(30)
    return server


SPAN_OF_ALL = {"start": START // 1000, "end": START // 1000 + 3_600_000_000}


def test_the_newest_traces_come_first_and_no_more_than_asked_for(filled: CollectorServer, asking: Any) -> None:
    ask = asking(filled)
    answer = ask("/api/traces", {**SPAN_OF_ALL, "service": "models", "limit": 3}).json()
    assert [trace["traceID"] for trace in answer["data"]] == [f"{n:016x}" for n in (30, 29, 28)]
    assert len(ask("/api/traces", {**SPAN_OF_ALL, "service": "models"}).json()["data"]) == search.DEFAULT_TRACES


@pytest.mark.parametrize(
    ("tags", "count"),
    [
        ({"tracehold.decision": "denied", "tracehold.rule": "r1"}, 15),
        ({"tracehold.run_id": "run-4"}, 1),
        ({"tracehold.kind": "gate"}, 30),
        ({"tracehold.status": "blocked", "tracehold.kind": "gate"}, 30),
        ({"tracehold.call_id": "call-9"}, 1),
        ({"tracehold.streamed": "true"}, 30),
        ({"tracehold.agent": "agent-0", "tracehold.call_id": "call-9"}, 1),
        ({"tracehold.event_id": f"{4 * 5 + 2:032x}"}, 1),
        ({"tracehold.event_id": "no such"}, 0),
        ({"tracehold.call_id": "call-9", "tracehold.kind": "llm"}, 0),
    ],
)
def test_the_envelope_is_searched_by_column(filled: CollectorServer, asking: Any, tags: Any, count: int) -> None:
    params = {**V3_ALL, "query.attributes": json.dumps(tags), "query.search_depth": 100}
    assert len(asking(filled)("/api/v3/trace-summaries", params).json()["summaries"]) == count


V3_ALL = {"query.start_time_min": "2026-01-01T00:00:00Z", "query.start_time_max": "2027-01-01T00:00:00Z"}


def test_an_error_is_found_and_a_denial_is_none(filled: CollectorServer, asking: Any) -> None:
    params = {**V3_ALL, "query.attributes": '{"error":"true"}'}
    summaries = asking(filled)("/api/v3/trace-summaries", params).json()["summaries"]
    assert [(one["traceId"], one["errorSpanCount"]) for one in summaries] == [(f"{8:032x}", 1)]


def test_content_is_searched_by_opening_the_newest_spans(
    filled: CollectorServer, asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = asking(filled)
    query = {**SPAN_OF_ALL, "service": "models", "tag": "colour:c1"}
    whole = ask("/api/traces", query).json()
    assert [trace["traceID"] for trace in whole["data"]] == [f"{n + 1:016x}" for n in (26, 21, 16, 11, 6, 1)]
    assert whole["errors"] is None
    monkeypatch.setattr(search, "MAX_OPENED", 10)
    part = ask("/api/traces", query).json()
    assert [trace["traceID"] for trace in part["data"]] == [f"{n + 1:016x}" for n in (26, 21)]
    assert "only the newest spans" in part["errors"][0]["msg"]
    newer = {**V3_ALL, "query.service_name": "models", "query.attributes": '{"colour":"c9"}'}
    assert "only the newest spans" in ask("/api/v3/traces", newer).json()["error"]["message"]


def test_another_tenants_spans_are_nowhere(filled: CollectorServer, asking: Any) -> None:
    ask = asking(filled)
    assert "theirs" not in ask("/api/services").json()["data"]
    assert "theirs" not in ask("/api/v3/services").json()["services"]
    assert ask("/api/services/theirs/operations").json()["data"] == []
    assert ask("/api/operations", service="theirs").json()["data"] == []
    assert ask("/api/traces", {**SPAN_OF_ALL, "service": "theirs"}).json()["data"] == []
    for path in ("/api/traces/1", "/api/v3/traces/1"):
        assert "theirs" not in ask(path).text
    for params in ({"service": "models", "limit": 100, **SPAN_OF_ALL}, {"traceID": "1"}):
        assert "theirs" not in ask("/api/traces", params).text
    params = {**V3_ALL, "query.num_traces": 100}
    assert "theirs" not in ask("/api/v3/trace-summaries", params).text
    assert "theirs" not in ask("/api/v3/traces", params).text
    event_id = f"{900:032x}"
    by_id = {**V3_ALL, "query.attributes": json.dumps({"tracehold.event_id": event_id})}
    assert ask("/api/v3/trace-summaries", by_id).json()["summaries"] == []


def test_an_agent_without_a_service_is_one(filled: CollectorServer, asking: Any) -> None:
    ask = asking(filled)
    assert ask("/api/services").json()["data"] == ["agent-0", "agent-1", "agent-2", "models"]


def test_dependencies_count_the_calls_from_one_service_to_another(filled: CollectorServer, asking: Any) -> None:
    ask = asking(filled)
    window = {"endTs": START // 1_000_000 + 1000, "lookback": 3_600_000}
    links = ask("/api/dependencies", window).json()["data"]
    assert {(one["parent"], one["child"]): one["callCount"] for one in links} == {
        ("agent-0", "models"): 10,
        ("agent-1", "models"): 10,
        ("agent-2", "models"): 10,
        ("agent-1", "agent-0"): 10,
        ("agent-2", "agent-0"): 10,
    }
    assert ask("/api/dependencies", {**window, "lookback": 0}).json()["data"] == []
    ours = ask("/api/dependencies", {**window, "service": "agent-1"}).json()["data"]
    assert {one["parent"] for one in ours} == {"agent-1"}


def test_a_service_with_a_slash_has_operations(serve: Serve, asking: Any) -> None:
    server = serve()
    server.writer.submit([make_record(1, trace_id="1" * 32, service="team/app", name="GET /x")]).result(10)
    ask = asking(server)
    assert ask("/api/services/team%2Fapp/operations").json()["data"] == ["GET /x"]


def test_a_key_is_asked_for_here_too(serve: Serve, asking: Any) -> None:
    ask = asking(serve(api_key="test-key-" + "0123456789abcdef" * 2))
    for path in ("/api/services", "/api/traces/1", "/api/v3/services", "/api/v3/trace-summaries"):
        assert ask(path).status_code == 401
