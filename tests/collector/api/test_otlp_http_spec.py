"""The rules of the OTLP specification (1.x) that concern a receiver of OTLP/HTTP, each with its section.

Spans over HTTP are driven in `test_ingest.py`; here every rule is held for each of the three signals.
"""

from __future__ import annotations

import base64
import gzip
import json
import threading
import zlib
from collections.abc import Callable
from typing import Any

import duckdb
import httpx
import pytest
import zstandard
from google.protobuf.json_format import MessageToDict
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status
from support.otlp_requests import RESPONSES, request_of, response_of
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store.committer import Committer

Serve = Callable[..., CollectorServer]

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
SIGNALS = tuple(RESPONSES)
KEY = "k" * 32

every_signal = pytest.mark.parametrize("signal", SIGNALS)
stored_signals = pytest.mark.parametrize("signal", ["traces", "logs"])


def post(server: CollectorServer, signal: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/{signal}", content=body, headers=headers, timeout=30, trust_env=False)


def as_json(message: Any) -> bytes:
    """OTLP/JSON of a request: protobuf's JSON mapping with hex ids and numbers for enumerations."""
    document = MessageToDict(message, use_integers_for_enums=True)
    for resource in document.get("resourceSpans", []) + document.get("resourceLogs", []):
        for scope in resource.get("scopeSpans", []) + resource.get("scopeLogs", []):
            for item in scope.get("spans", []) + scope.get("logRecords", []):
                for key in ("traceId", "spanId"):
                    item[key] = base64.b64decode(item[key]).hex()
    return json.dumps(document).encode()


def rows(server: CollectorServer, columns: str = "event_id::VARCHAR") -> list[Any]:
    with server.database.cursor() as cursor:
        return cursor.execute(f"SELECT {columns} FROM events ORDER BY ALL").fetchall()  # noqa: S608 - of this file


# "OTLP/HTTP Request", "OTLP/HTTP Response"


@every_signal
def test_binary_protobuf_is_answered_in_binary_protobuf(serve: Serve, signal: str) -> None:
    answer = post(serve(), signal, request_of(signal).SerializeToString(), PROTOBUF)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    response_of(signal, answer.content)


@every_signal
@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"])
def test_json_is_answered_in_json(serve: Serve, signal: str, content_type: str) -> None:
    answer = post(serve(), signal, as_json(request_of(signal)), {"Content-Type": content_type})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert isinstance(answer.json(), dict)


@stored_signals
def test_full_success_leaves_partial_success_unset(serve: Serve, signal: str) -> None:  # "Full Success"
    server = serve()
    body = request_of(signal)
    assert not response_of(signal, post(server, signal, body.SerializeToString(), PROTOBUF).content).HasField(
        "partial_success"
    )
    assert post(server, signal, as_json(body), JSON).json() == {}


@stored_signals
def test_both_encodings_of_a_request_are_the_same_events(serve: Serve, signal: str) -> None:
    server = serve()
    body = request_of(signal, 3)
    post(server, signal, body.SerializeToString(), PROTOBUF)
    answer = post(server, signal, as_json(body), JSON)
    assert answer.headers["tracehold-duplicates"] == "3"
    assert len(rows(server)) == 3


@every_signal
@pytest.mark.parametrize("body", ["nothing", "empty message", "empty envelopes"])
def test_an_empty_request_is_a_success(serve: Serve, signal: str, body: str) -> None:  # "Full Success"
    server = serve()
    binary = {"nothing": b"", "empty message": b"", "empty envelopes": request_of(signal, 0).SerializeToString()}[body]
    text = {"nothing": b"", "empty message": b"{}", "empty envelopes": as_json(request_of(signal, 0))}[body]
    answer = post(server, signal, binary, PROTOBUF)
    assert answer.status_code == 200
    assert not response_of(signal, answer.content).HasField("partial_success")
    answer = post(server, signal, text, JSON)
    assert (answer.status_code, answer.json()) == (200, {})


# "Protocol Details"


@every_signal
@pytest.mark.parametrize("coding", ["none", "gzip", "deflate", "zstd"])
def test_no_compression_and_gzip_are_read_and_more(
    serve: Serve, signal: str, coding: str
) -> None:  # "Protocol Details"
    body = request_of(signal).SerializeToString()
    pack: dict[str, Callable[[bytes], bytes]] = {
        "none": bytes,
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "zstd": zstandard.compress,
    }
    coded = {} if coding == "none" else {"Content-Encoding": coding}
    assert post(serve(), signal, pack[coding](body), PROTOBUF | coded).status_code == 200


# "Partial Success"


def test_log_records_that_cannot_be_stored_are_counted_with_the_reason_and_the_others_kept(serve: Serve) -> None:
    server = serve()
    document = json.loads(as_json(request_of("logs", 3)))
    document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][1]["timeUnixNano"] = "yesterday"
    answer = post(server, "logs", json.dumps(document).encode(), JSON)
    assert answer.status_code == 200
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedLogRecords"] == "1"
    assert "resourceLogs[0].scopeLogs[0].logRecords[1]: timeUnixNano is not an integer" in partial["errorMessage"]
    assert len(rows(server)) == 2


