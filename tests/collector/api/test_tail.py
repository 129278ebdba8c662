"""The live tail: each event once and in order, through restarts, for whom it is, and never at a sender's cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.keys import bearer, make_key
from support.processes import COMMAND, CollectorProcess, clean_environment, wait_for
from support.records import make_record
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.api import tail as tail_api
from tracehold_collector.core.record import Record
from tracehold_collector.core.sent_events import SentEvent, read_sent_events
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store import following

Serve = Callable[..., CollectorServer]

PATH = "/api/v1/tail"


@contextmanager
def tailing(url: str, key: str | None = None, last_id: str = "", **asked: Any) -> Iterator[Iterator[SentEvent]]:
    """The events of a tail, from the first thing it told."""
    headers = {**(bearer(key) if key else {}), **({"Last-Event-ID": last_id} if last_id else {})}
    with httpx.stream("GET", url + PATH, params=asked, headers=headers, timeout=20, trust_env=False) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield read_sent_events(answer.iter_lines())


def store(server: CollectorServer, *records: Record) -> None:
    server.writer.submit(records).result(10)


def numbers(events: Iterator[SentEvent], count: int) -> list[int]:
    """The numbers of the next events that `make_record` made."""
    found: list[int] = []
    while len(found) < count:
        event = next(events)
        if event.data:
            assert event.name == "message", event
            found.append(int(json.loads(event.data)["event_id"].replace("-", ""), 16))
    return found


def refusal(server: CollectorServer, last_id: str = "", **asked: Any) -> str:
    answer = httpx.get(server.url + PATH, params=asked, headers={"Last-Event-ID": last_id}, trust_env=False)
    assert answer.status_code == 400, answer.text
    error: str = answer.json()["error"]
    return error


def test_what_is_committed_is_told_in_order_and_without_content(serve: Serve) -> None:
    server = serve()
    store(server, make_record(0))
    with tailing(server.url) as events:
        assert next(events).data == ""  # where it begins: nothing that was there before
        store(server, make_record(2, content={"input": "the code word is heron"}), make_record(1))
        store(server, make_record(3, agent="a"))
        assert numbers(events, 2) == [2, 1]
        told = next(events)
        envelope = json.loads(told.data)
    assert (envelope["agent"], envelope["kind"], envelope["at"]) == ("a", "llm", "2026-05-28T20:26:40.003000Z")
    assert "heron" not in str(envelope)
    assert "content" not in envelope


def test_past_events_come_first_when_they_are_asked_for(serve: Serve) -> None:
    server = serve()
    store(server, *(make_record(n, kind="tool" if n % 2 else "llm") for n in range(10)))
    with tailing(server.url, last=3) as events:
        assert numbers(events, 3) == [7, 8, 9]
    with tailing(server.url, last=2, kind="tool") as events:
        assert numbers(events, 2) == [7, 9]
    with tailing(server.url, last=100) as events:
        assert numbers(events, 10) == list(range(10))
        store(server, make_record(10))
        assert numbers(events, 1) == [10]


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ({"run_id": "run-9"}, {"run": "run-9"}),
        ({"kind": "tool"}, {"kind": "tool"}),
        ({"agent": "a"}, {"agent": "a"}),
        ({"status": "error"}, {"status": "error"}),
        ({"denials": "true"}, {"status": "blocked", "decision": "denied", "kind": "gate"}),
    ],
)
def test_a_filter_lets_through_what_fits(serve: Serve, asked: dict[str, str], fields: dict[str, Any]) -> None:
    server = serve()
    with tailing(server.url, **asked) as events:
        next(events)
        store(server, make_record(0), make_record(1, decision="allowed"), make_record(2, **fields), make_record(3))
        assert numbers(events, 1) == [2]


def test_a_key_hears_of_its_tenants_only(serve: Serve, tmp_path: Path) -> None:
    key = make_key(tmp_path / "data", "read", tenants=("acme",))
    server = serve()
    store(server, make_record(7, tenant="globex"))
    with tailing(server.url, key) as events:
        assert next(events).last_id.startswith("0.")  # another tenant's event is not told, not even by its id
        store(server, make_record(0, tenant="globex"), make_record(1, tenant="acme"), make_record(2, tenant="globex"))
        assert numbers(events, 1) == [1]
        store(server, make_record(3, tenant="acme"))
        assert numbers(events, 1) == [3]
    ingest = make_key(tmp_path / "data", "ingest")
    server.keys.refresh()
    assert httpx.get(server.url + PATH, headers=bearer(ingest), trust_env=False).status_code == 403


def test_a_last_id_goes_on_after_its_event_without_gap_or_double(serve: Serve) -> None:
    server = serve()
    with tailing(server.url) as events:
        next(events)
        store(server, *(make_record(n) for n in range(4)))
        store(server, make_record(4))
        told = [next(events) for _ in range(5)]
    store(server, make_record(5))
    for place, event in enumerate(told):
        with tailing(server.url, last_id=event.last_id) as events:
            assert numbers(events, 5 - place) == list(range(place + 1, 6))


def test_the_id_of_a_quiet_tail_goes_on_from_where_it_began(serve: Serve) -> None:
    server = serve()
    for n in range(2):  # a store without an event, and one with
        with tailing(server.url) as events:
            begun = next(events).last_id
        store(server, make_record(n))
        with tailing(server.url, last_id=begun) as events:
            assert numbers(events, 1) == [n]


def test_an_event_that_was_deleted_leaves_no_gap_behind_it(serve: Serve) -> None:
    server = serve()
    store(server, *(make_record(n) for n in range(3)))
    store(server, *(make_record(n) for n in range(3, 6)))
    with tailing(server.url, last=6) as events:
        told = [next(events) for _ in range(7)][1:]
    with server.database.cursor() as cursor:
        cursor.execute("DELETE FROM events WHERE span_id = ?", [make_record(2).span_id])
    with tailing(server.url, last_id=told[2].last_id) as events:
        assert numbers(events, 3) == [3, 4, 5]


def test_rows_that_move_are_neither_missed_nor_told_twice(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    # A checkpoint after a deletion gives the rows behind it other numbers: DuckDB drops whole groups of rows.
    server = serve()
    with server.database.cursor() as cursor:
        cursor.execute(
            "INSERT INTO events (event_id, tenant, run_id, kind, type, status, source, received_at) "
            "SELECT uuid(), 'default', 'old', 'other', 'x', 'ok', 'otlp', range FROM range(300000)"
        )
    store(server, make_record(0))
    with tailing(server.url, last=1) as events:
        assert numbers(events, 1) == [0]
        with server.database.cursor() as cursor:
            before = cursor.execute("SELECT max(rowid) FROM events").fetchone()
            cursor.execute("DELETE FROM events WHERE run_id = 'old'")
            cursor.execute("CHECKPOINT")
            after = cursor.execute("SELECT max(rowid) FROM events").fetchone()
        assert before != after, "this DuckDB moves no rows: the test shows nothing"
        store(server, make_record(1))
        assert numbers(events, 1) == [1]


def test_who_is_too_far_behind_is_told_how_much_was_left_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MAX_BEHIND", 50)
    monkeypatch.setattr(following, "PAGE_ROWS", 10)
    server = serve()
    store(server, make_record(0))
    with tailing(server.url, last=1) as events:
        begun = [next(events) for _ in range(2)][-1].last_id
    store(server, *(make_record(n) for n in range(1, 100)))
    with tailing(server.url, last_id=begun) as events:
        assert next(events).data == ""
        skipped = next(events)
        assert (skipped.name, json.loads(skipped.data)) == ("skipped", {"skipped": 89})
        assert numbers(events, 10) == list(range(90, 100))
    store(server, *(make_record(n) for n in range(100, 140)))
    with tailing(server.url, last_id=begun, run_id="run-1", kind="tool"), tailing(server.url, last=1) as events:
        assert numbers(events, 1) == [139]


def test_a_reader_that_takes_nothing_holds_up_nobody_and_is_given_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_api, "_STUCK_S", 0.5)
    server = serve()
    tails = server._app.state.tails
    with tailing(server.url), tailing(server.url) as lively:
        next(lively)
        wait_for(lambda: tails.open == 2, what="both tails")
        # More than the sockets' buffers hold, in rows of the largest size.
        for lot in range(60):
            store(server, *(make_record(lot * 500 + n, name="n" * 128, agent="a" * 128) for n in range(500)))
            assert numbers(lively, 500)[-1] == lot * 500 + 499
        wait_for(lambda: tails.open == 1, what="giving up the reader that takes nothing")


def test_no_more_tails_than_there_are_places(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_api, "MAX_TAILS", 1)
    server = serve()
    with tailing(server.url) as events:
        next(events)
        refused = httpx.get(server.url + PATH, trust_env=False)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
    wait_for(lambda: server._app.state.tails.open == 0, what="the place of the one that hung up")
    with tailing(server.url, last=1):
        pass


def test_a_silent_tail_says_that_it_is_still_there(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_api, "BEAT_S", 0.01)
    server = serve()
    with httpx.stream("GET", server.url + PATH, timeout=20, trust_env=False) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        while next(lines) != ": still here":
            pass


def test_a_stop_ends_tails_at_once_and_says_why(serve: Serve) -> None:
    server = serve()
    told: list[SentEvent] = []
    begun = threading.Event()

    def follow() -> None:
        with tailing(server.url) as events:
            for event in events:
                told.append(event)
                begun.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert begun.wait(10)
    server.close()  # the test's own time limit is the grace
    reader.join()
    assert (told[-1].name, "stops" in told[-1].data) == ("end", True)


def test_a_tail_is_noted_with_how_much_it_told(serve: Serve) -> None:
    server = serve()
    with tailing(server.url, kind="llm", last=2) as events:
        store(server, make_record(0), make_record(1))
        numbers(events, 2)

    def lines() -> list[dict[str, Any]]:
        return read_log(server.settings.data_dir, Asked(), None)[::-1]

    wait_for(lambda: len(lines()) == 2, what="the line of the end")
    begin, end = lines()
    assert (begin["what"], begin["parameters"]) == (PATH, {"kind": "llm", "last": "2"})
    assert (end["what"], end["rows"], end["parameters"]["ended_by"]) == (f"{PATH} (end)", 2, "the asker hung up")


def test_what_cannot_be_asked_is_refused_with_what_can(serve: Serve) -> None:
    server = serve()
    assert "there are: agent" in refusal(server, text="x")
    assert "true or false" in refusal(server, denials="maybe")
    assert "from 0 to 500" in refusal(server, last="501")
    assert "given once" in refusal(server, kind=["llm", "tool"])
    assert "plain text" in refusal(server, kind="a\nb")
    for last_id in ("x", "1.2", "-1." + "0" * 32, "9" * 30 + "." + "0" * 32):
        assert "Last-Event-ID takes" in refusal(server, last_id)


def send(process: CollectorProcess, count: int, first: int) -> None:
    """Send native events, each of its own id and name."""
    body = "".join(
        json.dumps({"event_id": f"{n:032x}", "run_id": "r", "type": "tool_call", "tool": f"t{n}", "ts": 1.78e9 + n})
        + "\n"
        for n in range(first, first + count)
    )
    headers = {"Content-Type": "application/x-ndjson"}
    answer = httpx.post(process.url + "/v1/events", content=body, headers=headers, trust_env=False, timeout=30)
    assert answer.status_code == 200, answer.text


def test_the_command_goes_on_through_a_stop_and_a_kill_of_the_server(tmp_path: Path) -> None:
    process = CollectorProcess(tmp_path / "data").start()
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as to, err.open("wb") as errors:
        command = subprocess.Popen(
            [COMMAND, "tail", "--json", "--url", process.url],
            stdout=to, stderr=errors, env=clean_environment() | {"PYTHONUNBUFFERED": "1"}, start_new_session=True,
        )  # fmt: skip

    def names() -> list[str]:
        return [json.loads(line)["name"] for line in out.read_text().splitlines()]

    try:
        wait_for(lambda: "following" in err.read_text(), what="the tail")
        send(process, 50, 0)
        wait_for(lambda: len(names()) >= 50, what="the first events")
        assert process.stop() == 0
        process.start()
        send(process, 50, 50)
        process.kill()
        process.start()
        send(process, 50, 100)
        wait_for(lambda: len(names()) >= 150, what="all events")
        os.kill(command.pid, signal.SIGINT)
        assert command.wait(30) == 130
    finally:
        command.kill()
        command.wait()
        process.stop()
    assert names() == [f"t{n}" for n in range(150)]
    assert "trying again" in err.read_text()
    assert "Traceback" not in err.read_text()


def test_the_command_fails_when_there_was_never_a_collector(tmp_path: Path) -> None:
    done = subprocess.run(
        [COMMAND, "tail", "--url", "http://127.0.0.1:9"],
        env=clean_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "no collector answers" in done.stderr) == (1, True)


def test_a_stream_is_read_as_a_browser_does() -> None:
    lines = [": hello", "retry: 5", "id: 1", "", "data: a", "data:b", "", "event: x", "data", "id", "", "data: cut off"]
    assert list(read_sent_events(lines)) == [
        SentEvent("message", "", "1"),
        SentEvent("message", "a\nb", "1"),
        SentEvent("x", "", ""),
    ]
