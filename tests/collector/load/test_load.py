"""Files become requests, whatever their form; a load goes on where it stopped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.otlp import chat_spans
from support.recorded import shipped
from tracehold_collector.client import AskError, Client
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.load import files, find_files, load_files, read_pieces
from tracehold_collector.load.resume import Progress
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]


def events(count: int, first: int = 0) -> bytes:
    lines = [
        json.dumps(
            {
                "type": "llm_call",
                "event_id": f"{n:032x}",
                "run_id": f"run-{n % 3}",
                "started_at_ns": 1_780_000_000_000_000_000 + n,
            }
        )
        for n in range(first, first + count)
    ]
    return "\n".join(lines).encode() + b"\n"


def stored(server: CollectorServer) -> int:
    with server.database.cursor() as cursor:
        row = cursor.execute("SELECT count(*) FROM events").fetchone()
    assert row is not None
    return int(row[0])


def test_every_form_is_recognised_and_stored(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    (tmp_path / "a.jsonl").write_bytes(events(5))
    (tmp_path / "b.json").write_bytes(b"[" + events(1, 10).strip() + b"]")
    (tmp_path / "c.pb").write_bytes(chat_spans(0, 4).SerializeToString())
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(events(3, 20)))
    (tmp_path / "notes.txt").write_text("not a trace")
    with Client(server.url) as client:
        results = load_files(client, find_files([tmp_path]))
    assert [(result.path.name, result.error) for result in results] == [
        ("a.jsonl", None),
        ("b.json", None),
        ("c.pb", None),
        ("d.jsonl.gz", None),
    ]
    assert stored(server) == 13


def test_otlp_requests_a_line_are_sent_as_otlp(tmp_path: Path) -> None:
    request = json.dumps(json.loads(shipped("jaeger-fixtures/default.otlp.json").read_text()))
    (tmp_path / "export.json").write_text(f"{request}\n{request}\n")
    pieces = list(read_pieces(tmp_path / "export.json"))
    assert [piece.path for piece in pieces] == ["/v1/traces", "/v1/traces"]


def test_otlp_logs_and_metrics_are_told_apart_from_traces(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    logs = json.dumps(json.loads(shipped("opentelemetry-proto/logs.otlp.json").read_text()))
    (tmp_path / "a.json").write_text(logs)
    (tmp_path / "b.jsonl").write_text(f"{logs}\n")
    points = [{"asInt": "3"}, {"asInt": "4"}]
    metrics = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": points}}]}]}]}
    (tmp_path / "c.json").write_text(json.dumps(metrics))
    with Client(server.url) as client:
        first, second, third = load_files(client, find_files([tmp_path]))
    assert (first.accepted, second.accepted, second.duplicates, third.accepted) == (1, 0, 1, 0)
    assert (third.rejected, third.reasons[0][:26]) == (2, "metrics are taken and not ")


def test_a_broken_file_is_reported_and_the_next_one_is_loaded(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    (tmp_path / "a.json").write_bytes(b'{"resourceSpans": [')
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(events(50))[:-20])
    (tmp_path / "c.jsonl").write_bytes(events(2, 100))
    with Client(server.url) as client:
        broken, cut, good = load_files(client, find_files([tmp_path]))
    assert broken.error is not None
    assert "line 1" in broken.error
    assert cut.error is not None
    assert "b.jsonl.gz" in cut.error
    assert (good.error, good.accepted) == (None, 2)


def test_bad_lines_are_counted_and_their_neighbours_kept(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    (tmp_path / "a.jsonl").write_bytes(events(2) + b"{broken\n" + events(2, 10))
    with Client(server.url) as client:
        (result,) = load_files(client, find_files([tmp_path]))
    assert (result.accepted, result.rejected, result.error) == (4, 1, None)
    assert "line 3" in result.reasons[0]


def test_an_interrupted_load_goes_on_where_it_stopped(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 500)
    server = serve()
    path = tmp_path / "long.jsonl"
    path.write_bytes(events(100))
    progress = Progress(server.url, tmp_path / "state")
    sent: list[int] = []

    def interrupt(_path: Path, offset: int) -> None:
        sent.append(offset)
        if len(sent) == 3:
            raise KeyboardInterrupt

    with Client(server.url) as client:
        with pytest.raises(KeyboardInterrupt):
            load_files(client, [path], progress=progress, on_bytes=interrupt)
        before = stored(server)
        assert progress.offset(path) == sent[-1]
        (result,) = load_files(client, [path], progress=progress)
    assert 0 < before < 100
    assert result.accepted == 100 - before
    assert stored(server) == 100
    assert progress.offset(path) == 0


def test_a_file_that_changed_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(events(10))
    progress = Progress("http://c", tmp_path / "state")
    progress.keep(path, 50)
    assert progress.offset(path) == 50
    path.write_bytes(events(10, 500))
    assert progress.offset(path) == 0


def test_an_unfinished_last_line_does_not_count_as_done(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = events(3)
    path.write_bytes(whole + b'{"type": "llm_c')
    assert [piece.offset for piece in read_pieces(path)] == [len(whole)]


@pytest.mark.parametrize("name", ["x.txt", "missing.jsonl"])
def test_a_file_of_no_known_form_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(BadBodyError, match=name):
        find_files([tmp_path / name])


def test_a_busy_collector_is_waited_for_as_long_as_it_asks(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(events(1))
    pauses: list[float] = []

    class Busy(Client):
        answers = 0

        def post(self, path: str, body: bytes, content_type: str) -> Any:
            self.answers += 1
            if self.answers < 3:
                return httpx.Response(429, headers={"Retry-After": "2"})
            return httpx.Response(200, json={"accepted": 1, "duplicates": 0, "rejected_count": 0, "rejected": []})

    with Busy("http://127.0.0.1:9") as client:
        (result,) = load_files(client, find_files([tmp_path]), sleep=pauses.append)
    assert (result.accepted, pauses) == (1, [2.0, 2.0])


def test_no_collector_is_said_with_the_way_to_start_one(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(events(1))
    with Client("http://127.0.0.1:9") as client, pytest.raises(AskError, match="tracehold up"):
        load_files(client, find_files([tmp_path]))


def test_pieces_stay_below_what_a_collector_takes(tmp_path: Path) -> None:
    long_line = json.dumps({"type": "x", "run_id": "r", "pad": "p" * files.PIECE_BYTES}).encode() + b"\n"
    (tmp_path / "a.jsonl").write_bytes(
        events(50) + long_line + b'{"type":"x","run_id":"r"}\n' * (files.PIECE_LINES + 5)
    )
    pieces = list(read_pieces(tmp_path / "a.jsonl"))
    assert [piece.body.count(b"\n") for piece in pieces] == [50, 1, files.PIECE_LINES, 5]


def test_a_damaged_archive_is_a_fault_of_the_file(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(events(500)))
    packed[40:60] = b"\xff" * 20
    (tmp_path / "a.jsonl.gz").write_bytes(bytes(packed))
    with pytest.raises(BadBodyError, match=r"a\.jsonl\.gz"):
        list(read_pieces(tmp_path / "a.jsonl.gz"))
