"""What one sender does must not harm another: odd values, bombs, floods, ends."""

from __future__ import annotations

import gzip
import json
import stat
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.otlp import START, chat_spans
from support.records import make_record
from tracehold.core.errors import ConfigurationError
from tracehold_collector.core.errors import QueueFullError, StoreError
from tracehold_collector.core.limits import Limits
from tracehold_collector.core.settings import load_settings
from tracehold_collector.decoders.decoder import Decoder, DecoderSettings
from tracehold_collector.pipeline import Intake
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store import reader
from tracehold_collector.store.committer import Committer

Serve = Callable[..., CollectorServer]

NDJSON = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def post(server: CollectorServer, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
    return httpx.post(server.url + path, content=body, headers=headers, timeout=60, trust_env=False)


def event(n: int, **fields: Any) -> bytes:
    return json.dumps(
        {"type": "llm_call", "event_id": f"{n:032x}", "run_id": "r", "started_at_ns": START} | fields
    ).encode()


def query(server: CollectorServer, name: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{server.url}/api/v1/queries/{name}", timeout=30, trust_env=False)
    assert answer.status_code == 200, answer.text
    return [dict(zip(answer.json()["columns"], row, strict=True)) for row in answer.json()["rows"]]


@pytest.mark.parametrize(
    "odd",
    [
        {"started_at_ns": 4_650_000_000_000_000_000, "parent_span_id": "1" * 16},
        {"started_at_ns": 7_200_000_000_000_000_000, "duration_ns": 7_200_000_000_000_000_000},
        {"latency_ms": 1e303},
        {"cost_usd": 1.7e308},
        {"usage": {"input_tokens": 2**62, "output_tokens": 2**62}},
    ],
)
def test_one_absurd_value_takes_no_neighbour_down_and_blinds_no_sum(serve: Serve, odd: dict[str, Any]) -> None:  # FR-23
    server = serve()
    good = event(1, cost_usd=0.5, usage={"input_tokens": 3, "output_tokens": 4})
    lines = b"\n".join([good, event(2, **odd), event(3, **odd)])
    assert post(server, "/v1/events", lines, NDJSON).json()["accepted"] == 3
    (overview,) = query(server, "overview")
    assert (overview["cost_usd"], overview["input_tokens"]) == (0.5, 3)
    assert query(server, "runs")[0]["events"] == 3


def test_json_that_would_unpack_into_too_much_is_refused_before_it_is_parsed(serve: Serve) -> None:
    server = serve()
    bomb = gzip.compress(b"[" + b"[]," * 5_000_000 + b"[]]", 1)
    answer = post(server, "/v1/events", bomb, JSON | {"Content-Encoding": "gzip"})
    assert answer.status_code == 413
    assert "max_json_values" in answer.json()["error"]
    blank = gzip.compress(b"\n" * 5_000_000, 1)
    answer = post(server, "/v1/events", blank + b"", NDJSON | {"Content-Encoding": "gzip"})
    assert answer.status_code in {200, 413}


def test_bodies_under_way_are_bounded_together(serve: Serve) -> None:
    server = serve()
    limits = Limits(max_held_bytes=1000)
    intake = Intake(server.writer, Decoder(DecoderSettings(b"k" * 32, limits, None)), limits)
    with intake.reservation() as first, intake.reservation() as second:
        first.grow(900)
        with pytest.raises(QueueFullError, match="write queue is full"):
            second.grow(200)
        second.grow(100)
    with intake.reservation() as third:
        third.grow(5000)  # alone, a body may be as large as its own limit says


def test_a_stopping_collector_tells_senders_to_come_back(serve: Serve) -> None:
    server = serve()
    server._intake.stopping = True
    answer = post(server, "/v1/traces", chat_spans(0, 1).SerializeToString(), PROTOBUF)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1


def test_a_request_cut_off_by_the_end_is_told_to_come_back(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehold_collector.serve._GRACE_S", 1)
    server = serve()
    entered, leave = threading.Event(), threading.Event()
    real = Committer.commit

    def slow(self: Any, submissions: Any) -> Any:
        entered.set()
        leave.wait(30)
        return real(self, submissions)

    monkeypatch.setattr(Committer, "commit", slow)
    answers: list[httpx.Response] = []
    sender = threading.Thread(
        target=lambda: answers.append(post(server, "/v1/traces", chat_spans(0, 1).SerializeToString(), PROTOBUF))
    )
    sender.start()
    assert entered.wait(20)
    server.stop()
    sender.join(30)
    leave.set()
    assert [answer.status_code for answer in answers] == [503]


def test_the_store_and_its_write_ahead_file_are_their_owners_alone(serve: Serve) -> None:
    server = serve()
    post(server, "/v1/events", event(1), NDJSON)
    files = list(server.settings.data_dir.iterdir())
    assert any(file.name.endswith(".wal") for file in files)
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_an_answer_of_contents_is_bounded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    server.writer.submit([make_record(n, run=f"run-{n}", content={"text": "x" * 500}) for n in range(20)]).result(10)
    ids = [make_record(n).event_id.hex() for n in range(20)]
    monkeypatch.setattr(reader, "MAX_PACKED_BYTES", 200)
    answer = httpx.get(f"{server.url}/api/v1/contents", params={"event_id": ids}, trust_env=False)
    assert answer.status_code == 400
    assert "ask for fewer" in answer.json()["error"]


def test_a_store_without_its_key_file_does_not_get_a_new_key(serve: Serve) -> None:
    server = serve()
    server.close()
    (server.settings.data_dir / "pseudonym.key").unlink()
    with pytest.raises(StoreError, match="Restore it from a backup"):
        serve()


def test_a_data_folder_that_cannot_be_used_is_named(serve: Serve, tmp_path: Any) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="Choose another --data-dir"):
        serve(data_dir=tmp_path / "file")


def test_a_broken_settings_file_is_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tracehold.toml").write_text("port = = 1")
    with pytest.raises(ConfigurationError, match=r"tracehold\.toml in this folder is no TOML"):
        load_settings()


@pytest.mark.parametrize(("host", "status"), [("LOCALHOST", 200), ("[::1]", 200), ("[::1]evil.com", 403), ("", 403)])
def test_only_whole_loopback_names_are_answered(serve: Serve, host: str, status: int) -> None:
    server = serve()
    answer = httpx.get(f"{server.url}/api/v1/queries", headers={"Host": host}, trust_env=False)
    assert answer.status_code == status


def test_the_case_of_the_authorization_scheme_does_not_matter(serve: Serve) -> None:
    key = "k" * 32
    server = serve(api_key=key)
    answer = httpx.get(f"{server.url}/api/v1/queries", headers={"Authorization": f"bearer {key}"}, trust_env=False)
    assert answer.status_code == 200