def test_data_points_are_counted_as_not_stored_with_the_reason(serve: Serve) -> None:
    server = serve()
    answer = post(server, "metrics", request_of("metrics", 4).SerializeToString(), PROTOBUF)
    partial = response_of("metrics", answer.content).partial_success
    assert (answer.status_code, partial.rejected_data_points) == (200, 4)
    assert "not stored" in partial.error_message
    answer = post(server, "metrics", as_json(request_of("metrics", 4)), JSON)
    assert answer.json()["partialSuccess"]["rejectedDataPoints"] == "4"
    assert rows(server) == []
    assert "tracehold_metric_points_total 8.0" in httpx.get(f"{server.url}/metrics", trust_env=False).text


# "JSON Protobuf Encoding"


@every_signal
def test_unknown_fields_are_ignored(serve: Serve, signal: str) -> None:
    document = json.loads(as_json(request_of(signal, 1)))
    (resources,) = document.values()
    (scopes,) = [value for key, value in resources[0].items() if key.startswith("scope")]
    (items,) = [value for key, value in scopes[0].items() if isinstance(value, list)]
    for part in (document, resources[0], scopes[0], items[0]):
        part["fieldOfTheFuture"] = {"deep": [1, {"x": None}]}
    assert post(serve(), signal, json.dumps(document).encode(), JSON).status_code == 200


@pytest.mark.parametrize("trace_id", ["5B8EFFF798038103D269B633813FC60C", "5b8efff798038103d269b633813fc60c"])
def test_ids_are_hex_of_either_case(serve: Serve, trace_id: str) -> None:
    server = serve()
    document = json.loads(as_json(request_of("logs", 1)))
    document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["traceId"] = trace_id
    assert post(server, "logs", json.dumps(document).encode(), JSON).status_code == 200
    assert rows(server, "trace_id") == [("5b8efff798038103d269b633813fc60c",)]


def test_64_bit_integers_are_strings_or_numbers_and_enumerations_are_numbers(serve: Serve) -> None:
    server = serve()
    document = json.loads(as_json(request_of("logs", 1)))
    record = document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    for time in (record["timeUnixNano"], int(record["timeUnixNano"])):
        record |= {"timeUnixNano": time, "severityNumber": 17}
        assert post(server, "logs", json.dumps(document).encode(), JSON).status_code == 200
    assert rows(server, "status, started_at") == [("error", int(record["timeUnixNano"]))]


@every_signal
def test_names_are_in_lower_camel_case(serve: Serve, signal: str) -> None:
    field = {"traces": "resource_spans", "logs": "resource_logs", "metrics": "resource_metrics"}[signal]
    answer = post(serve(), signal, json.dumps({field: []}).encode(), JSON)
    assert answer.status_code == 400
    assert "lowerCamelCase" in answer.json()["message"]


# "Failures", "Bad Data"


