"""What is read back of an erasure's steps."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from tracehold_collector.core.times import iso_utc
from tracehold_collector.erasure.record import PlaceCount, due_one_month_after, load_erasures
from tracehold_collector.store.database import Database


def _ns(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000_000


@pytest.mark.parametrize(
    ("received", "due"),
    [
        ("2026-01-31T10:00:00", "2026-02-28T10:00:00Z"),
        ("2024-01-31T10:00:00", "2024-02-29T10:00:00Z"),
        ("2026-12-05T23:59:59", "2027-01-05T23:59:59Z"),
    ],
)
def test_a_request_is_due_one_month_later(received: str, due: str) -> None:
    assert iso_utc(due_one_month_after(_ns(received))) == due


_REQUESTED = {
    "scope": "subject",
    "scope_value": "u_1",
    "mode": "delete",
    "basis": "gdpr-17-1-a",
    "requester": "dpo",
    "received_at": 1,
    "due_at": 10,
}


def _told(database: Database, erasure_id: str, step: str, at: int, tenant: str = "acme", **details: object) -> None:
    database.connection.execute(
        "INSERT INTO erasures VALUES (?, ?, ?, ?, ?)", [erasure_id, tenant, step, at, json.dumps(details)]
    )


def test_steps_add_up_to_a_record(database: Database) -> None:
    _told(database, "e1", "requested", 5, **_REQUESTED)
    (record,) = load_erasures(database.connection, ("acme",))
    assert (record.status, record.overdue(9), record.overdue(11)) == ("running", False, True)
    _told(database, "e1", "frozen", 6, runs=1, events=3)
    _told(database, "e1", "failed", 7, error="StoreError")
    _told(database, "e1", "unreadable", 8)
    place = {"place": "events", "found": 3, "removed": 3}
    _told(database, "e1", "completed", 9, root="ab" * 32, leaves=3, places=[place])
    (record,) = load_erasures(database.connection, None)
    assert (record.status, record.failures, record.last_error) == ("completed", 1, "StoreError")
    assert (record.started_at, record.unreadable_since, record.completed_at) == (6, 8, 9)
    assert record.places == (PlaceCount("events", 3, 3),)
    assert record.root == b"\xab" * 32
    assert not record.overdue(11)
    _told(database, "e1", "bytes_gone", 12)
    _told(database, "e1", "scanned", 13, sealed=2, plain=0, found={}, files=4, bytes_read=9)
    (record,) = load_erasures(database.connection, None, ids=["e1"])
    assert record.status == "bytes gone"
    assert record.canaries is not None
    assert record.canaries.files == 4


def test_one_that_needs_a_second_person_waits_until_there_is_one(database: Database) -> None:
    _told(database, "e1", "requested", 5, strict=True, **_REQUESTED)
    assert [record.status for record in load_erasures(database.connection, None)] == ["waiting for approval"]
    _told(database, "e1", "approved", 6, approver="counsel")
    assert [record.status for record in load_erasures(database.connection, None)] == ["running"]


def test_a_tenant_sees_its_own_erasures_latest_first(database: Database) -> None:
    for number, tenant in enumerate(["acme", "globex", "acme"]):
        _told(database, f"e{number}", "requested", number, tenant, **_REQUESTED)
    assert [record.id for record in load_erasures(database.connection, ("acme",))] == ["e2", "e0"]
    assert [record.id for record in load_erasures(database.connection, ())] == []
