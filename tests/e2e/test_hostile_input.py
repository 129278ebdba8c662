"""What no sender can do to a collector, over real HTTP: break it, blind it, or make it lose a neighbour's events."""

from __future__ import annotations

import copy
import gzip
import json
import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from support.otlp import chat_spans
from support.processes import COMMAND, clean_environment
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
NDJSON = "application/x-ndjson"

WITHOUT_PARAMETERS = (
    "overview", "runs", "spend_by_model_day", "latency", "facets", "tools", "unmapped", "gate_denials",
)  # fmt: skip
OF_A_RUN = ("run", "run_events", "waterfall")


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorServer]:
    """One collector for all tests here: whatever one of them sends, the next one still gets answers."""
    settings = load_settings(port=0, grpc=False, data_dir=tmp_path_factory.mktemp("hostile") / "data")
    with CollectorServer(settings) as server:
        yield server


@pytest.fixture
def http(collector: CollectorServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=collector.url, trust_env=False, timeout=60) as client:
        yield client
        assert client.get("/readyz").is_success, "the collector is ready after whatever was sent"


def send(http: httpx.Client, body: bytes | str | Any, content_type: str = JSON, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes | str) else json.dumps(body)
    path = "/v1/traces" if content_type == PROTOBUF else "/v1/events"
    return http.post(path, content=content, headers={"Content-Type": content_type, **headers})


