"""What senders are told, over real HTTP."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import zlib
from collections.abc import Callable
from typing import Any

import duckdb
import httpx
import pytest
import zstandard
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from support.otlp import chat_spans
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store.committer import Committer

Serve = Callable[..., CollectorServer]

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}

EVENT = {
    "type": "llm_call",
    "event_id": "01900000000070008000000000000001",
    "run_id": "r1",
    "started_at_ns": 1_780_000_000_000_000_000,
}


def post(server: CollectorServer, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
    return httpx.post(server.url + path, content=body, headers=headers, timeout=30, trust_env=False)


def stored(server: CollectorServer) -> int:
    with server.database.cursor() as cursor:
        row = cursor.execute("SELECT count(*) FROM events").fetchone()
    assert row is not None
    return int(row[0])


def test_a_request_answered_200_is_in_the_store(serve: Serve) -> None:
    server = serve()
    answer = post(server, "/v1/traces", chat_spans(0, 100).SerializeToString(), PROTOBUF)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    assert stored(server) == 100


def test_json_and_protobuf_of_one_request_give_the_same_rows(serve: Serve) -> None:
    server = serve()
    request = chat_spans(0, 3)
    document = MessageToDict(request, use_integers_for_enums=True)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span, original in zip(scope["spans"], request.resource_spans[0].scope_spans[0].spans, strict=True):
                span["traceId"], span["spanId"] = original.trace_id.hex(), original.span_id.hex()
    answer = post(server, "/v1/traces", json.dumps(document).encode(), JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    assert post(server, "/v1/traces", request.SerializeToString(), PROTOBUF).status_code == 200
    assert stored(server) == 3


def test_content_codings_that_are_read_give_equal_rows(serve: Serve) -> None:  # FR-13
    server = serve()
    body = chat_spans(0, 5).SerializeToString()
    packed = {
        "identity": body,
        "gzip": gzip.compress(body),
        "x-gzip": gzip.compress(body),
        "deflate": zlib.compress(body),
        "zstd": zstandard.compress(body),
    }
    answers = [
        post(server, "/v1/traces", sent, PROTOBUF | {"Content-Encoding": coding}) for coding, sent in packed.items()
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert [answer.headers["tracehold-duplicates"] for answer in answers] == ["0", "5", "5", "5", "5"]
    assert stored(server) == 5


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (gzip.compress(b"{}"), {"Content-Encoding": "br"}, 415),
        (b"not gzip at all", {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(b"{}" * 100)[:-9], {"Content-Encoding": "gzip"}, 400),
        (gzip.compress(chat_spans(0, 1).SerializeToString()), {}, 400),
    ],
    ids=["unknown coding", "no gzip", "cut gzip", "gzip without a header"],
)
def test_a_broken_or_unknown_coding_is_refused(
    serve: Serve, body: bytes, headers: dict[str, str], status: int
) -> None:  # FR-13
    server = serve()
    answer = post(server, "/v1/traces", body, PROTOBUF | headers)
    assert answer.status_code == status
    assert "gzip" in Status.FromString(answer.content).message
    assert stored(server) == 0


def test_a_bad_span_is_a_partial_success_and_its_neighbours_are_kept(serve: Serve) -> None:  # FR-11
    server = serve()
    request = chat_spans(0, 3)
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b""
    answer = post(server, "/v1/traces", request.SerializeToString(), PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 1)
    assert "spans[1]" in partial.error_message
    assert stored(server) == 2


def test_a_body_that_is_not_what_it_claims_gets_400_and_the_place(serve: Serve) -> None:
    server = serve()
    answer = post(server, "/v1/traces", b'{"resourceSpans": [}', JSON)
    assert answer.status_code == 400
    assert answer.json()["code"] == 3
    assert "line 1" in answer.json()["message"]
    answer = post(server, "/v1/traces", b"\xff" * 50, PROTOBUF)
    assert answer.status_code == 400
    assert Status.FromString(answer.content).message
    assert httpx.get(f"{server.url}/readyz", trust_env=False).status_code == 200


def test_a_content_type_nobody_reads_gets_415_and_the_list(serve: Serve) -> None:
    answer = post(serve(), "/v1/traces", b"x", {"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert "application/x-protobuf" in Status.FromString(answer.content).message


def test_events_are_kept_and_bad_ones_counted_by_line(serve: Serve) -> None:
    server = serve()
    lines = [json.dumps(EVENT), '["no event"]', json.dumps(EVENT | {"event_id": "01900000000070008000000000000002"})]
    answer = post(server, "/v1/events", "\n".join(lines).encode(), NDJSON)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["accepted"], told["duplicates"], told["rejected_count"]) == (2, 0, 1)
    assert told["rejected"][0]["where"] == "line 2"
    assert stored(server) == 2


def test_a_json_array_of_events_is_read_too(serve: Serve) -> None:
    server = serve()
    answer = post(server, "/v1/events", json.dumps([EVENT, EVENT]).encode(), JSON)
    assert answer.json() == {"accepted": 1, "duplicates": 1, "rejected_count": 0, "rejected": []}


def test_a_body_over_the_limit_gets_413_and_the_limits_name(serve: Serve) -> None:
    server = serve(max_body_bytes=2000)
    body = chat_spans(0, 100).SerializeToString()
    answer = post(server, "/v1/traces", body, PROTOBUF)
    assert answer.status_code == 413
    assert "max_body_bytes" in Status.FromString(answer.content).message


def test_a_body_without_a_length_is_cut_off_at_the_limit(serve: Serve) -> None:
    server = serve(max_body_bytes=2000)

    def pieces() -> Any:
        for _ in range(100):
            yield b"x" * 100

    answer = httpx.post(f"{server.url}/v1/traces", content=pieces(), headers=PROTOBUF, timeout=30, trust_env=False)
    assert answer.status_code == 413


def test_a_full_queue_answers_429_with_retry_after(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(max_queued=1)
    entered, leave = threading.Event(), threading.Event()
    real = Committer.commit

    def slow(self: Any, batch: Any) -> Any:
        entered.set()
        leave.wait(20)
        return real(self, batch)

    monkeypatch.setattr(Committer, "commit", slow)
    body = chat_spans(0, 5).SerializeToString()
    first = threading.Thread(target=post, args=(server, "/v1/traces", body, PROTOBUF))
    first.start()
    assert entered.wait(20)
    answer = post(server, "/v1/traces", body, PROTOBUF)
    leave.set()
    first.join()
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert Status.FromString(answer.content).code == 8


def test_a_failed_commit_answers_503_with_retry_after(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()
    monkeypatch.setattr(Committer, "commit", lambda *_: (_ for _ in ()).throw(duckdb.IOException("disk full")))
    answer = post(server, "/v1/events", json.dumps(EVENT).encode(), NDJSON)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert "Send it again" in answer.json()["error"]


def test_a_resend_after_an_unseen_answer_is_stored_once(serve: Serve) -> None:  # FR-25
    server = serve()
    body = chat_spans(0, 40).SerializeToString()
    raw = (
        f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/x-protobuf\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    with socket.create_connection(("127.0.0.1", server.port)) as cut:
        cut.sendall(raw)
        cut.recv(1)  # the commit is done; the rest of the answer is never read
    again = post(server, "/v1/traces", body, PROTOBUF)
    assert again.status_code == 200
    assert ExportTraceServiceResponse.FromString(again.content).partial_success.rejected_spans == 0
    assert stored(server) == 40


def test_an_empty_request_is_a_success(serve: Serve) -> None:
    answer = post(serve(), "/v1/traces", ExportTraceServiceRequest().SerializeToString(), PROTOBUF)
    assert answer.status_code == 200


def test_fifty_senders_at_once_lose_and_double_nothing(serve: Serve) -> None:
    server = serve()
    threads = [
        threading.Thread(
            target=post, args=(server, "/v1/traces", chat_spans(place * 20, 20).SerializeToString(), PROTOBUF)
        )
        for place in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(server) == 1000
    with server.database.cursor() as cursor:
        assert cursor.execute("SELECT sum(events), sum(llm_calls), sum(input_tokens) FROM runs").fetchone() == (
            1000,
            1000,
            7000,
        )
