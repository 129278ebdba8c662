"""The Forwarder: a real store, a real HTTP receiver that makes trouble."""

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import structlog.testing
from support.processes import wait_for
from tracehold.core.errors import ConfigurationError
from tracehold_collector.forward.backoff import Backoff

SECRET = "Bearer " + "made-up-" + "credential"


@pytest.fixture
def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def counts(forwarder):
    status = forwarder.status()
    return {"sent": status.sent, "refused": status.refused, "skipped": status.skipped, "waiting": status.waiting}


def counted(**some):
    return {"sent": 0, "refused": 0, "skipped": 0, "waiting": 0, **some}


def numbers(spans):
    return sorted(int.from_bytes(span.span_id, "big") for span in spans)


def test_what_is_committed_arrives_once(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url)
    commit([make_record(number) for number in range(1, 4)])
    assert forwarder.force_flush(20)
    assert sorted(span.name for span in receiver.spans()) == [f"execute_tool tool{number}" for number in range(1, 4)]
    assert counts(forwarder) == counted(sent=3)


def test_a_commit_wakes_the_forwarder(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url)
    assert forwarder.force_flush(20)
    commit([make_record()])
    forwarder.wake([make_record()])
    receiver.wait_for_requests(1)


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
def test_the_traces_path_is_appended_when_it_is_missing(receiver, forwarder_to, commit, make_record, suffix, path):
    forwarder = forwarder_to(receiver.url + suffix)
    commit([make_record()])
    assert forwarder.force_flush(20)
    assert receiver.requests[0][0] == path
    assert "token" not in forwarder.endpoint


def test_requests_are_protobuf_and_carry_the_given_headers(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url, headers={"Authorization": SECRET})
    commit([make_record()])
    assert forwarder.force_flush(20)
    headers = receiver.requests[0][1]
    assert (headers["Content-Type"], headers["Authorization"]) == ("application/x-protobuf", SECRET)


def test_opening_halves_are_counted_and_not_sent(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url)
    commit([make_record(1, status="started"), make_record(2), make_record(3, status="started")])
    assert forwarder.force_flush(20)
    assert numbers(receiver.spans()) == [2]
    assert counts(forwarder) == counted(sent=1, skipped=2)


def test_records_are_sent_in_batches_across_commits_and_within_one(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url, start=False, max_batch_records=2)
    commit([make_record(1)])
    commit([make_record(number, run_id=f"run-{number % 2}") for number in range(2, 7)])
    forwarder.start()
    assert forwarder.force_flush(20)
    sizes = [len(r.resource_spans[0].scope_spans[0].spans) for r in receiver.parsed()]
    assert sizes == [2, 2, 2]
    assert numbers(receiver.spans()) == [1, 2, 3, 4, 5, 6]


def test_a_batch_is_bounded_in_bytes_and_one_over_it_goes_alone(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url, start=False, max_batch_bytes=130_000)
    said = {1: 30_000, 2: 30_000, 3: 100_000, 4: 30_000}
    commit([make_record(number, content={"result": "x" * size}) for number, size in said.items()])
    forwarder.start()
    assert forwarder.force_flush(20)
    sizes = [len(r.resource_spans[0].scope_spans[0].spans) for r in receiver.parsed()]
    assert sizes == [2, 1, 1]


def test_a_receiver_that_hangs_holds_nobody_up(receiver, forwarder_to, commit, make_record):
    receiver.hold()
    forwarder = forwarder_to(receiver.url)
    commit([make_record(1)])
    forwarder.wake()
    receiver.wait_for_requests(1)
    for number in range(2, 20):
        commit([make_record(number)])
        forwarder.wake()
    assert counts(forwarder) == counted(waiting=19)
    receiver.release()
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=19)


def test_a_receiver_that_is_down_is_tried_until_it_is_there(
    closed_port, forwarder_to, commit, make_record, serve_on, make_receiver
):
    with structlog.testing.capture_logs() as logs:
        forwarder = forwarder_to(f"http://127.0.0.1:{closed_port}")
        commit([make_record()])
        forwarder.wake()
        # Far more attempts than the limit of an earlier version had room for: 300 s in steps of up to 30 s.
        wait_for(lambda: forwarder.status().retries > 50, what="many attempts")
        status = forwarder.status()
        assert (status.waiting, status.trouble) == (1, "ConnectionRefusedError")
        assert status.behind_s > 0
        with serve_on(make_receiver(), closed_port) as late:
            assert forwarder.force_flush(30)
            assert len(late.spans()) == 1
    status = forwarder.status()
    assert (status.sent, status.behind_s, status.trouble) == (1, 0.0, None)
    assert [log["event"] for log in logs] == ["forward.waiting", "forward.recovered"]