def rows(http: httpx.Client, name: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = http.get(f"/api/v1/queries/{name}", params=parameters)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return [dict(zip(body["columns"], row, strict=True)) for row in body["rows"]]


def talk(collector: CollectorServer, request: bytes) -> bytes:
    """Send bytes as they are and return all that comes back until the collector closes."""
    with socket.create_connection(("127.0.0.1", collector.port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


def post(body: bytes, *headers: bytes) -> bytes:
    lines = [b"POST /v1/events HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * 100_000, id="a hundred thousand open brackets"),
        pytest.param(b'{"type":"x","a":' + b"[" * 5_000 + b"]" * 5_000 + b"}", id="deep and valid"),
        pytest.param(b'{"type":"x","n":NaN,"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}", id="deep beside a NaN"),
        pytest.param(b'[{"type":"x"', id="cut off"),
        pytest.param(b"null", id="null"),
        pytest.param(b"\x00" * 1000, id="NULs"),
        pytest.param('{"type":"x"}'.encode("utf-16"), id="UTF-16"),
    ],
)
def test_a_body_that_is_no_event_is_refused_with_400(http: httpx.Client, body: bytes) -> None:
    answer = send(http, body)

    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_number_no_column_holds_is_kept_as_text(http: httpx.Client, name: str) -> None:  # FR-17
    body = f'{{"type":"llm_call","run_id":"number-{name}","cost_usd":{name},"step_index":{name},"x":{name}}}'

    assert send(http, body).json()["accepted"] == 1

    (run,) = rows(http, "run", run_id=f"number-{name}")
    assert run["cost_usd"] is None


def test_half_an_emoji_and_a_nul_in_text_are_stored_and_read_again(http: httpx.Client) -> None:  # FR-15
    body = b'{"type":"tool_call","run_id":"odd-text","tool":"t","text":"\\ud83d \\u0000 \xff"}'

    assert send(http, body).json()["accepted"] == 1

    (event,) = rows(http, "run_events", run_id="odd-text")
    content = http.get(f"/api/v1/events/{event['event_id']}").json()["content"]
    assert content["text"] == "\ufffd \x00 \ufffd"


def test_token_counts_near_two_to_the_63_leave_every_sum_readable(http: httpx.Client) -> None:  # DEC-13
    for tokens in (2**63 - 1, 2**62, 10**12):
        usage = {"input_tokens": tokens, "output_tokens": tokens, "cached_tokens": tokens}
        events = [{"type": "llm_call", "run_id": "tokens", "model": "m", "usage": usage, "n": n} for n in range(50)]
        assert send(http, events).json()["accepted"] == 50

    assert rows(http, "spend", by="model")
    for name in WITHOUT_PARAMETERS:
        rows(http, name)


@pytest.mark.parametrize(
    "run_id",
    [
        "a\x00b",
        "%00",
        "../..",
        "a/b?c=d#e&f=g",
        "\u0440\u0443\u0301-\U0001f4a5",
        "'; DROP TABLE events; --",
        " ",
        "$run_id",
    ],
)
def test_a_hostile_run_id_is_a_run_like_any_other(http: httpx.Client, run_id: str) -> None:
    body = {"type": "tool_call", "run_id": run_id, "tool": "t", "event_id": f"of {run_id}"}
    assert send(http, body).json()["accepted"] == 1

    for name in OF_A_RUN:
        http.get(f"/api/v1/queries/{name}", params={"run_id": run_id}).raise_for_status()
    assert rows(http, "overview")[0]["events"] >= 1


@pytest.mark.parametrize("path", ["/api/v1/events/%00", "/api/v1/events/%ff", "/api/v1/queries/%ff%00", "/%ff"])
def test_a_hostile_path_gets_a_plain_refusal(collector: CollectorServer, path: str) -> None:
    answer = talk(collector, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404"))


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": "9" * 5000},
        {"limit": "-1"},
        {"limit": ["1", "2"]},
        {"since": "0001-01-01T00:00:00+14:00"},
        {"sort": "'; DROP TABLE events; --"},
        {"tenants": "other"},
        {"nonsense\x00": "1"},
    ],
)
def test_a_parameter_that_cannot_be_used_gets_400(http: httpx.Client, parameters: dict[str, Any]) -> None:
    assert http.get("/api/v1/queries/runs", params=parameters).status_code == 400


@pytest.mark.parametrize("parameters", [{"offset": str(2**63 - 1)}, {"search": "\x00%_\\"}, {"search": "x" * 30_000}])
def test_an_absurd_parameter_that_can_be_used_is_answered(http: httpx.Client, parameters: dict[str, str]) -> None:
    assert rows(http, "runs", **parameters) == []


def test_ids_that_collide_between_runs_keep_the_first_and_count_the_second(http: httpx.Client) -> None:
    same = "0123456789abcdef0123456789abcdef"
    first = send(http, {"type": "tool_call", "tool": "t", "run_id": "collide 1", "event_id": same}).json()
    second = send(http, {"type": "tool_call", "tool": "u", "run_id": "collide 2", "event_id": same.upper()}).json()

    assert (first["accepted"], second["accepted"], second["duplicates"]) == (1, 0, 1)
    assert rows(http, "run", run_id="collide 2") == []


def test_ten_thousand_runs_in_one_request_are_ten_thousand_runs(http: httpx.Client) -> None:
    lines = "\n".join(f'{{"type":"tool_call","tool":"t","agent":"crowd","run_id":"crowd {n}"}}' for n in range(10_000))

    assert send(http, lines, NDJSON).json()["accepted"] == 10_000

    assert rows(http, "runs", agent="crowd", limit=1)[0]["total"] == 10_000


def test_a_chain_of_ten_thousand_spans_is_drawn_to_its_end(http: httpx.Client) -> None:
    lines = "\n".join(
        json.dumps(
            {
                "type": "tool_call", "tool": "t", "run_id": "chain", "started_at_ns": 1_780_000_000_000_000_000 + n,
                "span_id": f"{n + 1:016x}", "parent_span_id": f"{n:016x}",
            }
        )
        for n in range(10_000)
    )  # fmt: skip
    assert send(http, lines, NDJSON).json()["accepted"] == 10_000

    (deepest,) = rows(http, "waterfall", run_id="chain", limit=1, offset=9_999)
    assert deepest["depth"] == 9_999


def test_parents_that_form_a_loop_are_shown_without_a_depth(http: httpx.Client) -> None:
    events = [
        {"type": "tool_call", "tool": "t", "run_id": "loop", "span_id": f"{n:016x}", "parent_span_id": f"{3 - n:016x}"}
        for n in (1, 2)
    ]
    send(http, events)

    assert [row["depth"] for row in rows(http, "waterfall", run_id="loop")] == [None, None]


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(http: httpx.Client) -> None:  # FR-13
    bomb = gzip.compress(b" " * (129 * 1024 * 1024), compresslevel=1)

    answer = send(http, bomb, **{"Content-Encoding": "gzip"})

    assert answer.status_code == 413


def test_protobuf_with_flipped_bytes_never_fails_the_collector(http: httpx.Client) -> None:
    chance = random.Random(20261129)
    for number in range(200):
        body = bytearray(chat_spans(500_000 + number * 3, 3).SerializeToString())
        for _ in range(chance.randrange(1, 6)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        assert send(http, bytes(body), PROTOBUF).status_code in {200, 400}
    rows(http, "overview")


def test_protobuf_cut_off_anywhere_is_refused(http: httpx.Client) -> None:
    whole = chat_spans(600_000, 3).SerializeToString()
    for length in range(1, len(whole), 11):
        assert send(http, whole[:length], PROTOBUF).status_code == 400


def test_any_value_in_any_place_of_an_otlp_request_is_taken_or_refused(http: httpx.Client) -> None:  # FR-11
    base = MessageToDict(chat_spans(700_000, 1))
    for path in _paths(base):
        for value in (None, -1, 1e308, 2**70, "", [], {}, [None], True, "9" * 400):
            body = _replaced(base, path, value)
            answer = http.post("/v1/traces", content=json.dumps(body), headers={"Content-Type": JSON})
            assert answer.status_code in {200, 400}, (path, value, answer.text)
    rows(http, "overview")


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(b"{}", [b"Content-Length: -5"], id="negative length"),
        pytest.param(b"{}", [b"Content-Length: 99999999999999999999999"], id="length beyond 64 bits"),
        pytest.param(b"0\r\n\r\n", [b"Content-Length: 4", b"Transfer-Encoding: chunked"], id="length and chunks"),
        pytest.param(b"zz\r\n", [b"Transfer-Encoding: chunked"], id="a chunk size that is none"),
        pytest.param(b"{}", [b"Content-Length: 1", b"Content-Length: 2"], id="two lengths"),
    ],
)
def test_contradictory_framing_is_refused_and_the_connection_closed(
    collector: CollectorServer, body: bytes, headers: list[bytes]
) -> None:
    answer = talk(collector, post(body, *headers))

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_an_announced_terabyte_is_refused_without_waiting_for_it(collector: CollectorServer) -> None:
    assert talk(collector, post(b"{", b"Content-Length: 1099511627776", b"Connection: close")).startswith(
        b"HTTP/1.1 413"
    )


def test_a_body_in_chunks_of_one_byte_is_one_body(collector: CollectorServer) -> None:
    text = b'{"type":"x","run_id":"bytes"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in text) + b"0\r\n\r\n"

    answer = talk(collector, post(chunks, b"Transfer-Encoding: chunked", b"Connection: close"))

    assert b'"accepted":1' in answer


def test_pipelined_requests_are_answered_one_by_one(collector: CollectorServer) -> None:
    bodies = [b'{"type":"x","run_id":"pipe","n":%d}' % number for number in range(3)]
    requests = [post(body, b"Content-Length: %d" % len(body)) for body in bodies]
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answer = talk(collector, b"".join(requests) + last)

    assert answer.count(b'"accepted":1') == 3
    assert answer.endswith(b"ok\n")


@pytest.mark.parametrize("method", ["HEAD", "PUT", "OPTIONS", "DELETE", "PATCH", "GET"])
def test_ingest_takes_nothing_but_post(http: httpx.Client, method: str) -> None:
    assert http.request(method, "/v1/events", headers={"Content-Type": JSON, "Origin": "http://x"}).status_code == 405


def test_a_bad_line_costs_its_neighbours_nothing(http: httpx.Client) -> None:
    lines = b'{"type":"x","run_id":"lines","n":1}\n\xff\xfe\n[]\n{"type":5}\n{"type":"x","run_id":"lines","n":2}\n{'

    answer = send(http, lines, NDJSON).json()

    assert (answer["accepted"], answer["rejected_count"]) == (2, 4)
    assert len(rows(http, "run_events", run_id="lines")) == 2


def test_a_refusal_never_repeats_what_was_sent(http: httpx.Client) -> None:
    words = "the patient said"
    for body in (f'[{{"type":"x","text":"{words}"', f'{{"type":[],"text":"{words}"}}', f'"{words}"'):
        assert words not in send(http, body).text


def test_a_second_collector_on_the_same_folder_is_refused_and_harms_nothing(
    collector: CollectorServer, http: httpx.Client, tmp_path: Path
) -> None:  # FR-51
    arguments = [COMMAND, "collect", "--port", "0", "--data-dir", str(collector.settings.data_dir)]
    ended = subprocess.run(
        arguments, env=clean_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 1
    assert "is open in another process" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert send(http, {"type": "x", "run_id": "after the second"}).json()["accepted"] == 1


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from _paths(value[key], (*path, key))


def _replaced(base: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    result = copy.deepcopy(base)
    place = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return result
