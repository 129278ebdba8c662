"""What an event becomes: one span an id, its envelope as tags, and a word where something is missing or odd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import httpx
import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import START, make_record
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.core.jsontext import dumps
from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.jaeger import search
from tracehold_collector.jaeger import view as view_module
from tracehold_collector.jaeger.otlp_json import traces_data
from tracehold_collector.jaeger.ui_json import ui_trace
from tracehold_collector.jaeger.view import TraceView, trace_view
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store import opened, reader
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import Access, Reader
from tracehold_collector.store.traces import StoredTrace
from tracehold_collector.store.writer import Writer

Serve = Callable[..., CollectorServer]
MS = 1_000_000
TRACE = "1" * 32
ROOT = "a" * 16


def of(*records: Record, events: int = 0, received_at: int = START) -> TraceView:
    stored = StoredTrace("default", TRACE, list(records), max(events, len(records)), received_at)
    return trace_view(stored)


def event(n: int, **fields: Any) -> Record:
    return make_record(n, **{"trace_id": TRACE, "parent_span_id": ROOT, **fields})


def first_form(view: TraceView) -> dict[str, Any]:
    trace: dict[str, Any] = orjson.loads(b"".join(ui_trace(view)))
    return trace


def third_form(view: TraceView) -> dict[str, Any]:
    data: dict[str, Any] = orjson.loads(b"".join(traces_data([view])))
    return data


def shown(view: TraceView) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = first_form(view)["spans"]
    return spans


def tags(span: dict[str, Any]) -> dict[str, Any]:
    return {tag["key"]: tag["value"] for tag in span["tags"]}


def test_a_start_and_an_end_are_one_span() -> None:
    start = event(0, span_id=ROOT, parent_span_id=None, kind="run", type="run_start", name="answer", status="started",
                  duration_ns=None, content={"input": "why?"})  # fmt: skip
    end = event(9, span_id=ROOT, parent_span_id=None, kind="run", type="run_end", name=None, status="ok",
                started_at=START, duration_ns=9 * MS, content={"output": "because"})  # fmt: skip
    (span,) = shown(of(end, start))
    assert (span["operationName"], span["startTime"], span["duration"]) == ("answer", START // 1000, 9000)
    said = tags(span)
    assert (said["tracehold.type"], said["tracehold.status"]) == ("run_end", "ok")
    assert (said["input"], said["output"]) == ("why?", "because")
    assert span["warnings"] is None
    assert span["logs"] == []


def test_an_end_that_tells_no_duration_lasts_from_the_start() -> None:
    halves = [event(n, span_id=ROOT, status=status, duration_ns=None) for n, status in ((0, "started"), (7, "ok"))]
    (span,) = shown(of(*halves))
    assert span["duration"] == 7000


def test_a_span_that_never_ended_is_said_to_be_open() -> None:
    (span,) = shown(of(event(0, span_id=ROOT, parent_span_id=None, status="started", duration_ns=5)))
    assert span["duration"] == 0
    assert "only the start was recorded" in span["warnings"][0]


def test_further_events_of_a_span_are_its_logs() -> None:
    call = event(0, span_id=ROOT, parent_span_id=None, kind="tool", type="tool_call", name="mail")
    asked = event(1, span_id=ROOT, kind="approval", type="approval_request", status="suspended", duration_ns=None)
    (span,) = shown(of(asked, call))
    assert span["operationName"] == "mail"
    (log,) = span["logs"]
    fields = {field["key"]: field["value"] for field in log["fields"]}
    assert (fields["event"], fields["tracehold.status"]) == ("approval_request", "suspended")
    assert log["timestamp"] == (START + MS) // 1000


def test_a_point_is_a_span_of_no_duration_under_an_id_of_its_own() -> None:
    points = [event(n, span_id=None, parent_span_id=None, duration_ns=None, run="r") for n in (1, 2)]
    first, second = shown(of(*points))
    assert first["duration"] == second["duration"] == 0
    assert first["spanID"] != second["spanID"]
    assert {one["references"][0]["spanID"] for one in (first, second)} == {run_root_span_id("r")}


@pytest.mark.parametrize(
    ("fields", "service"),
    [
        ({"service": "shop", "agent": "planner"}, "shop"),
        ({"service": None, "agent": "planner"}, "planner"),
        ({"service": None, "agent": None}, "tracehold"),
    ],
)
def test_the_service_is_the_service_else_the_agent_else_ours(fields: dict[str, Any], service: str) -> None:
    view = of(event(0, **fields))
    assert first_form(view)["processes"]["p1"]["serviceName"] == service
    (resource,) = third_form(view)["resourceSpans"]
    assert {"key": "service.name", "value": {"stringValue": service}} in resource["resource"]["attributes"]


def test_the_operation_is_the_name_else_the_type() -> None:
    named, nameless = shown(of(event(0, name="search"), event(1, name=None, type="execute_tool")))
    assert (named["operationName"], nameless["operationName"]) == ("search", "execute_tool")


def test_a_name_that_the_source_wrote_otherwise_is_kept_as_a_tag() -> None:
    (span,) = shown(of(event(0, source="otlp", name="mail", content={"name": "execute_tool mail"})))
    assert (span["operationName"], tags(span)["tracehold.span_name"]) == ("mail", "execute_tool mail")


def test_the_envelope_is_told_by_tags_with_their_types() -> None:
    record = event(0, attributes={"finish_reason": "stop", "streamed": True}, decision="allowed", seq=3)
    (span,) = shown(of(record))
    typed = {tag["key"]: (tag["type"], tag["value"]) for tag in span["tags"]}
    assert typed["tracehold.model"] == ("string", "m1")
    assert typed["tracehold.input_tokens"] == ("int64", 10)
    assert typed["tracehold.cost_usd"] == ("float64", 0.25)
    assert typed["tracehold.seq"] == ("int64", 3)
    assert typed["tracehold.decision"] == ("string", "allowed")
    assert typed["tracehold.finish_reason"] == ("string", "stop")
    assert typed["tracehold.streamed"] == ("bool", True)
    assert "tracehold.rule" not in typed
    assert len(typed) == len(span["tags"])


def test_a_sender_cannot_pass_off_another_envelope() -> None:
    said = {"tracehold.decision": "allowed", "tracehold.run_id": "theirs"}
    (span,) = shown(of(event(0, source="otlp", decision="denied", content={"attributes": said})))
    assert [tag["value"] for tag in span["tags"] if tag["key"] == "tracehold.decision"] == ["denied"]
    assert [tag["value"] for tag in span["tags"] if tag["key"] == "tracehold.run_id"] == ["run-1"]


def test_a_denial_is_no_error() -> None:
    denied, failed = shown(of(event(0, status="blocked", kind="gate"), event(1, status="error", error_type="Timeout")))
    assert "error" not in tags(denied)
    assert (tags(failed)["error"], tags(failed)["otel.status_code"]) == (True, "ERROR")


def test_a_failure_that_only_an_attribute_told_is_an_error() -> None:
    (span,) = shown(of(event(0, source="otlp", status="error", content={"status_code": 0})))
    assert (tags(span)["error"], tags(span)["otel.status_code"]) == (True, "ERROR")


def test_a_denial_that_was_sent_as_an_error_stays_one() -> None:
    (span,) = shown(of(event(0, source="otlp", status="blocked", kind="gate", content={"status_code": 2})))
    assert (tags(span)["error"], tags(span)["tracehold.status"]) == (True, "blocked")


def test_whole_numbers_that_a_browser_would_round_are_text() -> None:
    content = {"attributes": {"small": 2**53 - 1, "large": 2**53, "list": [1, "a", {"b": True}]}}
    (span,) = shown(of(event(0, source="otlp", content=content)))
    typed = {tag["key"]: (tag["type"], tag["value"]) for tag in span["tags"]}
    assert typed["small"] == ("int64", 2**53 - 1)
    assert typed["large"] == ("int64", "9007199254740992")
    assert typed["list"] == ("string", '[1,"a",{"b":true}]')


def test_a_missing_parent_and_clocks_that_disagree_are_said() -> None:
    root = event(0, span_id=ROOT, parent_span_id=None, started_at=START, duration_ns=10 * MS)
    early = event(1, started_at=START - 2 * MS, duration_ns=MS)
    late = event(2, started_at=START + 9 * MS, duration_ns=5 * MS)
    longer = event(3, started_at=START + MS, duration_ns=99 * MS)
    orphan = event(4, parent_span_id="b" * 16)
    warned = {span["spanID"]: span["warnings"] for span in shown(of(root, early, late, longer, orphan))}
    assert warned[early.span_id][0].startswith("the span starts 2 ms before its parent")
    assert warned[late.span_id][0].startswith("the span ends 4 ms after its parent")
    assert warned[orphan.span_id] == [f"the parent span {'b' * 16} is not in this trace"]
    assert warned[longer.span_id] is None  # it outlasts its parent, as work that is not waited for does
    assert warned[ROOT] is None


def test_times_are_shown_as_recorded() -> None:
    root = event(0, span_id=ROOT, parent_span_id=None, started_at=START, duration_ns=10 * MS)
    early = event(1, started_at=START - 2 * MS, duration_ns=MS)
    assert [span["startTime"] for span in shown(of(root, early))] == [(START - 2 * MS) // 1000, START // 1000]


def test_a_span_of_unknown_time_stands_at_the_start_of_its_trace() -> None:
    known, unknown = event(0, started_at=START + MS), event(1, started_at=None)
    spans = {span["spanID"]: span for span in shown(of(known, unknown))}
    assert spans[unknown.span_id]["startTime"] == (START + MS) // 1000
    assert tags(spans[unknown.span_id])["tracehold.time_unknown"] is True
    assert "no credible start" in spans[unknown.span_id]["warnings"][0]
    (alone,) = shown(of(unknown, received_at=START + 7 * MS))
    assert alone["startTime"] == (START + 7 * MS) // 1000


def test_what_is_left_out_is_said_on_the_trace() -> None:
    view = of(event(0), events=5)
    assert "4 of 5 events are left out" in first_form(view)["warnings"][0]
    stored = StoredTrace("default", TRACE, [event(0)], 1, START, unread=1)
    assert "without what they said" in trace_view(stored).warnings[0]
    attributes = third_form(view)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert "4 of 5 events are left out" in orjson.dumps(attributes).decode()


def test_an_event_without_content_is_shown_by_its_envelope() -> None:
    (span,) = shown(of(event(0, source="otlp", content=None)))
    assert tags(span)["tracehold.model"] == "m1"


NAMES = st.sampled_from(["name", "attributes", "events", "links", "scope", "resource", "span_kind", "flags", "input"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | NAMES, inner, max_size=3),
    max_leaves=12,
)
IDS = st.sampled_from([None, ROOT, "b" * 16, "c" * 16])
RECORDS = st.builds(
    event,
    st.integers(0, 1000),
    span_id=IDS,
    parent_span_id=IDS,
    source=st.sampled_from(["otlp", "tracer", "engine"]),
    status=st.sampled_from(["started", "ok", "error", "blocked", "unset"]),
    kind=st.sampled_from(["run", "llm", "tool", "gate", "other"]),
    name=st.none() | st.just("x"),
    started_at=st.none() | st.integers(1, 4_102_444_800_000_000_000),
    duration_ns=st.none() | st.integers(0, 4_102_444_800_000_000_000),
    content=st.none() | st.dictionaries(NAMES, VALUES, max_size=5),
)


@given(records=st.lists(RECORDS, min_size=1, max_size=6))
def test_whatever_was_recorded_has_both_forms(records: Sequence[Record], schemas: dict[str, Any]) -> None:
    view = of(*records)
    first = first_form(view)
    third = third_form(view)
    jsonschema.validate(first, {**schemas, "$ref": "#/$defs/trace"})
    jsonschema.validate({"result": third}, {**schemas, "$ref": "#/$defs/v3Traces"})
    assert len(first["spans"]) == len({span["spanID"] for span in first["spans"]})


def test_an_answer_holds_so_many_spans_and_says_what_is_missing(
    serve: Serve, asking: Callable[..., Callable[..., httpx.Response]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    many = [make_record(n, run="many", trace_id=run_trace_id("many"), service="x") for n in range(50)]
    few = [make_record(100 + n, run="few", trace_id=run_trace_id("few"), service="x") for n in range(3)]
    server.writer.submit(many + few).result(10)
    monkeypatch.setattr(search, "MAX_SPANS", 20)
    window = {"service": "x", "start": START // 1000, "end": START // 1000 + 10**6}
    traces = asking(server)("/api/traces", window).json()["data"]
    sizes = {trace["traceID"]: (len(trace["spans"]), trace["warnings"]) for trace in traces}
    assert sizes[run_trace_id("few")] == (3, None)
    size, (warning,) = sizes[run_trace_id("many")]
    assert (size, warning.startswith("33 of 50 events are left out")) == (17, True)


def test_content_beyond_the_budget_is_left_out_and_said(
    serve: Serve, asking: Callable[..., Callable[..., httpx.Response]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    server.writer.submit([make_record(0, trace_id=TRACE, content={"input": "said"})]).result(10)
    ask = asking(server)
    assert tags(ask(f"/api/traces/{TRACE}").json()["data"][0]["spans"][0])["input"] == "said"
    monkeypatch.setattr(reader, "MAX_PACKED_BYTES", 1)
    (trace,) = ask(f"/api/traces/{TRACE}").json()["data"]
    assert "input" not in tags(trace["spans"][0])
    assert "1 of 1 events are shown without what they said" in trace["warnings"][0]


@given(records=st.lists(RECORDS, min_size=1, max_size=12, unique_by=lambda record: record.event_id))
def test_a_trace_read_in_parts_is_the_trace_read_whole(records: list[Record]) -> None:
    # What JSON cannot hold, and nothing at all, is no content: the pipeline and the store see to that.
    records = [replace(one, content=orjson.loads(dumps(one.content)) or None) for one in records]
    database = Database(None)
    writer = Writer(database)
    try:
        writer.submit(records[: len(records) // 2]).result(10)
        writer.submit(records[len(records) // 2 :]).result(10)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(view_module, "_READ_AT_ONCE", 2)
            patch.setattr(opened, "_KEPT_BYTES", 1)
            (stored,) = Reader(database).traces([TRACE], Access(), max_events=100, with_content=True)
            known = {record.event_id: record for record in records}
            whole = of(*(known[one.event_id] for one in stored.outline), received_at=stored.received_at)
            parts = trace_view(stored)
            assert b"".join(ui_trace(parts)) == b"".join(ui_trace(whole))
            assert b"".join(traces_data([parts])) == b"".join(traces_data([whole]))
    finally:
        writer.close()
        database.close()


def test_no_more_than_a_page_of_a_large_trace_is_read_at_once(database: Database) -> None:
    writer = Writer(database)
    writer.submit([event(n) for n in range(2_000)]).result(10)
    writer.close()
    (stored,) = Reader(database).traces([TRACE], Access(), max_events=10_000, with_content=True)
    load = stored.load
    asked: list[int] = []

    def counted(places: Sequence[int]) -> list[Record]:
        asked.append(len(places))
        assert load is not None
        return load(places)

    stored.load = counted
    assert sum(1 for _ in trace_view(stored).spans) == 2_000
    assert stored.outline == []
    assert max(asked) <= view_module._READ_AT_ONCE


def test_a_trace_that_is_deleted_while_it_is_read_is_no_half_answer(database: Database) -> None:
    writer = Writer(database)
    writer.submit([event(n) for n in range(3)]).result(10)
    writer.close()
    (stored,) = Reader(database).traces([TRACE], Access(), max_events=10, with_content=True)
    with database.cursor() as cursor:
        cursor.execute("DELETE FROM events")
    with pytest.raises(StoreError, match="was deleted while it was read"):
        b"".join(ui_trace(trace_view(stored)))


def test_a_number_that_json_cannot_hold_is_told_as_text() -> None:  # FR-17
    (span,) = shown(of(event(0, source="otlp", content={"attributes": {"ratio": float("nan")}, "scope": {}})))
    assert {"key": "ratio", "type": "string", "value": "nan"} in span["tags"]
