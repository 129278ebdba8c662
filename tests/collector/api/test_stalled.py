"""Senders that stall harm nobody but themselves: headers, bodies and unread answers are bounded in time."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import grpc
import httpx
import pytest
from support.otlp import chat_spans
from support.otlp_grpc import METHODS, Refusal, calling
from support.processes import wait_for
from support.records import make_record
from tracehold_collector.api import body, health, otlp_grpc
from tracehold_collector.api.connection import BoundedConnection
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store.reader import Reader

Serve = Callable[..., CollectorServer]

PROTOBUF = {"Content-Type": "application/x-protobuf"}
SPANS = chat_spans(0, 3).SerializeToString()
HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n"
NEXT = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "headers_within_s", 0.2)
    monkeypatch.setattr(BoundedConnection, "read_within_s", 0.2)
    for module in (body, otlp_grpc):
        monkeypatch.setattr(module, "READ_TIMEOUT_S", 0.2)


def connected(server: CollectorServer) -> closing[socket.socket]:
    own = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    return closing(own)


def rest(own: socket.socket) -> bytes:
    """All that still comes; ends when the collector hangs up."""
    found = b""
    try:
        while piece := own.recv(65536):
            found += piece
    except ConnectionError:
        pass
    return found


def post(server: CollectorServer, content: Any = SPANS, **options: Any) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/traces", content=content, headers=PROTOBUF, timeout=60, trust_env=False, **options
    )


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("sent", [b"", b"P", HEAD, NEXT + HEAD])
def test_headers_that_never_end_are_let_go(serve: Serve, sent: bytes) -> None:
    server = serve()
    with connected(server) as own:
        own.sendall(sent)
        answer = rest(own)
    assert b"408 Request Timeout" in answer or sent.startswith(NEXT)
    assert answer.startswith(b"HTTP/1.1 200") == sent.startswith(NEXT)


@pytest.mark.usefixtures("impatient")
def test_headers_that_drip_are_let_go_however_steadily_they_drip(serve: Serve) -> None:
    server = serve()
    ended = threading.Event()
    with connected(server) as own:
        own.sendall(HEAD)

        def drip() -> None:
            while not ended.wait(0.02):
                try:
                    own.sendall(b"X-Drip: 1\r\n")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        answer = rest(own)
        ended.set()
        dripping.join()
    assert b"HTTP/1.1 200" not in answer


def test_a_request_in_pieces_within_the_time_is_taken(serve: Serve) -> None:
    server = serve()
    request = HEAD + f"Content-Length: {len(SPANS)}\r\nConnection: close\r\n\r\n".encode() + SPANS
    with connected(server) as own:
        for place in range(0, len(request), 40):
            own.sendall(request[place : place + 40])
        assert rest(own).startswith(b"HTTP/1.1 200")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("declared", [b"Content-Length: 100\r\n\r\nab", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"])
def test_a_body_that_never_ends_may_be_sent_again(serve: Serve, declared: bytes) -> None:
    server = serve()
    with connected(server) as own:
        own.sendall(HEAD + declared)
        answer = rest(own)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after: " in answer
    assert b"did not arrive within 0.2 s" in answer
    assert server._intake._held_bytes == 0


@pytest.mark.usefixtures("impatient")
def test_a_message_that_never_comes_may_be_sent_again_over_grpc(serve: Serve) -> None:
    server = serve(grpc=True)
    held = threading.Event()

    def message() -> Iterator[bytes]:
        held.wait(60)
        yield b""

    with calling(server.grpc_address) as caller:
        with pytest.raises(grpc.RpcError) as caught:
            caller.channel.stream_unary(METHODS["traces"])(message(), timeout=60)
        held.set()
    refusal = Refusal(caught.value)
    assert (refusal.code, refusal.retry_after_s) == (grpc.StatusCode.UNAVAILABLE, 2)


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_nobody_reads_is_let_go(serve: Serve) -> None:
    server = serve()
    text = "x" * 100_000
    server.writer.submit([make_record(n, content={"text": f"{n}{text}"}) for n in range(100)]).result(30)
    ids = "&".join(f"event_id={make_record(n).event_id.hex()}" for n in range(100))
    with closing(socket.socket()) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        own.connect(("127.0.0.1", server.port))
        own.sendall(f"GET /api/v1/contents?{ids} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        wait_for(lambda: len(server._server.server_state.connections) == 1, what="the connection")
        wait_for(lambda: not server._server.server_state.connections, what="the end of the connection")
        wait_for(lambda: not server._server.server_state.tasks, what="the end of the request")


def test_many_that_stall_hold_no_place_of_a_neighbour(serve: Serve) -> None:
    server = serve(grpc=True)
    with ExitStack() as stalled, calling(server.grpc_address) as caller:
        for number in range(200):
            own = stalled.enter_context(connected(server))
            own.sendall([b"", b"POST /v1", HEAD, HEAD + b"Content-Length: 100000\r\n\r\nab"][number % 4])
        assert post(server).status_code == 200
        caller.export("traces", chat_spans(3, 3).SerializeToString())
        ready = httpx.get(f"{server.url}/readyz", timeout=60, trust_env=False)
        assert ready.status_code == 200
        assert server.writer.stats.accepted == 6


def test_a_stalled_sender_keeps_no_collector_from_stopping(serve: Serve) -> None:
    server = serve()
    with connected(server) as headers, connected(server) as half:
        headers.sendall(HEAD)
        half.sendall(HEAD + b"Content-Length: 100000\r\n\r\nab")
        assert post(server).status_code == 200
        server.close()
    assert not server._server.server_state.tasks


def test_a_collector_whose_questions_are_slow_is_ready_all_the_same(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    leave, asking = threading.Event(), []
    real = Reader.query

    def slow(self: Reader, *args: Any) -> Any:
        asking.append(1)
        leave.wait(60)
        return real(self, *args)

    monkeypatch.setattr(Reader, "query", slow)
    asked = [
        threading.Thread(target=httpx.get, args=(f"{server.url}/api/v1/queries/runs",), kwargs={"trust_env": False})
        for _ in range(64)
    ]
    for thread in asked:
        thread.daemon = True
        thread.start()
    try:
        wait_for(lambda: len(asking) >= 4, what="questions under way")
        for path in ("/readyz", "/metrics"):
            assert httpx.get(server.url + path, timeout=60, trust_env=False).status_code == 200
        assert post(server).status_code == 200
    finally:
        leave.set()
        for thread in asked:
            thread.join(60)


def test_a_store_that_does_not_answer_is_not_ready(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "READY_WITHIN_S", 0.1)
    server = serve()
    leave = threading.Event()
    monkeypatch.setattr(Reader, "ping", lambda _self: leave.wait(60))
    answer = httpx.get(f"{server.url}/readyz", timeout=60, trust_env=False)
    leave.set()
    assert (answer.status_code, answer.json()["ready"]) == (503, False)
    assert "did not answer within 0.1 s" in answer.json()["error"]
