"""An analyst's own SELECT over HTTP: forms, keys, what is noted, what is refused."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.keys import bearer, make_key
from support.processes import wait_for
from support.records import make_record
from tracehold_collector.access.journal import Entry
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.serve import CollectorServer
from tracehold_collector.sql import process as processes
from tracehold_collector.sql.desk import SqlOptions

Serve = Callable[..., CollectorServer]

WITHOUT_END = "SELECT count(*) FROM range(10000000000) a, range(100000) b WHERE a.range * b.range = -1"


def post(server: CollectorServer, sql: Any, key: str | None = None, **more: Any) -> httpx.Response:
    body = sql if isinstance(sql, dict) else {"sql": sql}
    headers = {**(bearer(key) if key else {}), **more.pop("headers", {})}
    return httpx.post(
        f"{server.url}/api/v1/sql", json=body, headers=headers, timeout=more.pop("timeout", 60), trust_env=False, **more
    )


@pytest.fixture
def filled(serve: Serve) -> CollectorServer:
    server = serve()
    server.writer.submit(
        [make_record(0, content={"input": "hello"}), make_record(1, name="=cmd()"), make_record(2, tenant="another")]
    ).result(10)
    return server


def test_json_has_columns_types_and_rows(filled: CollectorServer) -> None:
    answer = post(filled, "SELECT name, started_at, cost_usd, sum(input_tokens) OVER () AS t FROM events ORDER BY name")
    assert answer.json() == {
        "columns": ["name", "started_at", "cost_usd", "t"],
        "types": ["VARCHAR", "BIGINT", "DOUBLE", "HUGEINT"],
        "rows": [
            ["=cmd()", make_record(1).started_at, 0.25, 20],
            ["chat m1", make_record(0).started_at, 0.25, 20],
        ],
        "cut": None,
    }
    assert "x-tracehold-cut" not in answer.headers


def test_csv_parquet_and_arrow_hold_the_same_rows(filled: CollectorServer) -> None:
    text = "SELECT name, 'a\"b,c' || chr(10) AS odd, NULL AS nothing FROM events ORDER BY name"
    rows = post(filled, text).json()["rows"]
    lines = post(filled, text, params={"format": "csv"}).content.decode("utf-8")
    assert lines.endswith("\r\n")
    assert list(csv.reader(io.StringIO(lines, newline="")))[1:] == [
        ["'=cmd()", 'a"b,c\n', ""], ["chat m1", 'a"b,c\n', ""],
    ]  # fmt: skip
    parquet = post(filled, text, headers={"Accept": "application/vnd.apache.parquet"})
    arrow = post(filled, text, params={"format": "arrow"})
    for table in (pq.read_table(io.BytesIO(parquet.content)), pa.ipc.open_stream(arrow.content).read_all()):
        assert [list(row.values()) for row in table.to_pylist()] == rows


VALUES: dict[str, Any] = {
    "TIMESTAMP '2026-11-29 17:00:00.5'": "2026-11-29T17:00:00.500000Z",
    "TIMESTAMPTZ '2026-11-29 17:00:00+02'": "2026-11-29T15:00:00Z",
    "TIMESTAMP_NS '2026-11-29 17:00:00.000000001'": "2026-11-29T17:00:00.000000001Z",
    "DATE '2026-11-29'": "2026-11-29",
    "TIME '17:00:00'": "17:00:00",
    "INTERVAL 3 DAY": "P0M3DT0S",
    "10000000000000000000000000000000000000": 10**37,
    "1.25::DECIMAL(5,2)": 1.25,
    "'nan'::DOUBLE": None,
    "'\\xAB'::BLOB": "ab",
    "{'a': [1, NULL], 'b': DATE '2026-01-01'}": {"a": [1, None], "b": "2026-01-01"},
    "ROW(1, 2)": [1, 2],
    "MAP {'k': 1}": [["k", 1]],
    "'a'::ENUM('a', 'b')": "a",
    "TIMESTAMP '290000-01-01'": 9089348860800000000,
    "uuid() IS NOT NULL": True,
    "NULL": None,
    "''": "",
    "chr(0) || 'x'": "\0x",
}


def test_every_kind_of_value_has_a_place_in_every_form(filled: CollectorServer) -> None:
    text = "SELECT " + ", ".join(f"{value} AS c{place}" for place, value in enumerate(VALUES))
    answers = {form: post(filled, text, params={"format": form}) for form in ("json", "csv", "parquet", "arrow")}
    assert {form: answer.status_code for form, answer in answers.items()} == dict.fromkeys(answers, 200)
    seen = dict(zip(VALUES, answers["json"].json()["rows"][0], strict=True))
    assert seen == VALUES
    assert pq.read_table(io.BytesIO(answers["parquet"].content)).num_rows == 1


def test_a_key_sees_the_tenants_it_names_and_nothing_of_others(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    keys = {
        ("acme",): make_key(data, "read", tenants=("acme",)),
        ("acme", "other"): make_key(data, "read", tenants=("acme", "other")),
        ("acme", "other", "third"): make_key(data, "read", tenants=None),
    }
    sender = make_key(data, "ingest")
    server = serve()
    server.writer.submit([make_record(n, tenant=tenant) for n, tenant in enumerate(["acme", "other", "third"])]).result(
        10
    )
    for tenants, key in keys.items():
        rows = post(server, "SELECT tenant FROM events ORDER BY 1", key).json()["rows"]
        assert [row[0] for row in rows] == list(tenants)
    assert post(server, "SELECT 1", sender).status_code == 403
    assert post(server, "SELECT 1").status_code == 401


def test_what_was_said_is_in_no_table(filled: CollectorServer) -> None:
    for table in httpx.get(f"{filled.url}/api/v1/sql", trust_env=False).json()["tables"]:
        assert "hello" not in post(filled, f"SELECT * FROM {table['name']}").text  # noqa: S608


def test_the_tables_are_told_with_columns_functions_and_limits(filled: CollectorServer) -> None:
    told = httpx.get(f"{filled.url}/api/v1/sql", trust_env=False).json()
    tables = {
        table["name"]: {column["name"]: column["type"] for column in table["columns"]} for table in told["tables"]
    }
    assert tables["events"]["started_at"] == "BIGINT"
    assert tables["events_readable"]["started_at_utc"] == "TIMESTAMP_NS"
    assert "contents" not in tables
    assert {"count", "quantile_cont"} <= set(told["functions"])
    assert "getenv" not in told["functions"]
    assert told["limits"]["seconds"] == 30.0


def test_the_access_log_has_a_digest_and_never_the_statement(filled: CollectorServer) -> None:
    text = "SELECT count(*) FROM events WHERE name = 'ann@example.org'"
    post(filled, text)
    post(filled, text, params={"format": "csv"})
    post(filled, "SELECT 'ann@example.org' FROM nowhere")
    filled._access_log.add(Entry("read", "the end", None, "a test")).result(10)
    read, export, failed = read_log(filled.settings.data_dir, Asked(), None)[1:][::-1]
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert read["parameters"] == {"sql_sha256": digest, "sql_chars": len(text)}
    assert (read["action"], read["what"], read["rows"], read["tenants"]) == ("read", "/api/v1/sql", 1, ["default"])
    assert (export["action"], export["parameters"]["format"]) == ("export", "csv")
    assert (failed["status"], failed["rows"]) == (400, None)
    assert "example.org" not in str([read, export, failed])


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"sql": "SELECT 1; SELECT 2"}, 400, "one SELECT"),
        ({"sql": "SELECT x FROM events"}, 400, "LINE 1"),
        ({"sql": ""}, 400, "'sql' is a text"),
        ({"sql": 5}, 400, "'sql' is a text"),
        ({}, 400, "'sql' is a text"),
        ({"sql": "SELECT 1", "max_rows": 0}, 400, "max_rows"),
        ({"sql": "SELECT 1", "max_rows": True}, 400, "max_rows"),
        ({"sql": "SELECT 1", "tenant": "another"}, 400, "max_rows, sql"),
        ({"sql": "x" * 300_000}, 413, "262,144"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(filled: CollectorServer, body: Any, status: int, says: str) -> None:
    answer = post(filled, body)
    assert answer.status_code == status
    assert says in answer.json()["error"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"SELECT 1"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(filled: CollectorServer, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = httpx.post(f"{filled.url}/api/v1/sql", content=content, headers=headers, trust_env=False)
    assert answer.status_code == 400


def test_a_web_page_cannot_ask_without_a_preflight(filled: CollectorServer) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = httpx.post(
            f"{filled.url}/api/v1/sql", content=b'{"sql":"SELECT 1"}', headers={"Content-Type": content_type},
            trust_env=False,
        )  # fmt: skip
        assert answer.status_code == 415


def test_a_form_nobody_has_is_refused_before_anything_runs(filled: CollectorServer) -> None:
    answer = post(filled, WITHOUT_END, params={"format": "xlsx"})
    assert (answer.status_code, answer.json()["error"]) == (400, "format takes one of json, csv, parquet, arrow")


def test_an_answer_that_was_cut_says_so(filled: CollectorServer) -> None:
    asked = {"sql": "SELECT * FROM range(100)", "max_rows": 5}
    assert (post(filled, asked).json()["cut"], len(post(filled, asked).json()["rows"])) == ("rows", 5)
    assert post(filled, asked, params={"format": "csv"}).headers["X-Tracehold-Cut"] == "rows"


def test_when_the_asker_hangs_up_the_statement_is_stopped(
    filled: CollectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []
    real = processes.Process.__init__

    def init(self: Any) -> None:
        real(self)
        begun.append(self._process)

    monkeypatch.setattr(processes.Process, "__init__", init)
    with pytest.raises(httpx.ReadTimeout):
        post(filled, WITHOUT_END, timeout=2.0)
    wait_for(lambda: begun[0].returncode is not None, what="the end of the process", within_s=10)
    assert post(filled, "SELECT 1").status_code == 200


def test_a_statement_that_takes_too_long_gets_400_and_gives_up_its_place(serve: Serve) -> None:
    server = serve(query_timeout_s=1)
    for _ in range(SqlOptions().at_once):
        answer = post(server, WITHOUT_END)
    assert (answer.status_code, "longer than 1 s" in answer.json()["error"]) == (400, True)
    assert server._app.state.sql._places.acquire(blocking=False)


def test_another_method_is_told_which_there_are(filled: CollectorServer) -> None:
    answer = httpx.delete(f"{filled.url}/api/v1/sql", trust_env=False)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "json"])
def test_a_named_query_answers_in_the_form_the_url_names(filled: CollectorServer, form: str) -> None:
    answer = httpx.get(f"{filled.url}/api/v1/queries/runs", params={"format": form, "limit": 1}, trust_env=False)
    assert answer.status_code == 200
    if form == "parquet":
        assert pq.read_table(io.BytesIO(answer.content)).num_rows == 1
    assert form in answer.headers["content-type"]
