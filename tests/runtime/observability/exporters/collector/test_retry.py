"""When the next attempt leaves: a fake clock, a real socket. What is compared is the order of events in that clock."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest

LONG_S = 10_000.0


@pytest.mark.parametrize("status", [429, 503, 502, 504, 500, 408])
def test_retry_after_in_seconds_is_kept_to(make_exporter, collector, clock, event, play, status):  # FR-05
    collector.clock = clock.monotonic
    collector.play(play(status=status, headers={"Retry-After": "120"}))
    exporter = make_exporter(_ports=clock.ports(random=0.0))
    exporter.export(event())
    assert exporter.force_flush(LONG_S)
    first, second = collector.arrivals
    assert second.at >= first.at + 120
    assert second.ids == first.ids
    assert exporter.stats()["retries"] == 1


def test_retry_after_as_a_date_is_kept_to(make_exporter, collector, clock, event, play):  # FR-05
    collector.clock = clock.monotonic
    until = clock.utc() + timedelta(seconds=300)
    collector.play(play(status=503, headers={"Retry-After": format_datetime(until, usegmt=True)}))
    exporter = make_exporter(_ports=clock.ports(random=0.0))
    exporter.export(event())
    assert exporter.force_flush(LONG_S)
    assert clock.utc() >= until
    assert len(collector.stored) == 1


def test_the_sequence_of_the_field_report(make_exporter, collector, clock, event, play):  # FR-05
    collector.clock = clock.monotonic
    until = format_datetime(clock.utc() + timedelta(seconds=60), usegmt=True)
    collector.play(
        play(status=429, headers={"Retry-After": "2"}),
        play(status=503, headers={"Retry-After": until}),
        play(store=True),
    )
    exporter = make_exporter(_ports=clock.ports())
    exporter.export(event())
    assert exporter.force_flush(LONG_S)
    first, second, third = collector.arrivals
    assert second.at >= first.at + 2
    assert third.at >= 1_060.0
    assert len(collector.stored) == 1
    collector.play(play(status=400))
    exporter.export(event())
    assert exporter.force_flush(LONG_S)
    assert len(collector.arrivals) == 4
    assert exporter.stats()["rejected"] == 1


def test_a_real_second_is_a_second(make_exporter, collector, event, play):  # FR-05
    collector.play(play(status=429, headers={"Retry-After": "1"}))
    exporter = make_exporter()
    exporter.export(event())
    assert exporter.force_flush(60)
    assert collector.arrivals[1].at >= collector.arrivals[0].at + 1.0


def test_a_retry_after_beyond_the_deadline_ends_the_flush(make_exporter, collector, event, play):  # FR-05
    collector.play(play(status=429, headers={"Retry-After": "3000"}))
    exporter = make_exporter()
    exporter.export(event())
    assert not exporter.force_flush(2_000)  # longer than this test may take
    assert not exporter.force_flush(2_000)
    assert len(collector.arrivals) == 1


def test_a_retry_after_at_the_end_sends_the_events_to_the_spool(make_exporter, collector, event, play):  # FR-05
    collector.play(play(status=429, headers={"Retry-After": "3000"}))
    exporter = make_exporter()
    exporter.export(event())
    assert not exporter.force_flush(30)
    exporter.close()
    assert len(collector.arrivals) == 1
    assert exporter.stats()["spooled"] == 1
    assert make_exporter().force_flush(30)
    assert len(collector.stored) == 1


def test_a_refused_connection_is_tried_again(make_exporter, collector, clock, event, eventually):  # FR-05
    collector.stop()
    exporter = make_exporter(_ports=clock.ports())
    exporter.export(event())
    eventually(lambda: exporter.stats()["retries"] >= 10)
    assert exporter.stats()["last_error"] == "ConnectionRefusedError"
    collector.start()
    collector.wait_for_stored(1)


def test_the_attempts_become_rarer(make_exporter, collector, clock, event, play):
    collector.clock = clock.monotonic
    collector.play(*[play(status=500)] * 12)
    exporter = make_exporter(_ports=clock.ports(random=0.999))
    exporter.export(event())
    # A flush would ask for an attempt out of turn.
    collector.wait_for_stored(1)
    times = [arrival.at for arrival in collector.arrivals]
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[-1] <= 31.0


def test_a_fault_of_the_setup_is_tried_again_after_half_a_minute_or_more(make_exporter, collector, clock, event, play):
    collector.clock = clock.monotonic
    collector.play(play(status=401))
    exporter = make_exporter(_ports=clock.ports(random=0.0))
    exporter.export(event())
    collector.wait_for_stored(1)
    first, second = collector.arrivals
    assert second.at >= first.at + 30


def test_events_are_on_disk_soon_while_the_collector_is_away(make_exporter, collector, clock, event, eventually):
    collector.stop()
    exporter = make_exporter(_ports=clock.ports(random=0.999))
    exporter.export(event())
    eventually(lambda: exporter.stats()["spooled"] == 1)
    assert exporter.stats()["queued"] == 0
    collector.start()
    collector.wait_for_stored(1)


def test_a_batch_the_collector_fails_on_does_not_hold_up_the_others(
    make_exporter, collector, clock, event, play, eventually
):
    collector.break_on = lambda events: play(status=500) if events[0]["type"] == "poison" else None
    exporter = make_exporter(_ports=clock.ports(random=0.999), max_batch=1)
    exporter.export(event(type="poison"))
    eventually(lambda: exporter.stats()["spooled"] == 1)
    for _ in range(3):
        exporter.export(event())
    collector.wait_for_stored(3)
    collector.break_on = lambda _events: None
    collector.wait_for_stored(4)
