"""What is asked, and who may ask."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pytest
from support.otlp import chat_spans
from support.records import make_record
from tracehold.core.errors import ConfigurationError
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]

KEY = "test-key-" + "0123456789abcdef" * 2


def get(server: CollectorServer, path: str, *, headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
    return httpx.get(server.url + path, params=params, headers=headers, timeout=30, trust_env=False)


@pytest.fixture
def filled(serve: Serve) -> CollectorServer:
    server = serve()
    server.writer.submit(
        [
            make_record(0, content={"input": "hello"}),
            make_record(1, kind="gate", status="blocked", decision="denied", rule="r1", name="=cmd()"),
            make_record(2, run="run-2", tenant="another"),
        ]
    ).result(10)
    return server


def test_the_catalogue_says_what_each_query_answers(filled: CollectorServer) -> None:
    queries = get(filled, "/api/v1/queries").json()["queries"]
    names = {query["name"] for query in queries}
    assert {"runs", "run", "waterfall", "gate_denials", "spend_by_model_day", "latency", "tools"} <= names
    assert all(query["question"] for query in queries)


def test_json_answers_are_columns_and_rows(filled: CollectorServer) -> None:
    answer = get(filled, "/api/v1/queries/runs").json()
    row = dict(zip(answer["columns"], answer["rows"][0], strict=True))
    assert (row["run_id"], row["denials"]) == ("run-1", 1)
    assert row["started_at"].endswith("Z")


def test_arrow_and_csv_hold_the_same_rows_as_json(filled: CollectorServer) -> None:
    rows = get(filled, "/api/v1/queries/runs").json()["rows"]
    stream = get(filled, "/api/v1/queries/runs", headers={"Accept": "application/vnd.apache.arrow.stream"})
    table = pa.ipc.open_stream(stream.content).read_all()
    text = get(filled, "/api/v1/queries/runs", headers={"Accept": "text/csv"}).text
    lines = list(csv.reader(io.StringIO(text)))
    assert table.num_rows == len(rows) == len(lines) - 1
    assert lines[0] == table.column_names


def test_a_csv_cell_cannot_become_a_formula(filled: CollectorServer) -> None:
    text = get(filled, "/api/v1/queries/gate_denials", headers={"Accept": "text/csv"}).text
    assert ",'=cmd()," in text


def test_a_form_nobody_has_is_refused_with_those_that_exist(filled: CollectorServer) -> None:
    answer = get(filled, "/api/v1/queries/runs", headers={"Accept": "image/png"})
    assert answer.status_code == 400
    assert "text/csv" in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "params", "says"),
    [
        ("/api/v1/queries/nothing", {}, "there is no query 'nothing'"),
        ("/api/v1/queries/runs", {"colour": "blue"}, "colour"),
        ("/api/v1/queries/runs", {"limit": "many"}, "limit"),
        ("/api/v1/queries/runs", {"tenants": "another"}, "tenants"),
        ("/api/v1/queries/trace_search", {"attribute_paths": ["a\\"], "attribute_values": ["b"]}, "JSON path"),
        ("/api/v1/events/xyz", {}, "no event id"),
        ("/api/v1/contents", {}, "1 to 200"),
    ],
)
def test_a_bad_question_gets_400_and_what_is_wrong(
    filled: CollectorServer, path: str, params: dict[str, Any], says: str
) -> None:
    answer = get(filled, path, **params)
    assert answer.status_code == 400
    assert says in answer.json()["error"]


def test_one_event_comes_whole(filled: CollectorServer) -> None:
    answer = get(filled, f"/api/v1/events/{make_record(0).event_id.hex()}").json()
    assert answer["event"]["run_id"] == "run-1"
    assert answer["content"] == {"input": "hello"}


def test_contents_come_by_event(filled: CollectorServer) -> None:
    ids = [make_record(n).event_id.hex() for n in (0, 2)]
    assert get(filled, "/api/v1/contents", event_id=ids).json()["contents"] == {
        ids[0]: {"input": "hello"},
        ids[1]: None,
    }


def test_another_tenants_data_is_not_seen(filled: CollectorServer) -> None:
    assert [row[0] for row in get(filled, "/api/v1/queries/runs").json()["rows"] if "run-2" in row] == []
    assert get(filled, f"/api/v1/events/{make_record(2).event_id.hex()}").status_code == 404


def test_health_and_readiness_answer(filled: CollectorServer) -> None:
    assert get(filled, "/healthz").text == "ok\n"
    assert get(filled, "/readyz").json() == {"ready": True}


def test_metrics_are_prometheus_text(filled: CollectorServer) -> None:
    text = get(filled, "/metrics").text
    assert "tracehold_events_accepted_total 3.0" in text
    assert "# TYPE tracehold_queue_events gauge" in text


def test_an_unknown_path_says_where_things_are(filled: CollectorServer) -> None:
    answer = get(filled, "/v1/nothing")
    assert answer.status_code == 404
    assert "/v1/traces" in answer.json()["hint"]


def test_with_a_key_set_nothing_is_answered_without_it(serve: Serve) -> None:
    server = serve(api_key=KEY)
    for path in ("/api/v1/queries", "/api/v1/queries/runs", "/metrics", "/api/v1/contents"):
        assert get(server, path).status_code == 401
        assert get(server, path, headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert "TRACEHOLD_API_KEY" in get(server, "/api/v1/queries").json()["hint"]
    for path in ("/v1/events", "/v1/traces", "/v1/logs", "/v1/metrics"):
        refused = httpx.post(server.url + path, content=chat_spans(0, 1).SerializeToString(), trust_env=False)
        assert refused.status_code == 401
        assert b"TRACEHOLD_API_KEY" in refused.content
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-Api-Key": KEY}):
        assert get(server, "/api/v1/queries", headers=headers).status_code == 200
    for headers in ({"Authorization": KEY}, {"X-Api-Key": KEY + "x"}, {"X-Api-Key": ""}):
        assert get(server, "/api/v1/queries", headers=headers).status_code == 401


def test_health_is_answered_without_a_key(serve: Serve) -> None:
    server = serve(api_key=KEY)
    assert get(server, "/healthz").status_code == 200
    assert get(server, "/readyz").status_code == 200


def test_a_keyless_collector_answers_only_as_localhost(serve: Serve) -> None:
    server = serve()
    assert get(server, "/api/v1/queries", headers={"Host": f"evil.example:{server.port}"}).status_code == 403
    assert get(server, "/api/v1/queries", headers={"Host": f"localhost:{server.port}"}).status_code == 200


def test_a_web_page_cannot_send_without_a_preflight(serve: Serve) -> None:
    server = serve()
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = httpx.post(
            f"{server.url}/v1/events", content=b"{}", headers={"Content-Type": content_type}, trust_env=False
        )
        assert answer.status_code == 415
    preflight = httpx.options(f"{server.url}/v1/events", headers={"Origin": "http://evil.example"}, trust_env=False)
    assert "access-control-allow-origin" not in preflight.headers


def test_any_other_address_without_a_key_is_refused_with_the_way_to_make_one() -> None:
    with pytest.raises(ConfigurationError, match="openssl rand -hex 24"):
        load_settings(host="0.0.0.0")  # noqa: S104
    assert load_settings(host="0.0.0.0", api_key=KEY).host == "0.0.0.0"  # noqa: S104


def test_a_key_never_shows_in_settings_or_errors() -> None:
    assert KEY not in repr(load_settings(api_key=KEY))
    with pytest.raises(ConfigurationError, match="at least 24 characters") as caught:
        load_settings(api_key="short-and-secret")
    assert "short-and-secret" not in str(caught.value)


def test_every_faulty_setting_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"port.*log_level") as caught:
        load_settings(port=99_999, log_level="loud")
    assert "memory_limit" not in str(caught.value)


def test_json_stays_strict_whatever_was_stored(serve: Serve) -> None:  # FR-17
    server = serve()
    server.writer.submit([make_record(0, cost_usd=float("nan"), content={"half": "\ud83e", "big": 2**70})]).result(10)

    def refuse(token: str) -> None:
        raise AssertionError(token)

    for path in ("/api/v1/queries/runs", f"/api/v1/events/{make_record(0).event_id.hex()}"):
        json.loads(get(server, path).content.decode("utf-8"), parse_constant=refuse)
