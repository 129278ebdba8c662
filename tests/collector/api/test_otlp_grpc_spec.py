"""The rules of the OTLP specification (1.x) that concern a receiver of OTLP/gRPC, each with its section."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import grpc
import httpx
import pytest
from support.otlp_grpc import METHODS, Refusal, calling
from support.otlp_requests import request_of, response_of
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.ports import PortTakenError
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store.committer import Committer

Serve = Callable[..., CollectorServer]

KEY = "k" * 32
SIGNALS = tuple(METHODS)
every_signal = pytest.mark.parametrize("signal", SIGNALS)
stored_signals = pytest.mark.parametrize("signal", ["traces", "logs"])


@pytest.fixture
def serve_grpc(serve: Serve) -> Serve:
    return lambda **flags: serve(**({"grpc": True} | flags))


def stored(server: CollectorServer) -> int:
    with server.database.cursor() as cursor:
        row = cursor.execute("SELECT count(*) FROM events").fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def a_commit_that_waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Commits wait for the second event and set the first when they begin."""
    entered, leave = threading.Event(), threading.Event()
    real = Committer.commit

    def slow(self: Any, batch: Any) -> Any:
        entered.set()
        leave.wait(30)
        return real(self, batch)

    monkeypatch.setattr(Committer, "commit", slow)
    try:
        yield entered, leave
    finally:
        leave.set()


# "OTLP/gRPC Response", "Full Success"


@stored_signals
def test_what_is_answered_is_in_the_store_and_full_success_is_an_empty_message(serve_grpc: Serve, signal: str) -> None:
    server = serve_grpc()
    with calling(server.grpc_address) as caller:
        assert caller.export(signal, request_of(signal, 100).SerializeToString()) == b""
        assert stored(server) == 100


@every_signal
@pytest.mark.parametrize("empty", ["no bytes", "empty envelopes"])
def test_an_empty_request_is_a_success(serve_grpc: Serve, signal: str, empty: str) -> None:
    body = b"" if empty == "no bytes" else request_of(signal, 0).SerializeToString()
    with calling(serve_grpc().grpc_address) as caller:
        assert caller.export(signal, body) == b""


@stored_signals
def test_both_transports_store_one_request_once(serve_grpc: Serve, signal: str) -> None:
    server = serve_grpc()
    body = request_of(signal, 3).SerializeToString()
    with calling(server.grpc_address) as caller:
        caller.export(signal, body)
        caller.export(signal, body)
    headers = {"Content-Type": "application/x-protobuf"}
    answer = httpx.post(f"{server.url}/v1/{signal}", content=body, headers=headers, trust_env=False)
    assert answer.headers["tracehold-duplicates"] == "3"
    assert stored(server) == 3


# "Protocol Details": compression


@every_signal
@pytest.mark.parametrize(
    "compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate]
)
def test_no_compression_gzip_and_deflate_are_read(serve_grpc: Serve, signal: str, compression: Any) -> None:
    with calling(serve_grpc().grpc_address) as caller:
        response_of(signal, caller.export(signal, request_of(signal, 50).SerializeToString(), compression=compression))


# "Partial Success"


def test_a_bad_span_is_counted_with_its_reason_and_its_neighbours_are_kept(serve_grpc: Serve) -> None:
    server = serve_grpc()
    request = request_of("traces", 3)
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b""
    with calling(server.grpc_address) as caller:
        partial = response_of("traces", caller.export("traces", request.SerializeToString())).partial_success
    assert partial.rejected_spans == 1
    assert "spans[1]" in partial.error_message
    assert stored(server) == 2


def test_data_points_are_counted_as_not_stored_with_the_reason(serve_grpc: Serve) -> None:
    server = serve_grpc()
    with calling(server.grpc_address) as caller:
        answer = response_of("metrics", caller.export("metrics", request_of("metrics", 5).SerializeToString()))
    assert answer.partial_success.rejected_data_points == 5
    assert "not stored" in answer.partial_success.error_message
    assert stored(server) == 0


# "Failures"


@every_signal
def test_what_cannot_be_decoded_is_an_invalid_argument_and_not_to_be_retried(serve_grpc: Serve, signal: str) -> None:
    with calling(serve_grpc().grpc_address) as caller:
        refusal = caller.refusal(signal, b"\xff" * 40)
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refusal.retry_after_s, refusal.violation) == (None, refusal.text)


