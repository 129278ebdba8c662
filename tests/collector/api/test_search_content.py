"""Search in content, over HTTP: what is found, in which order, for whom, within which limits, and what is noted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from support.keys import bearer, make_key
from support.processes import wait_for
from support.records import START, make_record
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.api import search as search_api
from tracehold_collector.core.record import Record
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store import content_scan

Serve = Callable[..., CollectorServer]
Lines = list[dict[str, Any]]

PATH = "/api/v1/search/content"
SECRET = "the code word is heron"


def said(n: int, text: str, **fields: Any) -> Record:
    return make_record(n, content={"messages": [{"role": "user", "content": text}]}, **fields)


def store(server: CollectorServer, *records: Record) -> None:
    server.writer.submit(records).result(10)


def search(server: CollectorServer, text: str, key: str | None = None, **asked: Any) -> Lines:
    headers = bearer(key) if key else {}
    answer = httpx.get(server.url + PATH, params={"text": text, **asked}, headers=headers, timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def hits(lines: Lines) -> Lines:
    return [line["hit"] for line in lines if "hit" in line]


def end(lines: Lines) -> dict[str, Any]:
    found: dict[str, Any] = lines[-1]["done"]
    return found


def lines_of(server: CollectorServer) -> Lines:
    """The access log, the oldest first."""
    return read_log(server.settings.data_dir, Asked(), None)[::-1]


def refusal(server: CollectorServer, **asked: Any) -> str:
    answer = httpx.get(server.url + PATH, params=asked, timeout=30, trust_env=False)
    assert answer.status_code == 400, answer.text
    error: str = answer.json()["error"]
    return error


def test_a_hit_tells_the_event_the_place_and_what_stands_around_it(serve: Serve) -> None:
    server = serve()
    store(server, said(0, "nothing here"), said(1, "My order 4711 is LATE", name="chat m1"))
    lines = search(server, "is late")
    (hit,) = hits(lines)
    assert (hit["event_id"], hit["run_id"], hit["kind"], hit["name"]) == (
        "00000000-0000-0000-0000-000000000001", "run-1", "llm", "chat m1",
    )  # fmt: skip
    assert hit["path"] == "messages[0].content"
    assert hit["excerpt"][hit["match_start"] :][: hit["match_length"]] == "is LATE"
    assert (end(lines)["complete"], end(lines)["events"], end(lines)["of"]) == (True, 2, 2)


def test_the_newest_come_first_and_those_without_a_time_last(serve: Serve) -> None:
    server = serve()
    store(server, said(3, "x", started_at=None), said(1, "x"), said(4, "x", run="run-2"))
    store(server, said(2, "x", run="run-3"))
    assert [int(hit["event_id"].replace("-", ""), 16) for hit in hits(search(server, "x"))] == [4, 2, 1, 3]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"kind": "tool"}, {1}),
        ({"run_id": "run-2"}, {2}),
        ({"agent": "a", "model": "m2"}, {3}),
        ({"name": "lookup"}, {1}),
        ({"since": "2026-05-28T20:26:40.002Z"}, {2, 3}),
        ({"until": "2026-05-28T20:26:40.001Z"}, {0}),
        ({"kind": "gate"}, set()),
        ({"tenant": "another"}, set()),
    ],
)
def test_only_events_within_the_filters_are_opened(serve: Serve, asked: dict[str, Any], found: set[int]) -> None:
    server = serve()
    store(
        server,
        said(0, "x"),
        said(1, "x", kind="tool", name="lookup"),
        said(2, "x", run="run-2"),
        said(3, "x", agent="a", model="m2"),
    )
    lines = search(server, "x", **asked)
    assert {int(hit["event_id"].replace("-", ""), 16) for hit in hits(lines)} == found
    assert end(lines)["of"] == len(found)


@pytest.mark.parametrize("started", [lambda n: START + n, lambda _n: START, lambda _n: None])
def test_pages_join_without_gap_or_double(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, started: Callable[[int], int | None]
) -> None:
    monkeypatch.setattr(content_scan, "PAGE_ROWS", 7)
    monkeypatch.setattr(content_scan, "MAX_PACKED_BYTES", 300)
    server = serve()
    for lot in range(6):
        store(
            server, *(said(n, f"x {n}", run=f"run-{n % 3}", started_at=started(n)) for n in range(lot * 8, lot * 8 + 8))
        )
    whole = [hit["event_id"] for hit in hits(search(server, "x"))]
    assert len(set(whole)) == len(whole) == 48
    paged: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        lines = search(server, "x", limit=5, cursor=cursor)
        paged += [hit["event_id"] for hit in hits(lines)]
        assert (end(lines)["stopped_by"] == "hits") is (end(lines)["cursor"] is not None)
        cursor = end(lines)["cursor"]
    assert paged == whole


def test_an_age_between_two_events_takes_few_looks(serve: Serve) -> None:
    server = serve()
    store(
        server,
        said(0, "x", started_at=1),
        said(1, "x", started_at=2**63 - 1, duration_ns=None),
        said(2, "x", started_at=START),
    )
    assert [hit["at_ns"] for hit in hits(search(server, "x"))] == [2**63 - 1, START, 1]


def test_time_that_is_up_ends_a_search_with_a_cursor(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_scan, "PAGE_ROWS", 10)
    server = serve()
    store(server, *(said(n, "x") for n in range(30)))
    clock = iter(range(0, 10_000, 25))
    monkeypatch.setattr("tracehold_collector.search.content_search.monotonic", lambda: next(clock))
    lines = search(server, "x", seconds=60)
    assert (end(lines)["stopped_by"], len(hits(lines))) == ("time", 20)
    monkeypatch.undo()
    assert len(hits(search(server, "x", cursor=end(lines)["cursor"]))) == 10


def test_bytes_are_capped(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehold_collector.search.content_search.MAX_BYTES", 1)
    monkeypatch.setattr(content_scan, "PAGE_ROWS", 10)
    server = serve()
    store(server, *(said(n, "x") for n in range(30)))
    assert (end(search(server, "y"))["stopped_by"], end(search(server, "y"))["events"]) == ("bytes", 10)


def test_what_cannot_be_read_is_counted_and_hides_nothing(serve: Serve) -> None:
    server = serve()
    store(server, said(0, "x", run="erased"), said(1, "x", run="damaged"), said(2, "x", run="sealed"), said(3, "x"))
    with server.database.cursor() as cursor:
        cursor.execute("UPDATE contents SET body = NULL WHERE run_id = 'erased'")
        cursor.execute("UPDATE contents SET body = 'no frame'::BLOB WHERE run_id = 'damaged'")
        cursor.execute("UPDATE contents SET codec = 'another/9' WHERE run_id = 'sealed'")
    lines = search(server, "x")
    assert len(hits(lines)) == 1
    assert (end(lines)["unread"], end(lines)["events"], end(lines)["complete"]) == (3, 4, True)


def test_a_key_finds_what_its_tenants_said_only(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    acme = make_key(folder, "read", "content", tenants=("acme",))
    every = make_key(folder, "read", "content", tenants=None)
    server = serve()
    # The same id at two tenants, as senders may choose them.
    store(server, said(0, SECRET, tenant="acme"), said(0, SECRET, tenant="globex", name="another"), said(1, SECRET))
    lines = search(server, "heron", acme)
    assert [hit["tenant"] for hit in hits(lines)] == ["acme"]
    assert end(lines)["of"] == 1
    assert hits(search(server, "heron", acme, tenant="globex")) == []
    assert {(hit["tenant"], hit["name"]) for hit in hits(search(server, "heron", every))} == {
        ("acme", "chat m1"), ("globex", "another"), ("default", "chat m1"),
    }  # fmt: skip


@pytest.mark.parametrize("roles", [("read",), ("admin",), ("audit",), ("ingest",)])
def test_a_key_without_the_role_content_may_not_search(serve: Serve, tmp_path: Path, roles: tuple[str, ...]) -> None:
    key = make_key(tmp_path / "data", *roles)
    server = serve()
    store(server, said(0, SECRET))
    answer = httpx.get(server.url + PATH, params={"text": "heron"}, headers=bearer(key), trust_env=False)
    assert answer.status_code == 403
    assert "role content" in answer.json()["error"]


def test_a_search_is_noted_without_its_words(serve: Serve) -> None:
    server = serve()
    store(server, said(0, SECRET))
    search(server, "Heron", kind="llm")
    wait_for(lambda: len(lines_of(server)) == 2, what="the line of the end")
    begin, end_line = lines_of(server)
    assert begin["what"] == PATH
    assert begin["parameters"]["kind"] == "llm"
    assert begin["parameters"]["text_chars"] == 5
    assert begin["parameters"]["text"].startswith("q_")
    assert (end_line["what"], end_line["rows"], end_line["tenants"]) == (f"{PATH} (end)", 1, ["default"])
    assert "eron" not in str([begin, end_line])


def test_no_more_than_two_search_at_once_and_a_place_comes_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    store(server, *(said(n, "x") for n in range(10)))
    held, go = threading.Semaphore(0), threading.Event()
    whole = search_api.ContentSearch.steps

    def slow(self: Any) -> Any:
        held.release()
        go.wait(30)
        yield from whole(self)

    monkeypatch.setattr(search_api.ContentSearch, "steps", slow)
    found: list[Lines] = []
    askers = [threading.Thread(target=lambda: found.append(search(server, "x"))) for _ in range(2)]
    for asker in askers:
        asker.start()
    assert held.acquire(timeout=30)
    assert held.acquire(timeout=30)
    refused = httpx.get(server.url + PATH, params={"text": "x"}, trust_env=False)
    assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (429, True)
    assert "2 searches" in refused.json()["error"]
    go.set()
    for asker in askers:
        asker.join()
    assert [len(hits(lines)) for lines in found] == [10, 10]
    assert len(hits(search(server, "x"))) == 10


def test_who_hangs_up_ends_the_work_and_gives_the_place_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_scan, "PAGE_ROWS", 1)
    server = serve()
    store(server, *(said(n, "x") for n in range(2_000)))
    searches = server._app.state.searches
    for _ in range(3):
        with httpx.stream("GET", server.url + PATH, params={"text": "x", "limit": 1000}, trust_env=False) as answer:
            next(answer.iter_lines())
    wait_for(lambda: searches._running == 0, what="the places of those who hung up")
    wait_for(lambda: len(lines_of(server)) == 6, what="the lines of the ends")
    ends = [line for line in lines_of(server) if line["what"] == f"{PATH} (end)"]
    assert [line["parameters"]["ended_by"] for line in ends] == ["the asker hung up"] * 3
    assert all(line["rows"] < 1000 for line in ends)


def test_a_stop_of_the_collector_ends_a_search_with_a_cursor(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_scan, "PAGE_ROWS", 1)
    server = serve()
    store(server, *(said(n, "x") for n in range(500)))
    lines: Lines = []
    with httpx.stream("GET", server.url + PATH, params={"text": "x", "limit": 1000}, trust_env=False) as answer:
        for line in answer.iter_lines():
            if not lines:
                server.stop()
            lines.append(json.loads(line))
    assert (end(lines)["stopped_by"], end(lines)["complete"]) == ("stop", False)
    assert end(lines)["cursor"]


def test_a_store_that_fails_midway_says_so_in_the_answer(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    store(server, said(0, "x"))

    def fail(*_: object) -> None:
        raise duckdb.IOException("disk")

    monkeypatch.setattr("tracehold_collector.search.content_search.open_contents", fail)
    assert search(server, "x")[-1] == {"error": "the store could not answer: IOException"}


def test_what_cannot_be_asked_is_refused_with_what_can(serve: Serve) -> None:
    server = serve()
    assert "1 to 500 characters" in refusal(server)
    assert "1 to 500 characters" in refusal(server, text=" ")
    assert "1 to 500 characters" in refusal(server, text="x" * 501)
    assert "there are: agent" in refusal(server, text="x", regex="(a+)+$")
    assert "from 1 to 1000" in refusal(server, text="x", limit=0)
    assert "from 1 to 600" in refusal(server, text="x", seconds="1e9")
    assert "takes a time" in refusal(server, text="x", since="yesterday")
    assert "may be given once" in refusal(server, text=["x", "y"])
    for cursor in ("x", "W10", "WzEsICJhIl0", "WyIxIiwgIiJd", "WzFlOTksIiJd"):
        assert "cursor takes" in refusal(server, text="x", cursor=cursor)


@pytest.mark.parametrize("text", ["%", "_", "\\", "(a+)+$", "'; DROP TABLE events; --", '"', "\x00", "💥"])
def test_a_text_is_taken_as_it_is(serve: Serve, text: str) -> None:
    server = serve()
    store(server, said(0, f"before {text} after"), said(1, "before X after"))
    assert [hit["match_length"] for hit in hits(search(server, text))] == [len(text)]
