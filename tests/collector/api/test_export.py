"""Exports over HTTP: streamed, noted, content only for who may see it, and half an answer is seen to be half."""

from __future__ import annotations

import csv
import io
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from support.keys import bearer, make_key
from support.processes import wait_for
from support.records import make_record
from tracehold_collector.access.journal import Entry
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.core.errors import StoreError
from tracehold_collector.export.events import EventExport, Part
from tracehold_collector.load.files import read_pieces
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]
ROOT = Path(__file__).resolve().parents[3]


def get(server: CollectorServer, key: str | None = None, **params: Any) -> httpx.Response:
    headers = bearer(key) if key else {}
    url = f"{server.url}/api/v1/export/events"
    return httpx.get(url, params=params, headers=headers, timeout=60, trust_env=False)


def lines_of(server: CollectorServer) -> list[dict[str, Any]]:
    server._access_log.add(Entry("read", "the end", None, "a test")).result(10)
    return read_log(server.settings.data_dir, Asked(), None)[1:][::-1]


@pytest.fixture
def filled(serve: Serve) -> CollectorServer:
    server = serve()
    server.writer.submit(
        [make_record(n, run=f"run-{n % 2}", content={"said": f"word-{n}"}) for n in range(10)]
        + [make_record(50, tenant="another")]
    ).result(10)
    return server


def test_each_form_has_its_type_name_and_count(filled: CollectorServer) -> None:
    text, parquet, otlp = (get(filled, format=form) for form in ("csv", "parquet", "otlp"))
    assert len(list(csv.DictReader(io.StringIO(text.text, newline="")))) == 10
    assert pq.read_table(io.BytesIO(parquet.content)).num_rows == 10
    spans = [
        span
        for line in otlp.text.splitlines()
        for group in json.loads(line)["resourceSpans"]
        for scope in group["scopeSpans"]
        for span in scope["spans"]
    ]
    assert len(spans) == 10
    for answer, media_type, name in (
        (text, "text/csv; charset=utf-8", "tracehold-events.csv"),
        (parquet, "application/vnd.apache.parquet", "tracehold-events.parquet"),
        (otlp, "application/x-ndjson", "tracehold-events.otlp.jsonl"),
    ):
        assert (answer.headers["content-type"], answer.headers["x-tracehold-events"]) == (media_type, "10")
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'


