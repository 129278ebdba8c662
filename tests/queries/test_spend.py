"""Spend: model calls only, unknown stays unknown, and days add up to the range in every zone."""

# ruff: noqa: DTZ001 - hypothesis makes naive moments; `at` reads them as UTC

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracehold_queries import QueryParameterError, get

CALL = {"kind": "llm", "type": "llm_call", "model": "m", "provider": "p", "cost_usd": 1.0}
ZONES = ["UTC", "Asia/Kolkata", "America/Los_Angeles", "Europe/Berlin", "America/Havana", "Pacific/Apia"]


def at(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000_000


def days(store, **params):
    return get("spend_by_model_day").rows(store.connection, **params)


def test_only_ended_model_calls_count(store):
    # FR-27: an agent span may carry the sum of its children's tokens
    tokens = {"input_tokens": 113, "output_tokens": 11}
    store.add(
        CALL | tokens,
        CALL | tokens | {"status": "started"},
        CALL | tokens | {"kind": "agent"},
        CALL | tokens | {"kind": "run"},
    )
    assert [(row["calls"], row["input_tokens"], row["output_tokens"], row["cost_usd"]) for row in days(store)] == [
        (1, 113, 11, 1.0)
    ]


def test_a_model_without_a_price_is_listed_as_unknown_not_as_free(store):
    # FR-31
    store.add(CALL | {"model": "invented", "cost_usd": None}, CALL, CALL | {"cost_usd": None})
    found = {row["model"]: (row["cost_usd"], row["unpriced_calls"]) for row in days(store)}
    assert found == {"invented": (None, 1), "m": (1.0, 1)}


def test_late_calls_fall_on_the_day_of_the_zone_asked_for(store):
    # FR-33
    moments = ["2026-05-01T18:00", "2026-05-01T18:45", "2026-05-01T23:30", "2026-05-02T00:15"]
    store.add(*(CALL | {"started_at": at(moment)} for moment in moments))
    found = {
        zone: {row["day"].isoformat(): row["calls"] for row in days(store, timezone=zone)}
        for zone in ("UTC", "Asia/Kolkata", "America/Los_Angeles")
    }
    assert found == {
        "UTC": {"2026-05-01": 3, "2026-05-02": 1},
        "Asia/Kolkata": {"2026-05-01": 1, "2026-05-02": 3},
        "America/Los_Angeles": {"2026-05-01": 4},
    }


@pytest.mark.parametrize(
    ("day", "hours"),
    [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)],
    ids=["spring", "autumn", "plain"],
)
def test_a_clock_change_day_of_berlin_has_its_23_or_25_hours(store, day, hours):
    # FR-33
    start = datetime.fromisoformat(day) - timedelta(hours=12)
    store.add(*(CALL | {"started_at": at((start + timedelta(hours=n)).isoformat())} for n in range(48)))
    until = (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    rows = days(store, timezone="Europe/Berlin", from_day=day, until_day=until)
    assert [hours] == [row["calls"] for row in rows]


@settings(deadline=None, max_examples=25)
@given(
    zone=st.sampled_from(ZONES),
    moments=st.lists(
        st.one_of(
            st.datetimes(datetime(2026, 3, 1), datetime(2026, 4, 5)),
            st.datetimes(datetime(2026, 10, 20), datetime(2026, 11, 5)),
            st.datetimes(datetime(2011, 12, 28), datetime(2012, 1, 2)),
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_single_days_add_up_to_the_range_in_every_zone(new_store, zone, moments):
    # FR-33: Berlin, Los Angeles and Havana (at midnight) change clocks in these weeks; Apia skipped a day
    store = new_store()
    store.add(*(CALL | {"started_at": at(moment.isoformat()[:19])} for moment in moments))
    local = sorted({row["day"] for row in days(store, timezone=zone)})
    first, last = local[0], local[-1] + timedelta(days=1)
    (whole,) = get("spend").rows(store.connection, by="model", timezone=zone, from_day=first, until_day=last)
    single = [
        row["calls"]
        for day in local
        for row in days(store, timezone=zone, from_day=day, until_day=day + timedelta(days=1))
    ]
    assert len(moments) == whole["calls"] == sum(single)
    store.connection.close()


def test_a_call_of_unknown_time_is_on_no_day_and_in_no_range(store):
    store.add(CALL | {"started_at": None})
    assert [(row["day"], row["calls"]) for row in days(store)] == [(None, 1)]
    assert days(store, from_day="2000-01-01") == []
    assert days(store, since="2000-01-01") == []


@pytest.mark.parametrize("by", ["agent", "user_ref", "session_id", "service", "tenant", "provider", "model", "run_id"])
def test_spend_adds_up_by_what_is_asked_for(store, by):
    store.add(CALL | {by: "x"}, CALL | {by: "x"}, CALL | {by: "y", "cost_usd": 5.0})
    rows = get("spend").rows(store.connection, by=by)
    assert [(row["value"], row["calls"], row["cost_usd"]) for row in rows] == [("y", 1, 5.0), ("x", 2, 2.0)]


def test_a_zone_nobody_knows_is_refused_by_name():
    with pytest.raises(QueryParameterError, match="timezone takes the name of a time zone"):
        get("spend").bind({"timezone": "Mars/Olympus"})


SECOND = 1_000_000_000
HOURS = st.integers(-100_000, 500_000)


@settings(deadline=None)
@given(
    zone=st.sampled_from([*ZONES, "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Monrovia"]),
    hours=st.lists(st.tuples(HOURS, st.integers(0, 3_599_999_999_999)), min_size=1, max_size=8),
)
def test_a_call_is_on_the_day_that_the_zones_calendar_says(new_store, zone, hours):  # FR-33
    # Newfoundland set its clocks back at 00:01: then a day began twice within an hour.
    moments = [hour * 3600 * SECOND + rest for hour, rest in hours] + [1162693800 * SECOND, 1162693860 * SECOND]
    store = new_store()
    store.add(*(CALL | {"started_at": moment} for moment in moments))
    found = {row["day"]: row["calls"] for row in days(store, timezone=zone)}
    plain = store.connection.execute(
        "SELECT timezone(?, make_timestamptz(started_at // 1000))::DATE, count(*) FROM events GROUP BY 1", [zone]
    ).fetchall()
    assert found == dict(plain)
    store.connection.close()
