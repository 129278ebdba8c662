"""More rules of the OTLP specification (1.x): connections, retries, JSON of spans, later versions of the messages.

`docs/otlp.md` lists every rule that concerns a receiver, with its test.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import grpc
import httpx
import pytest
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from support.keys import bearer, make_key
from support.otlp import START, chat_spans
from support.otlp_grpc import METHODS, calling
from support.otlp_requests import RESPONSES, request_of, response_of
from tracehold_collector.api.errors import codes_of, retry_after_s
from tracehold_collector.core import errors
from tracehold_collector.core.settings import CollectorSettings, load_settings
from tracehold_collector.decode.otlp_signals import SIGNALS
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
every_signal = pytest.mark.parametrize("signal", tuple(RESPONSES))


def post(server: CollectorServer, path: str, body: Any, headers: dict[str, str]) -> httpx.Response:
    return httpx.post(server.url + path, content=body, headers=headers, timeout=30, trust_env=False)


def span(**fields: Any) -> dict[str, Any]:
    return {"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174", "name": "chat"} | fields


def spans(*of: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(of)}]}]}).encode()


def rows(server: CollectorServer, columns: str) -> list[Any]:
    with server.database.cursor() as cursor:
        return cursor.execute(f"SELECT {columns} FROM events ORDER BY ALL").fetchall()  # noqa: S608 - of this file


# "OTLP/gRPC Default Port", "OTLP/HTTP Default Port", "OTLP/HTTP Request"


def test_ports_and_paths_are_the_default_ones() -> None:
    fields = CollectorSettings.model_fields
    assert (fields["grpc_port"].default, fields["port"].default) == (4317, 4318)
    assert {signal.path for signal in SIGNALS} == {"/v1/traces", "/v1/metrics", "/v1/logs"}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
@every_signal
def test_another_method_than_post_gets_405_and_the_one_that_is_taken(serve: Serve, signal: str, method: str) -> None:
    answer = httpx.request(method, f"{serve().url}/v1/{signal}", headers=PROTOBUF, trust_env=False)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert "POST" in Status.FromString(answer.content).message


@pytest.mark.parametrize("path", ["/v1development/profiles", "/v2/traces", "/"])
def test_an_address_that_nobody_has_gets_404_with_a_status_for_its_body(serve: Serve, path: str) -> None:
    # "Failures": the body of every 4xx is a Status
    server = serve()
    answer = post(server, path, b"", PROTOBUF)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/x-protobuf")
    assert path in Status.FromString(answer.content).message
    assert post(server, path, b"{}", JSON).json()["error"]


# "OTLP/HTTP Connection", "OTLP/HTTP Concurrent Requests"


def test_a_connection_is_kept_for_both_encodings_and_all_signals_also_after_a_refusal(serve: Serve) -> None:
    server = serve()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        for _ in range(3):
            for signal in RESPONSES:
                for body, headers, status in (
                    (request_of(signal).SerializeToString(), PROTOBUF, 200),
                    (b"{}", JSON, 200),
                    (b"\xff" * 40, PROTOBUF, 400),
                ):
                    connection.request("POST", f"/v1/{signal}", body, headers)
                    answer = connection.getresponse()
                    answer.read()
                    assert (answer.status, answer.getheader("content-type")) == (status, headers["Content-Type"])
        assert len(server._server.server_state.connections) == 1


@every_signal
def test_a_body_of_no_stated_length_is_read(serve: Serve, signal: str) -> None:
    def pieces() -> Iterator[bytes]:
        body = request_of(signal).SerializeToString()
        for place in range(0, len(body), 7):
            yield body[place : place + 7]

    answer = post(serve(), f"/v1/{signal}", pieces(), PROTOBUF)
    assert answer.status_code == 200
    response_of(signal, answer.content)


@every_signal
def test_requests_of_many_connections_are_each_answered(serve: Serve, signal: str) -> None:
    server = serve()
    answers: list[int] = []

    def send() -> None:
        answers.append(post(server, f"/v1/{signal}", request_of(signal).SerializeToString(), PROTOBUF).status_code)

    senders = [threading.Thread(target=send) for _ in range(20)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert answers == [200] * 20


# "OTLP/gRPC Concurrent Requests"


def test_calls_on_one_connection_are_answered_without_waiting_for_each_other(serve: Serve) -> None:
    server = serve(grpc=True)
    held = threading.Event()

    def slow() -> Iterator[bytes]:
        held.wait(60)
        yield request_of("logs").SerializeToString()

    with calling(server.grpc_address) as caller:
        first = caller.channel.stream_unary(METHODS["logs"]).future(slow(), timeout=60)
        later = [
            caller.channel.unary_unary(METHODS["traces"]).future(chat_spans(n, 1).SerializeToString(), timeout=60)
            for n in range(50)
        ]
        assert [call.result() for call in later] == [b""] * 50
        assert not first.done()
        held.set()
        assert first.result() == b""


# "Retryable Response Codes", "Failures": who may come back is told when, who may not is not

RETRYABLE_HTTP = {429, 502, 503, 504}
RETRYABLE_GRPC = {1, 4, 10, 11, 14, 15}
RESOURCE_EXHAUSTED = 8

ERRORS = [
    errors.BadBodyError("x"),
    errors.UnsupportedCodingError("x"),
    errors.TooLargeError("x"),
    errors.QueueFullError(1),
    errors.ThrottledError("x", 5),
    errors.StalledError("x"),
    errors.StoreError("x"),
    errors.StoreLockedError("x"),
    errors.QueryError("x"),
    errors.CollectorError("x"),
    LookupError("x"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_exactly_those_errors_that_pass_are_retryable_over_both_transports(error: Exception) -> None:
    status, code = codes_of(error)
    wait_s = retry_after_s(error)
    assert (status in RETRYABLE_HTTP) == (wait_s is not None)
    # RESOURCE_EXHAUSTED is retryable when, and only when, it comes with RetryInfo.
    assert (code in RETRYABLE_GRPC or (code == RESOURCE_EXHAUSTED and wait_s is not None)) == (wait_s is not None)
    assert wait_s is None or 1 <= wait_s <= 3_600


# "JSON Protobuf Encoding", of spans


@given(parent=st.sampled_from(["EEE19B7EC3C1B173", "eee19b7ec3c1b173", "eEe19b7Ec3c1b173"]))
def test_ids_of_spans_are_hex_of_either_case(serve_once: CollectorServer, parent: str) -> None:
    link = {"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B175"}
    answer = post(serve_once, "/v1/traces", spans(span(parentSpanId=parent, links=[link])), JSON)
    assert answer.json() == {}
    assert rows(serve_once, "trace_id, span_id, parent_span_id") == [
        ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174", "eee19b7ec3c1b173")
    ]
    with serve_once.database.cursor() as cursor:
        (event_id,) = cursor.execute("SELECT event_id::VARCHAR FROM events").fetchone()
    event = httpx.get(f"{serve_once.url}/api/v1/events/{event_id}", trust_env=False).json()
    assert "eee19b7ec3c1b175" in json.dumps(event["content"])


@pytest.fixture(scope="module")
def serve_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorServer]:
    folder = tmp_path_factory.mktemp("otlp") / "data"
    with CollectorServer(load_settings(port=0, grpc=False, data_dir=folder)) as server:
        yield server


def test_ids_in_base64_are_refused_and_the_message_says_so(serve: Serve) -> None:  # FR-11
    answer = post(serve(), "/v1/traces", spans(span(traceId="W47/95gDgQPSabYzgT/GDA==")), JSON)
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "base64" in partial["errorMessage"]


@pytest.mark.parametrize(
    ("kind", "code"), [(3, 2), ("SPAN_KIND_CLIENT", "STATUS_CODE_ERROR"), (3, "STATUS_CODE_ERROR")]
)
def test_enumerations_are_numbers_and_names_from_senders_that_break_the_rule_are_understood(
    serve: Serve, kind: Any, code: Any
) -> None:
    server = serve()
    assert post(server, "/v1/traces", spans(span(kind=kind, status={"code": code})), JSON).json() == {}
    assert rows(server, "status") == [("error",)]


def test_64_bit_integers_of_spans_are_strings_or_numbers(serve: Serve) -> None:
    server = serve()

    def tokens(value: Any) -> dict[str, Any]:
        return {"key": "gen_ai.usage.input_tokens", "value": {"intValue": value}}

    chat = {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}
    texts = span(startTimeUnixNano=str(START), endTimeUnixNano=str(START + 5), attributes=[chat, tokens("7")])
    numbers = span(startTimeUnixNano=START, endTimeUnixNano=START + 5, attributes=[chat, tokens(7)])
    assert post(server, "/v1/traces", spans(texts, numbers | {"spanId": "1" * 16}), JSON).json() == {}
    assert rows(server, "started_at, duration_ns, input_tokens") == [(START, 5, 7)] * 2


@every_signal
def test_null_is_an_absent_field(serve: Serve, signal: str) -> None:  # proto3's JSON mapping
    field = {"traces": "resourceSpans", "logs": "resourceLogs", "metrics": "resourceMetrics"}[signal]
    server = serve()
    for document in ({field: None}, {field: [{"resource": None}]}):
        answer = post(server, f"/v1/{signal}", json.dumps(document).encode(), JSON)
        assert (answer.status_code, answer.json()) == (200, {})


# "Future Versions and Interoperability"


@every_signal
def test_fields_of_later_versions_are_ignored_in_binary_too(serve: Serve, signal: str) -> None:
    # Field 1000, a length-delimited text, and field 1001, a number: at the end of the message, as protobuf allows.
    future = b"\xc2\x3e\x06future" + b"\xc8\x3e\x2a"
    server = serve(grpc=True)
    body = request_of(signal).SerializeToString() + future
    answer = post(server, f"/v1/{signal}", body, PROTOBUF)
    assert answer.status_code == 200
    with calling(server.grpc_address) as caller:
        assert response_of(signal, caller.export(signal, body)) == response_of(signal, answer.content)


# "Partial Success"


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_rejected_log_records_are_counted_over_both_transports(serve: Serve, way: str, tmp_path: Any) -> None:
    key = make_key(tmp_path / "data", "ingest", tenants=("acme", "beta"))
    server = serve(grpc=True)
    request = request_of("logs", 2)
    other = request.resource_logs.add()
    attribute = other.resource.attributes.add()
    attribute.key, attribute.value.string_value = "tracehold.tenant", "somebody"
    other.scope_logs.add().log_records.add().body.string_value = "x"
    body = request.SerializeToString()
    if way == "http":
        answer = post(server, "/v1/logs", body, PROTOBUF | bearer(key)).content
    else:
        with calling(server.grpc_address) as caller:
            answer = caller.export("logs", body, metadata=(("x-api-key", key),))
    partial = response_of("logs", answer).partial_success
    assert partial.rejected_log_records == 1
    assert "tenant" in partial.error_message
    assert len(rows(server, "event_id")) == 2


def test_grpc_status_codes_are_those_of_the_table() -> None:
    # The numbers above are names in the specification's table.
    by_number = {status.value[0]: status for status in grpc.StatusCode}
    assert {by_number[number].name for number in RETRYABLE_GRPC} == {
        "CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS",
    }  # fmt: skip
