"""Acts of a review as events of the tenant's log: ids and enums in the envelope, free text in the content."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from tracehold.core.clock import now_ns

from tracehold_collector.access.principal import Principal
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import OWN_SOURCE, Record
from tracehold_collector.review.states import Act, Review

TYPES: Final[Mapping[Act, str]] = {
    "assign": "tracehold.review.assigned",
    "verdict": "tracehold.review.verdict",
    "sign_off": "tracehold.review.signed_off",
    "reopen": "tracehold.review.reopened",
}
DAY_TYPE: Final = "tracehold.review.day_signed"
PREFIX: Final = "tracehold.review."


@dataclass(frozen=True, slots=True)
class DayFigures:
    """What a day's list of denials comes to, as whoever signs it off saw it.

    Attributes:
        denials: received that day.
        unreviewed: of these, without a verdict.
        awaiting_sign_off: of these, incidents that nobody signed a second time.
        overdue: of these, waiting too long.
    """

    denials: int
    unreviewed: int
    awaiting_sign_off: int
    overdue: int


def review_run(denial_id: uuid.UUID) -> str:
    """Return the run that holds the acts on one denial."""
    return f"review:{denial_id}"


def day_run(day: date) -> str:
    """Return the run that holds the signatures under one day."""
    return f"review-day:{day.isoformat()}"


@dataclass(frozen=True, slots=True)
class Author:
    """Who acts, for which tenant.

    Attributes:
        who: the login is the key's, never what a request says.
        tenant: whose log it goes into.
        pseudonyms: of that tenant, for the event's id.
    """

    who: Principal
    tenant: str
    pseudonyms: Pseudonyms


def act_record(act: Act, denial_id: uuid.UUID, after: Review, author: Author, note: str | None) -> Record:
    """Return the event that records one act.

    Args:
        act: which.
        denial_id: the denial's event id.
        after: what became of the review; the views of the store read it from here.
        author: who acted.
        note: free text, masked already.
    """
    attributes = {
        f"{PREFIX}denial": str(denial_id),
        f"{PREFIX}state": after.state,
        f"{PREFIX}assignee": after.assignee,
        f"{PREFIX}verdict": after.verdict,
        f"{PREFIX}verdict_by": after.verdict_by,
        f"{PREFIX}verdict_key": after.verdict_key,
    }
    return _record(TYPES[act], review_run(denial_id), after.revision, attributes, author, note)


def day_record(day: date, revision: int, figures: DayFigures, author: Author, note: str | None) -> Record:
    """Return the event that records a signature under a day; arguments as in `act_record`."""
    attributes: dict[str, Any] = {
        f"{PREFIX}day": day.isoformat(),
        f"{PREFIX}denials": figures.denials,
        f"{PREFIX}unreviewed": figures.unreviewed,
        f"{PREFIX}awaiting_sign_off": figures.awaiting_sign_off,
        f"{PREFIX}overdue": figures.overdue,
    }
    return _record(DAY_TYPE, day_run(day), revision, attributes, author, note)


def _record(
    own_type: str, run_id: str, revision: int, attributes: dict[str, Any], author: Author, note: str | None
) -> Record:
    known = {**attributes, f"{PREFIX}key_id": author.who.key_id}
    return Record(
        # Keyed, so that no sender can take the id of an act before it happens. Of two acts that saw the same revision
        # only one can be stored, whichever process they reach: the store holds an id once.
        event_id=author.pseudonyms.event_id(run_id.encode(), revision),
        tenant=author.tenant,
        run_id=run_id,
        kind="score",
        type=own_type,
        source=OWN_SOURCE,
        seq=revision,
        status="ok",
        started_at=now_ns(),
        decided_by=author.who.name,
        attributes={name: value for name, value in known.items() if value is not None},
        content={"note": note} if note else None,
    )