def test_what_was_said_is_in_it_only_when_asked_for_and_allowed(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    reader, seer = make_key(data, "read"), make_key(data, "read", "content")
    sender, admin = make_key(data, "ingest"), make_key(data, "admin", tenants=None)
    server = serve()
    server.writer.submit([make_record(0, content={"said": "the-word"})]).result(10)
    for form in ("csv", "parquet", "otlp"):
        assert b"the-word" not in get(server, seer, format=form).content
        assert b"the-word" not in get(server, reader, format=form).content
        whole = get(server, seer, format=form, with_content="true")
        if form == "parquet":
            assert "the-word" in str(pq.read_table(io.BytesIO(whole.content)).to_pylist())
        else:
            assert b"the-word" in whole.content
        for key in (reader, admin):
            refused = get(server, key, format=form, with_content="true")
            assert (refused.status_code, "role content" in refused.json()["error"]) == (403, True)
    assert (get(server, sender, format="csv").status_code, get(server, format="csv").status_code) == (403, 401)


def test_a_key_exports_the_events_of_its_tenants(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    own, every = make_key(data, "read", tenants=("acme",)), make_key(data, "read", tenants=None)
    server = serve()
    server.writer.submit([make_record(0, tenant="acme"), make_record(1, tenant="other")]).result(10)
    assert get(server, own, format="csv").headers["x-tracehold-events"] == "1"
    assert get(server, own, format="csv", tenant="other").headers["x-tracehold-events"] == "0"
    assert get(server, every, format="csv", tenant="other").headers["x-tracehold-events"] == "1"


def test_an_export_is_noted_with_who_what_and_how_many(filled: CollectorServer) -> None:
    get(filled, format="otlp", run_id="run-1", with_content="true", agent="ann@example.org")
    get(filled, format="csv", since="2026-01-01")
    first, second = lines_of(filled)
    assert (first["action"], first["what"], first["status"], first["rows"]) == (
        "export",
        "/api/v1/export/events",
        200,
        0,
    )
    assert first["parameters"]["run_id"] == "run-1"
    assert first["parameters"]["with_content"] == "true"
    assert "example.org" not in str(first)
    assert (second["action"], second["rows"], second["tenants"]) == ("export", 10, ["default"])


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({}, "format takes one of csv, parquet, otlp"),
        ({"format": "xml"}, "format takes one of"),
        ({"format": "csv", "colour": "x"}, "colour"),
        ({"format": "csv", "since": "soon"}, "since takes a time"),
        ({"format": "csv", "with_content": "yes"}, "with_content is true or false"),
        ({"format": "csv", "run_id": ["a", "b"]}, "given twice"),
        ({"format": "csv", "agent": ""}, "agent is empty"),
        ({"format": "csv", "agent": "a\0b"}, "agent is empty"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(filled: CollectorServer, params: dict[str, Any], says: str) -> None:
    answer = get(filled, **params)
    assert (answer.status_code, says in answer.json()["error"]) == (400, True)


def test_what_is_exported_as_otlp_and_ingested_elsewhere_is_the_same_events(serve: Serve, tmp_path: Path) -> None:
    here, there = serve(data_dir=tmp_path / "here"), serve(data_dir=tmp_path / "there")
    recorded = [*(ROOT / "tests/data").rglob("*.otlp.json"), *(ROOT / "tests/data").rglob("*.otlp.pb")]
    for piece in (piece for path in recorded for piece in read_pieces(path)):
        send(here, piece.body, piece.content_type, piece.path)
    lines = get(here, format="otlp", with_content="true").text.splitlines()
    for line in lines:
        answer = send(there, line.encode())
        assert not answer.json().get("partialSuccess")
    before, after = stored(here), stored(there)
    assert len(before) > 100
    assert after.keys() == before.keys()
    # Every other column is equal. These are not carried, or are made anew by the store that takes the span in:
    #   a pseudonym is keyed by its store; a time that was not credible becomes one that is.
    remade = {"received_at", "content_chunk", "content_pos", "leaf_index", "commitment", "session_id", "user_ref"}
    for event_id, event in before.items():
        differing = {name for name, value in event.items() if value != after[event_id][name]} - remade
        if event["started_at"] is None or event["duration_ns"] is None:
            differing -= {"started_at", "duration_ns", "attributes"}
        if event["span_id"] is None:  # a span has an id, a log record need not
            differing -= {"span_id"}
        assert not differing, (event["type"], {n: (event[n], after[event_id][n]) for n in differing})


def test_events_of_a_tracer_come_back_as_the_same_events(serve: Serve, tmp_path: Path) -> None:
    here, there = serve(data_dir=tmp_path / "here"), serve(data_dir=tmp_path / "there")
    here.writer.submit(
        [
            make_record(0, trace_id="a" * 32, service="shop", agent="ann", cached_tokens=3, reasoning_tokens=1, seq=4),
            make_record(
                1, trace_id="a" * 32, service="shop", kind="gate", type="gate", status="blocked", decision="denied",
                decided_by="policy", rule="no-shell", name="shell", model=None, input_tokens=None, output_tokens=None,
                cost_usd=None,
            ),
            make_record(2, trace_id="a" * 32, service="shop", status="started"),
        ]
    ).result(10)  # fmt: skip
    for line in get(here, format="otlp", with_content="true").text.splitlines():
        send(there, line.encode())
    before, after = stored(here), stored(there)
    assert len(after) == 2  # the opening half of a span is told by its end
    carried = set(next(iter(before.values()))) - {
        "received_at",
        "content_chunk",
        "content_pos",
        "leaf_index",
        "commitment",
        "source",
    }
    told_anew = {"name", "attributes", "price_source"}
    for event_id, event in after.items():
        assert {name: event[name] for name in carried - told_anew} == {
            name: before[event_id][name] for name in carried - told_anew
        }


def send(
    server: CollectorServer, body: bytes, kind: str = "application/json", path: str = "/v1/traces"
) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", content=body, headers={"Content-Type": kind}, trust_env=False)


def stored(server: CollectorServer) -> dict[str, dict[str, Any]]:
    with server.database.cursor() as cursor:
        cursor.execute("SELECT * FROM events")
        names = [column[0] for column in cursor.description or ()]
        return {str(row[0]): dict(zip(names, row, strict=True)) for row in cursor.fetchall()}


def test_a_store_that_fails_half_way_cuts_the_answer(filled: CollectorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    real = EventExport.parts

    def parts(self: EventExport) -> Iterator[Part]:
        yield from real(self)
        raise StoreError("the disk is gone")

    monkeypatch.setattr(EventExport, "parts", parts)
    with pytest.raises(httpx.RemoteProtocolError):
        get(filled, format="csv")
    monkeypatch.undo()
    assert [get(filled, format="csv").status_code for _ in range(3)] == [200] * 3


def test_one_that_is_left_half_way_lets_go_of_the_store(
    filled: CollectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[bool] = []
    real, really = EventExport.parts, EventExport.close
    monkeypatch.setattr(EventExport, "parts", lambda self: (part for _ in range(10**9) for part in real(self)))
    monkeypatch.setattr(EventExport, "close", lambda self: (really(self), closed.append(True))[0])
    for _ in range(3):  # more than may be under way
        with socket.create_connection(("127.0.0.1", filled.port)) as client:
            client.sendall(b"GET /api/v1/export/events?format=csv HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        wait_for(lambda: bool(closed), what="the end of the export")
        closed.clear()


def test_as_many_as_may_be_under_way_are_and_the_next_is_told_to_come_back(
    filled: CollectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = EventExport.parts
    monkeypatch.setattr(EventExport, "parts", lambda self: (part for _ in range(10**9) for part in real(self)))
    asked = b"GET /api/v1/export/events?format=csv HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", filled.port)) as one,
        socket.create_connection(("127.0.0.1", filled.port)) as two,
    ):
        for client in (one, two):
            client.sendall(asked)
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        third = get(filled, format="csv")
        assert (third.status_code, third.headers["retry-after"]) == (429, "10")


def test_a_head_request_is_told_how_many_and_nothing_more(filled: CollectorServer) -> None:
    answer = httpx.head(f"{filled.url}/api/v1/export/events", params={"format": "csv"}, trust_env=False)
    assert (answer.status_code, answer.headers["x-tracehold-events"], answer.content) == (200, "10", b"")