def test_more_may_wait_than_memory_would_hold(receiver, forwarder_to, commit, make_record):
    """An earlier version kept 50,000 records in memory and dropped what came later."""
    receiver.otherwise = (503, {}, b"")
    forwarder = forwarder_to(receiver.url)
    for first in range(0, 60_000, 10_000):
        commit([make_record(first + number) for number in range(1, 10_001)])
        forwarder.wake()
    assert counts(forwarder) == counted(waiting=60_000)
    receiver.otherwise = (200, {}, b"")
    assert forwarder.force_flush(60)
    assert numbers(receiver.taken_spans()) == list(range(1, 60_001))


def test_a_batch_is_sent_again_no_sooner_than_the_receiver_asked(receiver, forwarder_to, commit, make_record):  # FR-05
    receiver.script = [(429, {"Retry-After": "1"}, b"")]
    forwarder = forwarder_to(receiver.url)
    began = time.monotonic()
    commit([make_record()])
    assert forwarder.force_flush(20)
    assert time.monotonic() - began >= 1.0
    assert counts(forwarder) == counted(sent=1)
    assert forwarder.status().retries == 1


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_retry_after_that_is_a_date_is_understood(receiver, forwarder_to, commit, make_record, status):  # FR-05
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    receiver.script = [(status, {"Retry-After": past}, b"")]
    forwarder = forwarder_to(receiver.url, backoff=Backoff(3600, 3600))  # what was asked counts, not our own wait
    commit([make_record()])
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=1)


@pytest.mark.parametrize("status", [400, 415, 422])
def test_bad_data_is_not_sent_again_and_counted(receiver, forwarder_to, commit, make_record, status):  # FR-05
    receiver.script = [(status, {}, b"no")]
    forwarder = forwarder_to(receiver.url)
    with structlog.testing.capture_logs() as logs:
        commit([make_record(1)])
        assert forwarder.force_flush(20)
        commit([make_record(2)])
        assert forwarder.force_flush(20)
    assert len(receiver.requests) == 2
    assert counts(forwarder) == counted(sent=1, refused=1)
    assert [(log["event"], log["reason"], log["events"]) for log in logs] == [("forward.refused", f"HTTP {status}", 1)]


@pytest.mark.parametrize("status", [301, 401, 403, 404, 405, 500])
def test_a_receiver_that_refuses_everybody_costs_nothing(receiver, forwarder_to, commit, make_record, status):
    """A credential that expired, an address that moved: the batch waits until it is mended."""
    receiver.otherwise = (status, {}, b"")
    forwarder = forwarder_to(receiver.url)
    commit([make_record(1)])
    forwarder.wake()
    receiver.wait_for_requests(20)
    assert len(receiver.spans()) == 1  # later requests were empty
    assert forwarder.status().trouble == f"HTTP {status}"
    receiver.otherwise = (200, {}, b"")
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=1)


@pytest.mark.parametrize("status", [403, 500])
def test_a_batch_that_is_refused_by_one_who_takes_others_blocks_nobody(
    receiver, forwarder_to, commit, make_record, status
):
    """As a firewall does that reads an attack into a prompt."""
    refused, taken = (status, {}, b""), (200, {}, b"")
    receiver.script = [refused, taken, refused, taken, refused]
    forwarder = forwarder_to(receiver.url)
    commit([make_record(1)])
    assert forwarder.force_flush(20)
    commit([make_record(2)])
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=1, refused=1)


def test_what_is_too_large_goes_in_halves(receiver, forwarder_to, commit, make_record):
    receiver.script = [(413, {}, b""), (413, {}, b""), (413, {}, b"")]
    forwarder = forwarder_to(receiver.url, start=False)
    commit([make_record(number) for number in range(1, 5)])
    forwarder.start()
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=3, refused=1)


