"""The client: what it sends, what it gives, and what it says when that fails."""

from __future__ import annotations

import socket
from datetime import date

import pytest
from tracehold_dashboard import content as said
from tracehold_dashboard.api import Client
from tracehold_dashboard.errors import NotAllowedError, NotFoundError, RefusedError, UnreachableError
from tracehold_dashboard.settings import Settings

EXACT = 1_767_225_600_123_456_789


@pytest.fixture
def client(collector):
    with Client(Settings(collector.url)) as made:
        yield made


def test_a_query_comes_back_with_its_nanoseconds_exact(collector, client):
    collector.add({"started_at": EXACT}, {"started_at": None})
    assert client.frame("run_events", run_id="run-1")["started_at_ns"].iloc[0] == EXACT


def test_what_is_none_is_left_out_and_the_rest_is_written_as_text(collector, client):
    client.frame("runs", search=None, has_denials=True, limit=5)
    client.frame("spend", from_day=date(2026, 3, 29))
    assert collector.asked == [
        "/api/v1/queries/runs?has_denials=true&limit=5",
        "/api/v1/queries/spend?from_day=2026-03-29",
    ]


def test_contents_of_many_events_are_asked_for_in_parts(collector, client):
    ids = collector.add(*({"content": {"n": n}} for n in range(201)))
    found = client.contents(ids)
    assert [found[event_id] for event_id in ids] == [{"n": n} for n in range(201)]
    assert len(collector.asked) == 2


def test_an_event_comes_whole(collector, client):
    (event_id,) = collector.add({"name": "search", "content": {"params": {}}})
    envelope, content = client.event(event_id)
    assert (envelope["name"], content) == ("search", {"params": {}})


def test_an_id_with_odd_characters_stays_one_part_of_the_address(client):
    with pytest.raises(NotFoundError, match="no event has this id") as caught:
        client.event("../queries/runs?x=#y")
    assert caught.value.hint == "it may have been deleted"


def test_content_kept_back_says_so_in_its_place(collector, client):
    (event_id,) = collector.add({"content": {"reason": "secret words", "params": {}}})
    collector.withheld = {"content_withheld": "this key does not have the role content"}
    _, content = client.event(event_id)
    for found in (content, client.contents([event_id])[event_id]):
        assert said.reason(found) == said.arguments(found) == "this key does not have the role content"


def test_a_refusal_is_told_in_the_collectors_own_words(client):
    with pytest.raises(RefusedError, match=r"query 'runs': limit takes 1 to 1000"):
        client.frame("runs", limit=0)


def test_a_missing_key_is_told_by_the_variable(collector):
    collector.key = "k" * 8
    with (
        Client(Settings(collector.url)) as client,
        pytest.raises(NotAllowedError, match="wants a key") as caught,
    ):
        client.frame("runs")
    assert "TRACEHOLD_API_KEY" in caught.value.hint


def test_a_wrong_key_is_told_without_repeating_it(collector):
    collector.key = "k" * 8
    with (
        Client(Settings(collector.url, "wrong" * 3)) as client,
        pytest.raises(NotAllowedError, match="does not take this key") as caught,
    ):
        client.frame("runs")
    assert "wrong" not in f"{caught.value} {caught.value.hint}"


def test_the_right_key_is_taken(collector):
    collector.key = "k" * 8
    with Client(Settings(collector.url, collector.key)) as client:
        assert client.frame("runs").empty


def test_nobody_there_is_told_with_the_address_and_what_to_do():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with Client(Settings(url)) as client, pytest.raises(UnreachableError, match=url) as caught:
            client.frame("runs")
    assert "tracehold up" in caught.value.hint
    assert "TRACEHOLD_URL" in caught.value.hint
