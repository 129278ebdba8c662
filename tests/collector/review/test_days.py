"""The daily review: what came in on a day, what was found, what waits, and who signed it off. Issue 6, section 7."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

NOTHING = {"denials": 0, "unreviewed": 0, "awaiting_sign_off": 0}


def back(stage: Any, number: int, days: int) -> str:
    """Make a denial one that came in some days ago; give that day."""
    with stage.server.database.cursor() as cursor:
        cursor.execute(
            "UPDATE events SET received_at = received_at - ? WHERE event_id = ?::UUID",
            [days * 86_400_000_000_000, f"{number:032x}"],
        )
    return (datetime.now(UTC) - timedelta(days=days)).date().isoformat()


@pytest.fixture
def yesterday(own_stage: Any, denied: Any, id_of: Any) -> tuple[Any, str, list[str]]:
    """A collector with three denials that came in on one day, two days ago."""
    own_stage.send(*(denied(number) for number in (1, 2, 3)))
    days = {back(own_stage, number, 2) for number in (1, 2, 3)}
    assert len(days) == 1
    return own_stage, days.pop(), [id_of(number) for number in (1, 2, 3)]


def of_day(stage: Any, key: str, day: str) -> dict[str, Any]:
    (row,) = stage.rows(key, "review_days", day=day)
    return row


def test_a_day_says_how_many_what_was_found_by_whom_and_what_waits_too_long(yesterday: Any) -> None:
    stage, day, (first, second, _) = yesterday
    stage.act("ann", first, "verdict", verdict="justified")
    stage.act("ben", second, "verdict", verdict="incident", note="INC-7")
    row = of_day(stage, "reader", day)
    assert {key: row[key] for key in ("denials", "unreviewed", "awaiting_sign_off", "overdue", "justified")} == {
        "denials": 3,
        "unreviewed": 1,
        "awaiting_sign_off": 1,
        "overdue": 2,
        "justified": 1,
    }
    assert row["incidents"] == 1
    assert row["reviewers"] == "ann (1), ben (1)"
    assert (row["signed_by"], row["revision"]) == (None, 0)
    (later,) = stage.rows("reader", "review_days", day=day, due_hours=72)
    assert later["overdue"] == 0


def test_whoever_signs_a_day_off_is_recorded_with_what_they_saw(yesterday: Any) -> None:
    stage, day, denials = yesterday
    for denial in denials:
        stage.act("ann", denial, "verdict", verdict="justified")
    seen = stage.get("ben", f"/api/v1/review-days/{day}").json()["day"]
    body = {key: seen[key] for key in NOTHING}
    signed = stage.sign("ben", day, **body, note="all calm")
    assert signed.json()["day"] == seen | {"signatures": 1}
    row = of_day(stage, "reader", day)
    assert (row["signed_by"], row["signed_unreviewed"], row["changed_after"]) == ("ben", 0, 0)
    event = stage.get("ann", f"/api/v1/events/{signed.json()['event_id']}").json()
    assert (event["event"]["run_id"], event["event"]["decided_by"]) == (f"review-day:{day}", "ben")
    assert event["content"] == {"note": "all calm"}


def test_a_reviewed_denial_is_closed_with_its_day_and_open_again_when_somebody_reopens_it(yesterday: Any) -> None:
    stage, day, denials = yesterday
    for denial in denials:
        stage.act("ann", denial, "verdict", verdict="justified")
    stage.sign("ben", day, denials=3, unreviewed=0, awaiting_sign_off=0)
    assert {row["state"] for row in stage.rows("ann", "review_queue", day=day)} == {"closed"}
    assert stage.act("ben", denials[0], "reopen", note="new evidence").is_success
    states = {row["event_id"]: row["state"] for row in stage.rows("ann", "review_queue", day=day)}
    assert sorted(states.values()) == ["closed", "closed", "open"]
    assert of_day(stage, "ann", day)["changed_after"] == 1


def test_figures_that_are_others_by_now_are_not_signed(yesterday: Any) -> None:
    stage, day, denials = yesterday
    seen = {"denials": 3, "unreviewed": 3, "awaiting_sign_off": 0}
    stage.act("ann", denials[0], "verdict", verdict="justified")
    refused = stage.sign("ben", day, **seen)
    assert refused.status_code == 409
    assert "2 without a verdict" in refused.json()["error"]
    assert of_day(stage, "ann", day)["revision"] == 0


def test_a_day_that_is_not_over_cannot_be_signed(stage: Any, denial: str) -> None:
    today = datetime.now(UTC).date().isoformat()
    assert stage.sign("ann", today, denials=1, unreviewed=1, awaiting_sign_off=0).status_code == 409


def test_what_a_sender_says_about_the_time_adds_nothing_to_a_day_that_is_over(
    stage: Any, denied: Any, number: int
) -> None:
    past = datetime(2026, 2, 3, 12, tzinfo=UTC)
    assert stage.sign("ann", "2026-02-03", **NOTHING).is_success
    stage.send(denied(number, started_at_ns=int(past.timestamp()) * 10**9))
    assert of_day(stage, "ann", "2026-02-03")["denials"] == 0
    today = datetime.now(UTC).date().isoformat()
    assert of_day(stage, "ann", today)["denials"] >= 1


def test_a_quiet_day_can_be_signed_too(stage: Any) -> None:
    # That nothing was stopped is an answer as well.
    assert stage.rows("ann", "review_days", day="2026-02-01") == []
    assert stage.sign("ann", "2026-02-01", **NOTHING).is_success
    row = of_day(stage, "ben", "2026-02-01")
    assert (row["denials"], row["signed_by"]) == (0, "ann")


@pytest.mark.parametrize(
    ("key", "day", "body", "status"),
    [
        ("reader", "2026-02-02", NOTHING, 403),
        ("ann", "2026-02-30", NOTHING, 400),
        ("ann", "0001-01-01", NOTHING, 400),
        ("ann", "2026-02-02", NOTHING | {"tenant": "other"}, 404),
        ("ann", "2026-02-02", {"denials": 0}, 400),
        ("ann", "2026-02-02", NOTHING | {"denials": -1}, 400),
        ("ann", "2026-02-02", NOTHING | {"note": ""}, 400),
        ("both", "2026-02-02", NOTHING, 400),
    ],
    ids=["no-role", "no-day", "no-year", "no-tenant", "not-said", "below-zero", "empty-note", "whose"],
)
def test_a_signature_that_cannot_be_is_refused(stage: Any, key: str, day: str, body: Any, status: int) -> None:
    assert stage.sign(key, day, **body).status_code == status
    assert stage.rows("ann", "review_days", day="2026-02-02") == []


def test_a_day_is_signed_for_each_tenant_on_its_own(stage: Any) -> None:
    assert stage.sign("both", "2026-02-04", **NOTHING, tenant="other").is_success
    assert stage.rows("ann", "review_days", day="2026-02-04") == []
    assert of_day(stage, "stranger", "2026-02-04")["signed_by"] == "both"
