"""One receiver, one request at a time: what goes over the wire, and what an answer means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.forward.backoff import LONGEST_ASKED_S, Backoff
from tracehold_collector.forward.endpoint import Endpoint, read_retry_after
from tracehold_collector.forward.otlp import to_otlp


@pytest.fixture
def body(make_record):
    records = [make_record(number, content={"result": "the same again " * 20}) for number in range(1, 50)]
    return to_otlp(records).SerializeToString()


def encodings(receiver):
    return [headers.get("Content-Encoding") for _, headers, _ in receiver.requests]


def test_bodies_go_in_gzip_where_that_is_asked_for(receiver, body):
    endpoint = Endpoint(receiver.url, compress=True)
    assert endpoint.send(body).verdict == "taken"
    assert encodings(receiver) == ["gzip"]
    assert len(receiver.requests[0][2]) < len(body) / 5
    assert receiver.parsed()[0].SerializeToString() == body
    endpoint.close()


def test_on_this_machine_they_go_plain(receiver, body):
    endpoint = Endpoint(receiver.url)
    endpoint.send(body)
    assert encodings(receiver) == [None]
    endpoint.close()


def test_a_receiver_that_does_not_read_gzip_gets_bodies_plain_from_then_on(receiver, body):
    receiver.script = [(415, {}, b"")]
    endpoint = Endpoint(receiver.url, compress=True)
    assert [endpoint.send(body).verdict, endpoint.send(body).verdict] == ["taken", "taken"]
    assert encodings(receiver) == ["gzip", None, None]
    endpoint.close()


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, "taken"),
        (202, "taken"),
        (400, "refused"),
        (413, "too_large"),
        (415, "refused"),
        (429, "later"),
        (401, "unwelcome"),
        (404, "unwelcome"),
        (500, "unwelcome"),
        (503, "later"),
    ],
)
def test_a_status_says_what_to_do_next(receiver, body, status, verdict):
    receiver.script = [(status, {}, b"")]
    endpoint = Endpoint(receiver.url)
    answer = endpoint.send(body)
    assert (answer.verdict, answer.status) == (verdict, status)
    endpoint.close()


def test_a_connection_that_is_cut_is_no_answer(receiver, body):
    receiver.script = [None]
    endpoint = Endpoint(receiver.url)
    answer = endpoint.send(body)
    assert (answer.verdict, answer.status, answer.reason) == ("unreachable", 0, "RemoteDisconnected")
    endpoint.close()


def test_a_host_name_that_is_none_raises_nothing(body):
    assert Endpoint("http://" + "a" * 70 + ".example:4318").send(body).verdict == "unreachable"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), ("2", 2.0), ("-1", 0.0), ("nan", None), ("inf", None), ("soon", None), ("", None)],
)
def test_retry_after_is_read_with_care(value, seconds):  # FR-05
    assert read_retry_after(value) == seconds


def test_waits_double_up_to_a_bound_and_begin_anew():
    backoff = Backoff(1.0, 5.0)
    bounds = [(0.5, 1.0), (1.0, 2.0), (2.0, 4.0), (2.5, 5.0), (2.5, 5.0)]
    assert all(low <= backoff.wait_s(None) <= high for low, high in bounds)
    backoff.reset()
    assert backoff.wait_s(None) <= 1.0


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_what_a_receiver_asks_for_is_kept_to_up_to_a_day(asked_s):  # FR-05
    assert Backoff().wait_s(asked_s) == min(asked_s, LONGEST_ASKED_S)