@every_signal
def test_a_request_of_another_signal_is_refused(serve_grpc: Serve, signal: str) -> None:
    with calling(serve_grpc().grpc_address) as caller:
        for other in SIGNALS:
            if other != signal:
                refusal = caller.refusal(signal, request_of(other).SerializeToString())
                assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT
                assert f"OTLP {other} request" in refusal.text


def test_a_service_nobody_has_is_unimplemented(serve_grpc: Serve) -> None:
    method = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
    with calling(serve_grpc().grpc_address) as caller, pytest.raises(grpc.RpcError) as caught:
        caller.channel.unary_unary(method)(b"", timeout=30)
    assert Refusal(caught.value).code is grpc.StatusCode.UNIMPLEMENTED


def test_a_fault_of_ours_is_internal_and_says_nothing_of_the_request(
    serve_grpc: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise LookupError("secret")

    monkeypatch.setattr("tracehold_collector.api.otlp_grpc.take_export", broken)
    with calling(serve_grpc().grpc_address) as caller:
        refusal = caller.refusal("logs", b"")
    assert refusal.code is grpc.StatusCode.INTERNAL
    assert "LookupError" in refusal.text
    assert "secret" not in refusal.text


# "OTLP/gRPC Request": limits


@every_signal
@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_over_the_limit_is_resource_exhausted_and_not_to_be_retried(
    serve_grpc: Serve, signal: str, compression: Any
) -> None:
    server = serve_grpc(max_body_bytes=2000)
    with calling(server.grpc_address) as caller:
        refusal = caller.refusal(signal, b"\0" * 3_000_000, compression=compression)
        assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refusal.retry_after_s is None
        assert caller.export(signal, b"") == b""


# "OTLP/gRPC Throttling"


@stored_signals
def test_a_full_queue_is_resource_exhausted_with_the_time_to_come_back(
    serve_grpc: Serve, signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve_grpc(max_queued=1)
    body = request_of(signal, 5).SerializeToString()
    with a_commit_that_waits(monkeypatch) as (entered, leave), calling(server.grpc_address) as caller:
        first = threading.Thread(target=caller.export, args=(signal, body))
        first.start()
        assert entered.wait(20)
        refusal = caller.refusal(signal, body)
        leave.set()
        first.join()
    assert refusal.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.retry_after_s == 1
    assert refusal.status is not None
    assert (refusal.status.code, refusal.status.message) == (8, refusal.text)
    assert stored(server) == 5


@stored_signals
def test_a_store_that_cannot_write_is_unavailable_with_the_time_to_come_back(
    serve_grpc: Serve, signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Committer, "commit", lambda *_: (_ for _ in ()).throw(duckdb.IOException("disk full")))
    with calling(serve_grpc().grpc_address) as caller:
        refusal = caller.refusal(signal, request_of(signal).SerializeToString())
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert (refusal.retry_after_s or 0) >= 1


@every_signal
def test_a_stopping_collector_is_unavailable_with_the_time_to_come_back(serve_grpc: Serve, signal: str) -> None:
    server = serve_grpc()
    server._intake.stopping = True
    with calling(server.grpc_address) as caller:
        refusal = caller.refusal(signal, request_of(signal).SerializeToString())
    assert refusal.code is grpc.StatusCode.UNAVAILABLE
    assert (refusal.retry_after_s or 0) >= 1


def test_a_request_under_way_at_the_end_is_answered(serve_grpc: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve_grpc()
    answers: list[bytes] = []
    with a_commit_that_waits(monkeypatch) as (entered, leave), calling(server.grpc_address) as caller:
        body = request_of("traces", 4).SerializeToString()
        sender = threading.Thread(target=lambda: answers.append(caller.export("traces", body)))
        sender.start()
        assert entered.wait(20)
        server.stop()
        leave.set()
        sender.join(30)
    assert answers == [b""]


def test_a_request_the_end_cuts_off_may_be_sent_again(serve_grpc: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracehold_collector.serve._GRACE_S", 0.5)
    server = serve_grpc()
    refusals: list[Refusal] = []
    with a_commit_that_waits(monkeypatch) as (entered, _leave), calling(server.grpc_address) as caller:
        body = request_of("traces", 4).SerializeToString()
        sender = threading.Thread(target=lambda: refusals.append(caller.refusal("traces", body)))
        sender.start()
        assert entered.wait(20)
        server.stop()
        sender.join(30)
    assert refusals[0].code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}


# Who may: as over HTTP


@every_signal
@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "Bearer wrong"),),
        (("authorization", KEY),),
        (("x-api-key", KEY + "x"),),
        (("x-api-key", ""),),
    ],
)
def test_with_a_key_set_nothing_is_taken_without_it(serve_grpc: Serve, signal: str, metadata: Any) -> None:
    server = serve_grpc(api_key=KEY)
    with calling(server.grpc_address) as caller:
        refusal = caller.refusal(signal, request_of(signal).SerializeToString(), metadata=metadata)
    assert refusal.code is grpc.StatusCode.UNAUTHENTICATED
    assert "TRACEHOLD_API_KEY" in refusal.text
    assert KEY not in refusal.text
    assert stored(server) == 0