@every_signal
def test_what_cannot_be_decoded_gets_400_with_a_status_that_describes_it(serve: Serve, signal: str) -> None:
    server = serve()
    answer = post(server, signal, b"\xff" * 40, PROTOBUF)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/x-protobuf")
    status = Status.FromString(answer.content)
    detail = BadRequest()
    assert status.details[0].Unpack(detail)
    assert status.message == detail.field_violations[0].description != ""
    answer = post(server, signal, b'{"resource', JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    assert answer.json()["details"][0]["fieldViolations"][0]["description"] == answer.json()["message"]


@every_signal
@pytest.mark.parametrize("other", SIGNALS)
def test_a_request_of_another_signal_is_refused_and_told_where_to_go(serve: Serve, signal: str, other: str) -> None:
    if other == signal:
        return
    server = serve()
    for body, headers in (
        (request_of(other).SerializeToString(), PROTOBUF),
        (as_json(request_of(other)), JSON),
    ):
        answer = post(server, signal, body, headers)
        assert answer.status_code == 400
        assert f"/v1/{other}".encode() in answer.content
    assert rows(server) == []


@every_signal
def test_another_content_type_gets_415_and_the_list(serve: Serve, signal: str) -> None:
    answer = post(serve(), signal, b"x", {"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert "application/x-protobuf, application/json" in Status.FromString(answer.content).message


@every_signal
def test_another_content_coding_gets_415_and_the_list(serve: Serve, signal: str) -> None:
    answer = post(serve(), signal, b"x", JSON | {"Content-Encoding": "br"})
    assert answer.status_code == 415
    assert "gzip, deflate or zstd" in answer.json()["message"]


@every_signal
def test_a_body_over_the_limit_gets_413_also_after_decompression(serve: Serve, signal: str) -> None:
    server = serve(max_body_bytes=2000)
    assert post(server, signal, b"x" * 2001, PROTOBUF).status_code == 413
    bomb = gzip.compress(b"\0" * 200_000_000)
    answer = post(serve(), signal, bomb, PROTOBUF | {"Content-Encoding": "gzip"})
    assert answer.status_code == 413
    assert "max_decompressed_bytes" in Status.FromString(answer.content).message


@every_signal
@pytest.mark.parametrize("headers", [PROTOBUF, JSON])
def test_every_refusal_has_a_status_for_its_body(serve: Serve, signal: str, headers: dict[str, str]) -> None:
    server = serve(api_key=KEY)
    url = f"{server.url}/v1/{signal}"
    unauthenticated = httpx.post(url, content=b"", headers=headers, trust_env=False)
    bearer = {"Authorization": f"Bearer {KEY}"}
    wrong_method = httpx.request("PUT", url, content=b"", headers=headers | bearer, trust_env=False)
    assert (unauthenticated.status_code, wrong_method.status_code) == (401, 405)
    for answer, code in ((unauthenticated, 16), (wrong_method, 12)):
        if headers is JSON:
            assert answer.json()["code"] == code
        else:
            assert Status.FromString(answer.content).code == code


def test_a_fault_of_ours_has_a_status_for_its_body_too(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve()

    def broken(*_: Any, **__: Any) -> None:
        raise LookupError("secret")

    monkeypatch.setattr("tracehold_collector.api.ingest.take_export", broken)
    answer = post(server, "logs", b"", PROTOBUF)
    assert answer.status_code == 500
    assert "LookupError" in Status.FromString(answer.content).message
    assert b"secret" not in answer.content


# "OTLP/HTTP Throttling", "Retryable Response Codes"


@stored_signals
def test_a_full_queue_answers_429_with_retry_after(serve: Serve, signal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(max_queued=1)
    entered, leave = threading.Event(), threading.Event()
    real = Committer.commit

    def slow(self: Any, batch: Any) -> Any:
        entered.set()
        leave.wait(20)
        return real(self, batch)

    monkeypatch.setattr(Committer, "commit", slow)
    body = request_of(signal, 5).SerializeToString()
    first = threading.Thread(target=post, args=(server, signal, body, PROTOBUF))
    first.start()
    assert entered.wait(20)
    answer = post(server, signal, body, PROTOBUF)
    leave.set()
    first.join()
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert Status.FromString(answer.content).message


@stored_signals
def test_a_store_that_cannot_write_answers_503_with_retry_after(
    serve: Serve, signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    monkeypatch.setattr(Committer, "commit", lambda *_: (_ for _ in ()).throw(duckdb.IOException("disk full")))
    answer = post(server, signal, request_of(signal).SerializeToString(), PROTOBUF)
    assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (503, True)


@every_signal
def test_a_stopping_collector_answers_503_with_retry_after(serve: Serve, signal: str) -> None:
    server = serve()
    server._intake.stopping = True
    answer = post(server, signal, request_of(signal).SerializeToString(), PROTOBUF)
    assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (503, True)


# "Duplicate Data"


@stored_signals
def test_a_resend_adds_nothing(serve: Serve, signal: str) -> None:
    server = serve()
    body = request_of(signal, 4).SerializeToString()
    counts = [post(server, signal, body, PROTOBUF).headers["tracehold-accepted"] for _ in range(2)]
    assert counts == ["4", "0"]
    assert len(rows(server)) == 4
