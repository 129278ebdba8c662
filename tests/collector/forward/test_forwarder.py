"""The Forwarder against a real HTTP receiver that makes trouble."""

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import structlog.testing
from tracehold.core.errors import ConfigurationError
from tracehold_collector.forward import Forwarder

SECRET = "Bearer " + "made-up-" + "credential"


@pytest.fixture
def forwarder_to():
    made = []

    def make(endpoint, **options):
        made.append(Forwarder(endpoint, **{"timeout_s": 5.0, **options}))
        return made[-1]

    yield make
    for forwarder in made:
        forwarder.close(0.0)


@pytest.fixture
def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def counted(**counts):
    return {"sent": 0, "rejected": 0, "skipped": 0, "dropped": 0, "retries": 0, "queued": 0, **counts}


def poll(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        threading.Event().wait(0.01)


def test_what_is_submitted_arrives_once(receiver, forwarder_to, make_record):
    forwarder = forwarder_to(receiver.url)
    forwarder.submit([make_record(number) for number in range(1, 4)])
    assert forwarder.force_flush(20)
    assert [span.name for span in receiver.spans()] == [f"execute_tool tool{number}" for number in range(1, 4)]
    assert forwarder.stats() == counted(sent=3)


@pytest.mark.parametrize(
    ("suffix", "path"),
    [
        ("", "/v1/traces"),
        ("/", "/v1/traces"),
        ("/v1/traces", "/v1/traces"),
        ("/v1/traces/", "/v1/traces"),
        ("/otlp", "/otlp/v1/traces"),
        ("/otlp?token=x", "/otlp/v1/traces?token=x"),
    ],
)
def test_the_traces_path_is_appended_when_it_is_missing(receiver, forwarder_to, make_record, suffix, path):
    forwarder = forwarder_to(receiver.url + suffix)
    forwarder.submit([make_record()])
    assert forwarder.force_flush(20)
    assert receiver.requests[0][0] == path
    assert "token" not in forwarder.endpoint


def test_requests_are_protobuf_and_carry_the_given_headers(receiver, forwarder_to, make_record):
    forwarder = forwarder_to(receiver.url, headers={"Authorization": SECRET})
    forwarder.submit([make_record()])
    assert forwarder.force_flush(20)
    headers = receiver.requests[0][1]
    assert (headers["Content-Type"], headers["Authorization"]) == ("application/x-protobuf", SECRET)


def test_opening_halves_are_counted_and_not_sent(receiver, forwarder_to, make_record):
    forwarder = forwarder_to(receiver.url)
    forwarder.submit([make_record(1, status="started"), make_record(2)])
    assert forwarder.force_flush(20)
    assert forwarder.stats() == counted(sent=1, skipped=1)


def test_records_are_sent_in_batches(receiver, forwarder_to, make_record):
    receiver.hold()
    forwarder = forwarder_to(receiver.url, max_batch_records=2)
    forwarder.submit([make_record(1)])
    receiver.wait_for_requests(1)
    forwarder.submit([make_record(number) for number in range(2, 7)])
    receiver.release()
    assert forwarder.force_flush(20)
    sizes = [len(r.resource_spans[0].scope_spans[0].spans) for r in receiver.parsed()]
    assert sizes == [1, 2, 2, 1]


def test_submitting_never_waits_for_a_receiver_that_hangs(receiver, forwarder_to, make_record):
    receiver.hold()
    forwarder = forwarder_to(receiver.url, max_queue_records=10)
    for number in range(1, 101):
        forwarder.submit([make_record(number)])
    receiver.wait_for_requests(1)
    stats = forwarder.stats()
    assert stats["queued"] + stats["dropped"] == 100
    assert stats["queued"] <= 10 + 1 + 10  # at most one batch under way beside a full queue


def test_what_the_queue_cannot_hold_is_dropped_counted_and_logged_once(closed_port, forwarder_to, make_record):
    with structlog.testing.capture_logs() as logs:
        forwarder = forwarder_to(f"http://127.0.0.1:{closed_port}", max_queue_records=5, max_batch_records=1)
        for number in range(1, 31):
            forwarder.submit([make_record(number)])
        forwarder.close(0.0)
    assert forwarder.stats()["dropped"] == 30
    assert [log["reason"] for log in logs if log["event"] == "forward.dropped"] == [
        "the queue is full",
        "closed",
    ]


def test_the_queue_is_bounded_in_bytes_too(closed_port, forwarder_to, make_record):
    forwarder = forwarder_to(f"http://127.0.0.1:{closed_port}", max_queue_bytes=100_000)
    forwarder.submit([make_record(number, content={"result": "x" * 30_000}) for number in range(1, 11)])
    assert forwarder.stats()["dropped"] == 7


def test_a_receiver_that_is_down_is_tried_until_it_is_there(
    closed_port, forwarder_to, make_record, serve_on, make_receiver
):
    with structlog.testing.capture_logs() as logs:
        forwarder = forwarder_to(f"http://127.0.0.1:{closed_port}", give_up_after_s=0.0)
        forwarder.submit([make_record()])
        poll(lambda: forwarder.stats()["retries"])
        with serve_on(make_receiver(), closed_port) as late:
            assert forwarder.force_flush(30)
            assert len(late.spans()) == 1
    assert forwarder.stats()["sent"] == 1
    assert [log["event"] for log in logs] == ["forward.waiting", "forward.recovered"]


def test_a_batch_is_sent_again_no_sooner_than_the_receiver_asked(receiver, forwarder_to, make_record):  # FR-05
    receiver.script = [(429, {"Retry-After": "1"}, b"")]
    forwarder = forwarder_to(receiver.url)
    began = time.monotonic()
    forwarder.submit([make_record()])
    assert forwarder.force_flush(20)
    assert time.monotonic() - began >= 1.0
    assert forwarder.stats() == counted(sent=1, retries=1)


def test_a_retry_after_that_is_a_date_is_understood(receiver, forwarder_to, make_record):  # FR-05
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    receiver.script = [(503, {"Retry-After": past}, b"")]
    forwarder = forwarder_to(receiver.url)
    forwarder.submit([make_record()])
    assert forwarder.force_flush(20)
    assert forwarder.stats() == counted(sent=1, retries=1)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_wait_beyond_the_deadline_ends_the_attempt(receiver, forwarder_to, make_record, status):  # FR-05
    receiver.script = [(status, {"Retry-After": "3600"}, b"")]
    forwarder = forwarder_to(receiver.url, give_up_after_s=60)
    forwarder.submit([make_record(1)])
    assert forwarder.force_flush(20)
    forwarder.submit([make_record(2)])
    assert forwarder.force_flush(20)
    assert forwarder.stats() == counted(sent=1, dropped=1)


@pytest.mark.parametrize("status", [400, 401, 404, 500, 301])
def test_what_is_refused_is_not_sent_again_and_counted(receiver, forwarder_to, make_record, status):  # FR-05
    receiver.script = [(status, {}, b"no")]
    forwarder = forwarder_to(receiver.url)
    with structlog.testing.capture_logs() as logs:
        forwarder.submit([make_record(1)])
        assert forwarder.force_flush(20)
        poll(lambda: logs)
    forwarder.submit([make_record(2)])
    assert forwarder.force_flush(20)
    assert len(receiver.requests) == 2
    assert forwarder.stats() == counted(sent=1, dropped=1)
    assert [(log["event"], log["reason"]) for log in logs] == [("forward.dropped", f"HTTP {status}")]


def test_what_is_too_large_goes_in_halves(receiver, forwarder_to, make_record):
    receiver.script = [(413, {}, b""), (413, {}, b""), (413, {}, b"")]
    forwarder = forwarder_to(receiver.url)
    forwarder.submit([make_record(number) for number in range(1, 5)])
    assert forwarder.force_flush(20)
    assert forwarder.stats() == counted(sent=3, dropped=1)


def test_spans_the_receiver_threw_away_are_counted(receiver, forwarder_to, make_record, rejecting):
    receiver.script = [(200, {}, rejecting(2))]
    forwarder = forwarder_to(receiver.url)
    forwarder.submit([make_record(number) for number in range(1, 4)])
    assert forwarder.force_flush(20)
    assert forwarder.stats() == counted(sent=3, rejected=2)


@pytest.mark.parametrize("body", [b"", b"OK", b'{"partialSuccess":{}}', b"\xff" * 50])
def test_an_answer_in_another_form_is_taken_as_success(receiver, forwarder_to, make_record, body):
    receiver.script = [(200, {}, body)]
    forwarder = forwarder_to(receiver.url)
    forwarder.submit([make_record()])
    assert forwarder.force_flush(20)
    assert forwarder.stats()["sent"] == 1


def test_a_record_that_cannot_be_encoded_does_not_cost_its_neighbours(receiver, forwarder_to, make_record):
    forwarder = forwarder_to(receiver.url)
    forwarder.submit([make_record(1), make_record(2, trace_id="not hex"), make_record(3, started_at=-1)])
    assert forwarder.force_flush(20)
    assert forwarder.stats() == counted(sent=1, dropped=2)


def test_closing_sends_what_waits(receiver, make_record):
    forwarder = Forwarder(receiver.url)
    forwarder.submit([make_record(number) for number in range(1, 1001)])
    assert forwarder.close(20) is True
    assert len(receiver.spans()) == 1000


@pytest.mark.parametrize("kind", ["closed", "hanging"])
def test_closing_is_bounded_and_counts_what_it_leaves(receiver, closed_port, make_record, kind):  # FR-03
    receiver.hold()
    forwarder = Forwarder(receiver.url if kind == "hanging" else f"http://127.0.0.1:{closed_port}", timeout_s=60)
    forwarder.submit([make_record(number) for number in range(1, 2001)])
    assert forwarder.close(0.3) is False
    assert forwarder.stats()["dropped"] == 2000
    assert forwarder.stats()["queued"] == 0


def test_closing_keeps_to_the_wait_a_receiver_asked_for(receiver, make_record):  # FR-05
    receiver.script = [(503, {"Retry-After": "3600"}, b"")]
    forwarder = Forwarder(receiver.url, give_up_after_s=7200)
    forwarder.submit([make_record()])
    receiver.wait_for_requests(1)
    assert forwarder.close(5) is False
    assert len(receiver.requests) == 1


def test_a_second_close_does_nothing_and_later_records_are_counted(receiver, make_record):
    forwarder = Forwarder(receiver.url)
    forwarder.submit([make_record(1)])
    assert forwarder.close(20) is True
    assert forwarder.close(20) is True
    forwarder.submit([make_record(2)])
    assert forwarder.stats() == counted(sent=1, dropped=1)


def test_a_connection_the_receiver_closed_while_idle_is_no_failure(receiver, forwarder_to, make_record):
    receiver.script = [(200, {"Connection": "close"}, b""), (200, {}, b"")]
    forwarder = forwarder_to(receiver.url)
    for number in (1, 2):
        forwarder.submit([make_record(number)])
        assert forwarder.force_flush(20)
    assert forwarder.stats() == counted(sent=2)


def test_a_header_s_value_is_in_no_log_and_no_error(receiver, closed_port, make_record):
    receiver.script = [(401, {}, b"")]
    with structlog.testing.capture_logs() as logs:
        for url in (receiver.url, f"http://127.0.0.1:{closed_port}"):
            forwarder = Forwarder(url, headers={"Authorization": SECRET})
            forwarder.submit([make_record()])
            forwarder.close(1.0)
    assert logs
    assert SECRET not in repr(logs)
    with pytest.raises(ConfigurationError, match="Authorization has a value that HTTP does not allow") as refused:
        Forwarder(receiver.url, headers={"Authorization": SECRET + "\n"})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("url", ["jaeger:4318", "ftp://host/x", "http://", "http://host:99999", ""])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigurationError, match="forward address"):
        Forwarder(url)


def test_credentials_in_the_address_are_refused_without_repeating_them():
    with pytest.raises(ConfigurationError, match="give them as a header") as refused:
        Forwarder("http://someone:" + "hush" + "@host:4318")
    assert "hush" not in str(refused.value)