@pytest.mark.parametrize(
    "metadata", [("authorization", f"Bearer {KEY}"), ("authorization", f"bearer {KEY}"), ("x-api-key", KEY)]
)
def test_either_way_to_show_the_key_is_taken(serve_grpc: Serve, metadata: tuple[str, str]) -> None:
    with calling(serve_grpc(api_key=KEY).grpc_address) as caller:
        assert caller.export("traces", request_of("traces").SerializeToString(), metadata=(metadata,)) == b""


def test_a_sender_without_the_key_is_refused_before_its_message_is_received(serve_grpc: Serve) -> None:
    server = serve_grpc(api_key=KEY)
    held = threading.Event()

    def message() -> Iterator[bytes]:
        held.wait(20)
        yield b""

    with calling(server.grpc_address) as caller:
        with pytest.raises(grpc.RpcError) as caught:
            caller.channel.stream_unary(METHODS["traces"])(message(), timeout=20)
        held.set()
    assert Refusal(caught.value).code is grpc.StatusCode.UNAUTHENTICATED


def test_a_call_without_a_message_is_refused(serve_grpc: Serve) -> None:
    with calling(serve_grpc().grpc_address) as caller, pytest.raises(grpc.RpcError) as caught:
        caller.channel.stream_unary(METHODS["traces"])(iter(()), timeout=20)
    assert Refusal(caught.value).code is grpc.StatusCode.INVALID_ARGUMENT


# Ports


def test_a_taken_port_is_named_with_its_flag_and_a_free_one(serve_grpc: Serve) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1 is taken .* try --grpc-port") as caught:
            serve_grpc(grpc_port=port)
    assert caught.value.setting == "grpc_port"


def test_a_second_collector_on_the_port_of_a_first_is_refused(serve_grpc: Serve, tmp_path: Any) -> None:
    first = serve_grpc()
    with pytest.raises(PortTakenError):
        serve_grpc(grpc_port=first.grpc_port, data_dir=tmp_path / "other")


def test_a_port_that_is_taken_at_the_last_moment_ends_the_start_and_names_its_flag(tmp_path: Any) -> None:
    server = CollectorServer(load_settings(port=0, grpc_port=0, data_dir=tmp_path / "data"))
    assert server._grpc_place is not None
    server._grpc_place.close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", server.grpc_port))
        taken.listen()
        with pytest.raises(CollectorError, match="another program took it just now; choose another --grpc-port"):
            server.start()
    server.close()


def test_without_grpc_nothing_listens(serve: Serve) -> None:
    server = serve(grpc=False)
    assert (server.grpc_port, server.grpc_address) == (None, None)


def test_fifty_senders_at_once_lose_and_double_nothing(serve_grpc: Serve) -> None:
    server = serve_grpc()
    request = [request_of("traces", 1000)]
    spans = list(request[0].resource_spans[0].scope_spans[0].spans)
    with calling(server.grpc_address) as caller:

        def send(place: int) -> None:
            body = request_of("traces", 0)
            body.resource_spans[0].scope_spans[0].spans.extend(spans[place * 20 : place * 20 + 20])
            caller.export("traces", body.SerializeToString())

        threads = [threading.Thread(target=send, args=(place,)) for place in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stored(server) == 1000