def test_a_half_that_has_to_wait_is_not_lost(receiver, forwarder_to, commit, make_record):
    receiver.script = [(413, {}, b""), (200, {}, b""), (503, {}, b"")]
    forwarder = forwarder_to(receiver.url, start=False)
    commit([make_record(number) for number in range(1, 5)])
    forwarder.start()
    assert forwarder.force_flush(20)
    assert numbers(receiver.taken_spans()) == [1, 2, 3, 4]
    assert counts(forwarder) == counted(sent=4)


def test_spans_the_receiver_threw_away_are_counted(receiver, forwarder_to, commit, make_record, rejecting):
    receiver.script = [(200, {}, rejecting(2))]
    forwarder = forwarder_to(receiver.url, start=False)
    commit([make_record(number) for number in range(1, 4)])
    forwarder.start()
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=1, refused=2)


def test_a_receiver_that_claims_to_throw_away_more_than_it_got_is_not_believed(
    receiver, forwarder_to, commit, make_record, rejecting
):
    receiver.script = [(200, {}, rejecting(1 << 40))]
    forwarder = forwarder_to(receiver.url)
    commit([make_record()])
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(refused=1)


@pytest.mark.parametrize("body", [b"", b"OK", b'{"partialSuccess":{}}', b"\xff" * 50])
def test_an_answer_in_another_form_is_taken_as_success(receiver, forwarder_to, commit, make_record, body):
    receiver.script = [(200, {}, body)]
    forwarder = forwarder_to(receiver.url)
    commit([make_record()])
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=1)


def test_a_record_that_cannot_be_encoded_does_not_cost_its_neighbours(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url)
    commit([make_record(1), make_record(2, trace_id="not hex"), make_record(3, started_at=-1)])
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=1, refused=2)


def test_an_erased_content_goes_out_as_an_envelope(receiver, forwarder_to, commit, make_record, database):
    forwarder = forwarder_to(receiver.url, start=False)
    commit([make_record(1, content={"result": "what was said"})])
    with database.cursor() as cursor:
        cursor.execute("UPDATE contents SET body = NULL")
    forwarder.start()
    assert forwarder.force_flush(20)
    assert [span.name for span in receiver.spans()] == ["execute_tool tool1"]
    assert b"what was said" not in receiver.requests[0][2]


def test_what_is_erased_while_the_receiver_is_away_is_not_sent(receiver, forwarder_to, commit, make_record, database):
    receiver.otherwise = (503, {}, b"")
    forwarder = forwarder_to(receiver.url)
    commit([make_record(1, content={"result": "what was said"})])
    forwarder.wake()
    receiver.wait_for_requests(2)
    with database.cursor() as cursor:
        cursor.execute("UPDATE contents SET body = NULL")
    receiver.wait_for_requests(len(receiver.requests) + 2)
    receiver.otherwise = (200, {}, b"")
    assert forwarder.force_flush(20)
    assert len(receiver.taken_spans()) == 1
    assert all(b"what was said" not in body for _, _, body in receiver.taken)


@pytest.mark.parametrize("status", [403, 500])
def test_what_is_refused_takes_no_later_records_with_it(receiver, forwarder_to, commit, make_record, status):
    refused, taken = (status, {}, b""), (200, {}, b"")
    receiver.script = [refused, (503, {}, b""), taken, refused, taken, refused]
    forwarder = forwarder_to(receiver.url, backoff=Backoff(0.05, 0.1))
    commit([make_record(1)])
    forwarder.wake()
    receiver.wait_for_requests(1)
    commit([make_record(2), make_record(3)])
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=2, refused=1)
    assert numbers(receiver.taken_spans()) == [2, 3]


def test_closing_sends_what_waits(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url, gather_s=3600)
    commit([make_record(number) for number in range(1, 1501)])
    forwarder.wake()
    assert forwarder.close(20) is True
    assert len(receiver.spans()) == 1500


@pytest.mark.parametrize("kind", ["closed", "hanging"])
def test_closing_is_bounded_and_leaves_the_rest_for_the_next(
    receiver, closed_port, forwarder_to, commit, make_record, kind
):  # FR-03
    receiver.hold()
    url = receiver.url if kind == "hanging" else f"http://127.0.0.1:{closed_port}"
    forwarder = forwarder_to(url, timeout_s=60, backoff=Backoff(3600, 3600))
    commit([make_record(number) for number in range(1, 2001)])
    forwarder.wake()
    assert forwarder.close(0.3) is False
    assert counts(forwarder) == counted(waiting=2000)


