"""Whatever stands in a parameter is understood or refused with 400 and a reason; nothing makes the server fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.datastructures import QueryParams
from tracehold.core.clock import NS_PER_S
from tracehold_collector.api import jaeger, jaeger_v3
from tracehold_collector.core.errors import QueryError
from tracehold_collector.jaeger import parameters

Ask = Callable[..., httpx.Response]

NOW = 1_780_000_000 * NS_PER_S
V3_WINDOW = {"query.start_time_min": "2026-01-01T00:00:00Z", "query.start_time_max": "2026-01-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("1ns", 1),
        ("1us", 1_000),
        ("1µs", 1_000),
        ("1μs", 1_000),
        ("1.5ms", 1_500_000),
        (".5s", 500_000_000),
        ("1.s", NS_PER_S),
        ("2m30s", 150 * NS_PER_S),
        ("+1h0m0.000000001s", 3600 * NS_PER_S + 1),
        ("0.1ns", 0),
    ],
)
def test_durations_are_read_as_go_writes_them(text: str, nanoseconds: int) -> None:
    assert parameters.duration_ns("minDuration", text) == nanoseconds


@pytest.mark.parametrize("text", ["-1s", "1", "s", "1 s", "1d", "1e3s", "1s1", "", "1.1.1s", "٣s", "9" * 19 + "h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="minDuration"):
        parameters.duration_ns("minDuration", text)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(["ns", "us", "ms", "s", "m", "h"])), min_size=1))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{amount}{unit}" for amount, unit in parts)
    total = sum(parameters.duration_ns("d", f"{amount}{unit}") for amount, unit in parts)
    if total <= parameters.MAX_NS:
        assert parameters.duration_ns("d", text) == total


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01t01:00:00.5+01:00", 500_000_000),
        ("1969-12-31T23:59:59.25Z", -750_000_000),
        ("2017-01-26T16:46:31.639875999999Z", 1_485_449_191_639_875_999),
        ("9999-12-31T23:59:59Z", parameters.MAX_NS),
        ("0001-01-01T00:00:00Z", -parameters.MAX_NS),
    ],
)
def test_moments_keep_their_nanoseconds(text: str, nanoseconds: int) -> None:
    assert parameters.moment_ns("startTime", text) == nanoseconds


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "1780000000", "2026-W01-1"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="startTime"):
        parameters.moment_ns("startTime", text)


def test_a_search_without_times_looks_back_two_days_from_now() -> None:
    asked = jaeger.parse_search(QueryParams({"service": "x"}), NOW)
    assert (asked.since_ns, asked.until_ns) == (NOW - 2 * 86_400 * NS_PER_S, NOW)


def test_the_lookback_of_the_ui_counts_when_there_is_no_start() -> None:
    hour = jaeger.parse_search(QueryParams({"service": "x", "lookback": "1h"}), NOW)
    days = jaeger.parse_search(QueryParams({"service": "x", "lookback": "2d"}), NOW)
    given_start = jaeger.parse_search(QueryParams({"service": "x", "lookback": "custom", "start": "5"}), NOW)
    assert hour.since_ns == NOW - 3600 * NS_PER_S
    assert days.since_ns == NOW - 2 * 86_400 * NS_PER_S
    assert given_start.since_ns == 5_000


def test_zero_is_no_bound_on_a_duration() -> None:
    asked = jaeger.parse_search(QueryParams({"service": "x", "minDuration": "0s", "maxDuration": "0"}), NOW)
    assert (asked.min_duration_ns, asked.max_duration_ns) == (None, None)


def test_tags_of_both_forms_come_together() -> None:
    query = QueryParams(
        [("service", "x"), ("tag", "a:b:c"), ("tag", "d:"), ("tags", '{"e":"f"}'), ("tags", '{"a":"z"}')]
    )
    assert jaeger.parse_search(query, NOW).tags == {"a": "z", "d": "", "e": "f"}


def test_older_and_newer_names_of_the_third_api_mean_the_same() -> None:
    names = {
        "serviceName": ("service_name", "s"),
        "operationName": ("operation_name", "o"),
        "startTimeMin": ("start_time_min", "2026-01-01T00:00:00Z"),
        "startTimeMax": ("start_time_max", "2026-01-02T00:00:00Z"),
        "durationMin": ("duration_min", "1s"),
        "durationMax": ("duration_max", "2s"),
        "searchDepth": ("search_depth", "7"),
    }
    newer = jaeger_v3.parse_search(QueryParams({f"query.{name}": value for name, (_, value) in names.items()}))
    older = jaeger_v3.parse_search(QueryParams({f"query.{name}": value for name, value in names.values()}))
    oldest = jaeger_v3.parse_search(
        QueryParams(
            {f"query.{name}": value for name, value in names.values() if value != "7"} | {"query.num_traces": 7}
        )
    )
    assert newer == older == oldest
    assert (newer.service, newer.limit, newer.max_duration_ns) == ("s", 7, 2 * NS_PER_S)


@pytest.mark.parametrize(
    ("path", "params", "says"),
    [
        ("/api/traces", {}, "'service' is required"),
        ("/api/traces", {"service": "x", "limit": "0"}, "limit takes a whole number from 1 to 1500"),
        ("/api/traces", {"service": "x", "limit": "1501"}, "limit"),
        ("/api/traces", {"service": "x", "start": "yesterday"}, "start takes a whole number of microseconds"),
        ("/api/traces", {"service": "x", "start": "9" * 40}, "start"),
        ("/api/traces", {"service": "x", "start": "2", "end": "1"}, "must not be after"),
        ("/api/traces", {"service": "x", "lookback": "a while"}, "lookback"),
        ("/api/traces", {"service": "x", "minDuration": "2s", "maxDuration": "1s"}, "shorter than the shortest"),
        ("/api/traces", {"service": "x", "minDuration": "long"}, "minDuration takes a duration"),
        ("/api/traces", {"service": "x", "tag": "alone"}, "tag takes key:value"),
        ("/api/traces", {"service": "x", "tags": "{"}, "tags takes a JSON object"),
        ("/api/traces", {"service": "x", "tags": '{"a":1}'}, "tags takes a JSON object"),
        ("/api/traces", {"service": "x", "tag": [f"k{n}:v" for n in range(51)]}, "at most 50 tags"),
        ("/api/traces", {"service": "x", "raw": "maybe"}, "raw takes true or false"),
        ("/api/traces", {"traceID": "xyz"}, "traceID takes a trace id"),
        ("/api/traces", {"traceID": [f"{n:x}" for n in range(201)]}, "at most 200"),
        ("/api/traces/xyz", {}, "traceID takes a trace id"),
        (f"/api/traces/{'1' * 33}", {}, "1 to 32 hex digits; got 33"),
        ("/api/traces/1", {"raw": "2"}, "raw"),
        ("/api/traces/1", {"start": "x"}, "start"),
        ("/api/operations", {}, "'service' is required"),
        ("/api/operations", {"service": "x", "spanKind": "round"}, "spanKind takes one of"),
        ("/api/dependencies", {"endTs": "x"}, "endTs takes a whole number of milliseconds"),
        ("/api/dependencies", {"lookback": "-1"}, "not negative"),
        ("/api/v3/operations", {}, "service is required"),
        ("/api/v3/traces", {}, "query.start_time_min and query.start_time_max are required"),
        ("/api/v3/traces", {**V3_WINDOW, "query.start_time_min": "x"}, "query.start_time_min takes an RFC 3339"),
        ("/api/v3/traces", {**V3_WINDOW, "query.num_traces": "-1"}, "query.num_traces takes"),
        ("/api/v3/traces", {**V3_WINDOW, "query.attributes": "[]"}, "query.attributes takes a JSON object"),
        ("/api/v3/traces", {**V3_WINDOW, "query.duration_min": "x"}, "query.duration_min takes a duration"),
        ("/api/v3/traces", {**V3_WINDOW, "query.raw_traces": "x"}, "query.raw_traces takes true"),
        ("/api/v3/trace-summaries", {**V3_WINDOW, "query.filter": "{}"}, "query.filter is not understood"),
        ("/api/v3/traces/xyz", {}, "trace_id takes a trace id"),
        ("/api/v3/traces/1", {"startTime": "x"}, "startTime takes an RFC 3339"),
    ],
)
def test_a_bad_parameter_gets_400_and_what_it_takes(
    ask: Ask, schemas: dict[str, Any], path: str, params: dict[str, Any], says: str
) -> None:
    answer = ask(path, params)
    assert answer.status_code == 400, answer.text
    newer = path.startswith("/api/v3/")
    jsonschema.validate(answer.json(), {**schemas, "$ref": "#/$defs/v3Error" if newer else "#/$defs/error"})
    assert says in (answer.json()["error"]["message"] if newer else answer.json()["errors"][0]["msg"])


TEXTS = st.one_of(
    st.text(max_size=40),
    st.integers().map(str),
    st.sampled_from(
        ["", "0", "-1", "NaN", "true", "{}", "[]", '{"a":"b"}', '{"a":null}', "a:b", "1s", "9" * 30, "'; --", "%",
         "\x00", "\ud800", "00:00", "2026-01-01T00:00:00Z", '{"tracehold.x":"\\u0000"}', '{"tracehold.event_id":"x"}',
         '{"error":"true","tracehold.status":"x"}', '{"\\ud800":"a"}', "$.a", "custom", "1w"]
    ),
)  # fmt: skip
NAMES = st.sampled_from(
    ["service", "operation", "tag", "tags", "start", "end", "minDuration", "maxDuration", "limit", "lookback",
     "traceID", "raw", "spanKind", "endTs", "prettyPrint"]
)  # fmt: skip
NEWER = st.sampled_from(
    ["service_name", "operationName", "start_time_min", "startTimeMax", "duration_min", "durationMax", "search_depth",
     "num_traces", "attributes", "raw_traces", "filter"]
).map("query.".__add__)  # fmt: skip
PATHS = st.sampled_from(
    ["/api/services", "/api/operations", "/api/traces", "/api/dependencies", "/api/v3/services", "/api/v3/operations",
     "/api/v3/traces", "/api/v3/trace-summaries"]
)  # fmt: skip


def written(pairs: list[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name)}={quote(value.encode('utf-8', 'surrogatepass'))}" for name, value in pairs)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(path=PATHS, given_=st.lists(st.tuples(st.one_of(NAMES, NEWER), TEXTS), max_size=6), whole=st.booleans())
def test_hostile_parameters_never_make_it_fail(
    ask: Ask, path: str, given_: list[tuple[str, str]], *, whole: bool
) -> None:
    pairs = [("service", "query18-service"), *V3_WINDOW.items()] if whole else []
    answer = ask(f"{path}?{written(pairs + given_)}")
    assert answer.status_code in {200, 400} or (answer.status_code == 404 and path == "/api/v3/traces"), answer.text
    assert answer.json()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(text=TEXTS)
def test_a_hostile_id_or_name_in_the_path_never_makes_it_fail(ask: Ask, text: str) -> None:
    piece = quote(text.encode("utf-8", "surrogatepass"), safe="")
    for path in (f"/api/traces/{piece}x", f"/api/v3/traces/{piece}x", f"/api/services/{piece}x/operations"):
        assert ask(path).status_code in {200, 400, 404}
