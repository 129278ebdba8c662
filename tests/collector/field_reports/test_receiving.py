"""Receiving OTLP: what people reported of other receivers."""

from __future__ import annotations

import base64
import gzip
import socket
import zlib
from collections.abc import Callable

import pytest
import zstandard
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from support.otlp import chat_spans
from support.world import TRACE, World, span
from tracehold_collector.serve import CollectorServer

PROTOBUF = "application/x-protobuf"


def kinds(world: World) -> list[object]:
    return [(world.content(n) or {}).get("span_kind") for n in (0, 1)]


def test_fr_11_a_span_without_kind_is_stored_and_a_bad_id_is_told_in_json(world: World) -> None:  # FR-11
    answer = world.send(span(0), span(1, kind=None), span(2, traceId="xyz"))
    partial = answer["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "spans[2]" in partial["errorMessage"]
    assert "32" in partial["errorMessage"]
    assert kinds(world) == [1, None]


def test_fr_11_the_same_in_protobuf(world: World) -> None:  # FR-11
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for n, (trace, kind) in enumerate([(TRACE, 1), (TRACE, 0), ("78797a", 1)]):
        item = scope.spans.add(name="work", kind=kind, start_time_unix_nano=10**18, end_time_unix_nano=10**18 + 5)
        item.trace_id, item.span_id = bytes.fromhex(trace), (n + 1).to_bytes(8, "big")
    answer = world.post(request.SerializeToString(), PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 1)
    assert "spans[2]" in partial.error_message
    assert "it must be 16" in partial.error_message
    assert kinds(world) == [1, None]


def test_fr_11_an_id_in_base64_is_refused_and_called_that(world: World) -> None:  # FR-11
    answer = world.send(span(0), span(1, traceId=base64.b64encode(bytes.fromhex(TRACE)).decode()))
    assert answer["partialSuccess"]["rejectedSpans"] == "1"
    assert "base64" in answer["partialSuccess"]["errorMessage"]


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("coding", CODINGS)
def test_fr_13_one_export_in_any_coding_gives_equal_rows(coding: str, world: World) -> None:  # FR-13
    body = chat_spans(0, 10).SerializeToString()
    assert world.post(body, PROTOBUF).status_code == 200
    plain = world.events(f"{1:032x}")
    before = world.ask.row("overview")["events"]
    answer = world.post(CODINGS[coding](body), PROTOBUF, content_encoding=coding)
    assert answer.status_code == 200
    # The same ids: had one row come out otherwise, it would be new.
    assert (world.ask.row("overview")["events"], world.events(f"{1:032x}")) == (before, plain)


def test_fr_13_codings_are_read_into_equal_rows_each_in_a_store_of_its_own(
    serve: Callable[..., CollectorServer], tmp_path_factory: pytest.TempPathFactory
) -> None:  # FR-13
    rows = []
    for coding, encode in CODINGS.items():
        world = World(serve(data_dir=tmp_path_factory.mktemp(coding)))
        answer = world.post(encode(chat_spans(0, 3).SerializeToString()), PROTOBUF, content_encoding=coding)
        assert answer.status_code == 200
        rows.append(list(world.events(f"{1:032x}").values()))
        world.close()
    assert len(rows[0]) == 3
    assert all(each == rows[0] for each in rows)


@pytest.mark.parametrize(
    ("body", "coding", "status", "says"),
    [
        (chat_spans(0, 1).SerializeToString(), "br", 415, "gzip"),
        (chat_spans(0, 1).SerializeToString(), "gzip", 400, "gzip"),
        (gzip.compress(chat_spans(0, 1).SerializeToString())[:-12], "gzip", 400, "gzip"),
        (gzip.compress(chat_spans(0, 1).SerializeToString()), "zstd", 400, "zstd"),
    ],
    ids=["unknown coding", "header without gzip", "cut gzip", "wrong header"],
)
def test_fr_13_a_coding_that_is_not_what_it_says_is_told(
    body: bytes, coding: str, status: int, says: str, world: World
) -> None:  # FR-13
    answer = world.post(body, PROTOBUF, content_encoding=coding)
    assert answer.status_code == status
    assert says.encode() in answer.content
    assert world.ask.row("overview")["events"] == 0


def test_fr_13_gzip_without_its_header_is_refused_and_the_header_is_named(world: World) -> None:  # FR-13
    answer = world.post(gzip.compress(chat_spans(0, 1).SerializeToString()), PROTOBUF)
    assert answer.status_code == 400
    assert b"gzip" in answer.content


def test_fr_25_a_batch_whose_answer_was_never_seen_is_stored_once_also_a_day_later(
    serve: Callable[..., CollectorServer],
) -> None:  # FR-25
    first = serve()
    world = World(first)
    body = chat_spans(0, 40).SerializeToString()
    with socket.create_connection(("127.0.0.1", first.port)) as cut:
        lines = [
            "POST /v1/traces HTTP/1.1",
            f"Host: 127.0.0.1:{first.port}",
            f"Content-Type: {PROTOBUF}",
            f"Content-Length: {len(body)}",
        ]
        head = "\r\n".join([*lines, "\r\n"])
        cut.sendall(head.encode() + body)
        cut.recv(1)  # committed; the rest of the answer is never read
    sums = ("events", "llm_calls", "input_tokens")
    before = {name: world.ask.row("overview")[name] for name in sums}
    assert before == {"events": 40, "llm_calls": 40, "input_tokens": 280}
    again = world.post(body, PROTOBUF)
    assert (again.status_code, again.content) == (200, b"")
    world.close()
    first.close()
    # What a day is to a store: another process, and nothing of the first one in memory.
    later = World(serve())
    again = later.post(body, PROTOBUF)
    assert (again.status_code, again.content) == (200, b"")
    assert {name: later.ask.row("overview")[name] for name in sums} == before
    assert sum(row["events"] for row in later.ask.rows("runs")) == 40
    later.close()
