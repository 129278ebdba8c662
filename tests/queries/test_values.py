"""Parameter values come as text from URLs and as Python objects from notebooks."""

# ruff: noqa: DTZ001 - DuckDB binds a TIMESTAMP from a naive moment; here it is UTC

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone

import duckdb
import pytest
import pytz
from hypothesis import given
from hypothesis import strategies as st
from tracehold_queries import QueryParameterError, get
from tracehold_queries.values import EARLIEST, LATEST, TYPES, convert


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("VARCHAR", "", ""),
        ("BIGINT", "42", 42),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT", 7, 7),
        ("DOUBLE", "1e3", 1000.0),
        ("DOUBLE", 2, 2.0),
        ("BOOLEAN", "TRUE", True),
        ("BOOLEAN", "0", False),
        ("BOOLEAN", False, False),
        ("TIMESTAMP", "2026-03-29", datetime(2026, 3, 29)),
        ("TIMESTAMP", "2026-03-29T12:00:00Z", datetime(2026, 3, 29, 12)),
        ("TIMESTAMP", "2026-03-29T12:00:00+02:00", datetime(2026, 3, 29, 10)),
        ("TIMESTAMP", date(2026, 3, 29), datetime(2026, 3, 29)),
        (
            "TIMESTAMP",
            datetime(2026, 3, 29, 12, tzinfo=timezone(timedelta(hours=5))),
            datetime(2026, 3, 29, 7),
        ),
        ("DATE", "2026-03-29", date(2026, 3, 29)),
        ("TIMEZONE", "Asia/Kolkata", "Asia/Kolkata"),
        ("VARCHAR[]", "a, b", ["a", "b"]),
        ("VARCHAR[]", '["a,b"]', ["a,b"]),
        ("VARCHAR[]", "", []),
        ("VARCHAR[]", ("a",), ["a"]),
    ],
)
def test_a_value_is_converted(type_name, value, expected):
    converted = convert(type_name, value)
    assert expected == converted
    assert type(expected) is type(converted)


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("VARCHAR", 3),
        ("VARCHAR", "\ud83e"),  # FR-15
        ("BIGINT", "1.5"),
        ("BIGINT", "9223372036854775808"),
        ("BIGINT", "9" * 5000),
        ("BIGINT", True),
        ("BIGINT", "\N{ARABIC-INDIC DIGIT ONE}"),
        ("DOUBLE", "NaN"),  # FR-17
        ("DOUBLE", "inf"),
        ("DOUBLE", 10**400),
        ("DOUBLE", "x"),
        ("BOOLEAN", "maybe"),
        ("BOOLEAN", 1),
        ("TIMESTAMP", "yesterday"),
        ("TIMESTAMP", "2262-01-01"),
        ("TIMESTAMP", "0001-01-01T00:00:00+14:00"),
        ("TIMESTAMP", 0),
        ("DATE", "2026-03-29T12:00:00"),
        ("DATE", datetime(2026, 3, 29)),
        ("TIMEZONE", "Mars/Olympus"),
        ("TIMEZONE", "../etc/passwd"),
        ("VARCHAR[]", "[1"),
        ("VARCHAR[]", [1]),
        ("VARCHAR[]", 5),
    ],
)
def test_a_value_of_another_type_is_refused_with_what_is_taken(type_name, value):
    with pytest.raises(ValueError, match="takes"):
        convert(type_name, value)


@given(
    st.sampled_from(sorted(TYPES)),
    st.one_of(st.text(), st.integers(), st.floats(), st.binary(), st.lists(st.text())),
)
def test_any_value_is_either_converted_or_refused(type_name, value):
    with suppress(ValueError):
        convert(type_name, value)


@given(st.datetimes(EARLIEST, LATEST - timedelta(microseconds=1)))
def test_a_moment_survives_being_written_and_read(moment):
    assert moment == convert("TIMESTAMP", moment.replace(tzinfo=UTC).isoformat())


def test_all_faults_of_one_call_are_in_one_message_and_no_value_is_repeated():
    with pytest.raises(QueryParameterError) as caught:
        get("runs").bind({"limit": "s3cr3t", "sort": "s3cr3t", "colour": "s3cr3t"})
    text = str(caught.value)
    assert text.startswith("query 'runs': unknown parameter 'colour'; it takes since, until")
    assert "limit takes a whole number" in text
    assert "sort takes one of started_at, duration_ns" in text
    assert "s3cr3t" not in text
    assert "tenants" not in text


def test_a_required_parameter_must_be_given():
    with pytest.raises(QueryParameterError, match="run_id must be given"):
        get("run").bind({})
    with pytest.raises(QueryParameterError, match="run_id must be given"):
        get("run").bind({"run_id": None})


@pytest.mark.parametrize("limit", [0, 1001, "-1"])
def test_a_limit_out_of_bounds_is_refused(limit):
    with pytest.raises(QueryParameterError, match="limit takes 1 to 1000"):
        get("runs").bind({"limit": limit})


def test_duckdb_knows_every_zone_that_is_accepted():
    known = {row[0] for row in duckdb.sql("SELECT name FROM pg_timezone_names()").fetchall()}
    assert set() == set(pytz.all_timezones_set) - known