def test_closing_keeps_to_the_wait_a_receiver_asked_for(receiver, forwarder_to, commit, make_record):  # FR-05
    receiver.script = [(503, {"Retry-After": "3600"}, b"")]
    forwarder = forwarder_to(receiver.url)
    commit([make_record()])
    forwarder.wake()
    wait_for(lambda: forwarder.status().trouble is not None)
    assert forwarder.close(20) is False
    assert len(receiver.requests) == 1


def test_a_second_close_does_nothing(receiver, forwarder_to, commit, make_record):
    forwarder = forwarder_to(receiver.url)
    commit([make_record(1)])
    assert forwarder.close(20) is True
    assert forwarder.close(20) is True
    assert counts(forwarder) == counted(sent=1)


def test_a_connection_the_receiver_closed_while_idle_is_no_failure(receiver, forwarder_to, commit, make_record):
    receiver.script = [(200, {"Connection": "close"}, b""), (200, {}, b"")]
    forwarder = forwarder_to(receiver.url)
    for number in (1, 2):
        commit([make_record(number)])
        assert forwarder.force_flush(20)
    assert forwarder.status().retries == 0


def test_a_store_that_does_not_answer_for_a_while_is_asked_again(receiver, forwarder_to, commit, make_record, database):
    commit([make_record(1)])
    with database.cursor() as cursor:
        cursor.execute("ALTER TABLE events RENAME TO hidden")
        cursor.execute("CREATE VIEW events AS SELECT max(received_at) AS received_at FROM hidden")
    forwarder = forwarder_to(receiver.url, since="start")
    wait_for(lambda: forwarder.status().retries > 2)
    assert forwarder.status().trouble == "BinderException in the collector"
    with database.cursor() as cursor:
        cursor.execute("DROP VIEW events")
        cursor.execute("ALTER TABLE hidden RENAME TO events")
    assert forwarder.force_flush(20)
    assert counts(forwarder) == counted(sent=1)


def test_a_header_s_value_is_in_no_log_no_error_and_no_file(
    receiver, closed_port, forwarder_to, commit, make_record, tmp_path
):
    receiver.script = [(400, {}, b"")]
    commit([make_record()])
    with structlog.testing.capture_logs() as logs:
        for url in (receiver.url, f"http://127.0.0.1:{closed_port}/in/{SECRET[-10:]}?token={SECRET[-10:]}"):
            forwarder = forwarder_to(url, headers={"Authorization": SECRET}, since="start")
            wait_for(lambda forwarder=forwarder: forwarder.status().trouble or forwarder.status().refused)
            forwarder.close(1.0)
    assert logs
    assert SECRET not in repr(logs)
    files = list(tmp_path.glob("forward-*.json"))
    assert len(files) == 2
    assert all(SECRET[-10:] not in file.read_text() + file.name for file in files)
    with pytest.raises(ConfigurationError, match="Authorization has a value that HTTP does not allow") as refused:
        forwarder_to(receiver.url, headers={"Authorization": SECRET + "\n"})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("url", ["jaeger:4318", "ftp://host/x", "http://", "http://host:99999", ""])
def test_an_address_that_is_none_is_refused(url, forwarder_to):
    with pytest.raises(ConfigurationError, match="forward address"):
        forwarder_to(url)


def test_credentials_in_the_address_are_refused_without_repeating_them(forwarder_to):
    with pytest.raises(ConfigurationError, match="give them as a header") as refused:
        forwarder_to("http://someone:" + "hush" + "@host:4318")
    assert "hush" not in str(refused.value)


def test_commits_go_on_while_a_backlog_is_sent(receiver, forwarder_to, commit, make_record):
    commit([make_record(number) for number in range(1, 5001)])
    forwarder = forwarder_to(receiver.url, since="start", max_batch_records=100)
    stop = threading.Event()

    def more():
        for number in range(5001, 5101):
            commit([make_record(number)])
            forwarder.wake()
        stop.set()

    sender = threading.Thread(target=more)
    sender.start()
    sender.join()
    assert forwarder.force_flush(30)
    assert numbers(receiver.spans()) == list(range(1, 5101))
