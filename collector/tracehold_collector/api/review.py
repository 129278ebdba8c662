"""The review of denials over HTTP: one denial and what was done about it, a reviewer's act, a day and its signature."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from tracehold_collector.access.principal import Principal
from tracehold_collector.access.roles import Role
from tracehold_collector.api.access import access_of, principal_of
from tracehold_collector.api.forms import json_answer
from tracehold_collector.api.noting import note_rows, note_tenant
from tracehold_collector.api.objects import count_of, read_object, text_of
from tracehold_collector.api.parameters import whole_number
from tracehold_collector.core.errors import BadBodyError, QueryError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.review.acts import PREFIX, DayFigures
from tracehold_collector.review.desk import DUE_HOURS, ReviewDesk, tenant_of
from tracehold_collector.review.reading import Denial, StoredAct
from tracehold_collector.review.retries import retries_of
from tracehold_collector.review.states import ACTS, MAX_NOTE_CHARS, VERDICTS, Review, Wish
from tracehold_collector.store.reader import NO_CONTENT, Reader

REVIEWER: Final[Role] = "audit"
"""The role that may act; reading a review needs `read`."""

MAX_DUE_HOURS: Final = 8_784

_ACT_KEYS: Final = frozenset({"act", "revision", "assignee", "verdict", "note", "tenant"})
_FIGURES: Final = ("denials", "unreviewed", "awaiting_sign_off")
_DAY_KEYS: Final = frozenset({*_FIGURES, "note", "tenant"})
_YEARS: Final = range(1970, 2262)
"""Whose days have nanoseconds in 64 bits."""


async def get_review(request: Request) -> Response:
    """Return how the review of a denial stands, every act on it, what the agent tried afterwards, and who you are.

    Notes, and whether later calls carry the same arguments, need the role content.
    """
    return await asyncio.to_thread(_seen, request)


async def post_act(request: Request) -> Response:
    """Act on a denial under your own login: assign it, give a verdict, sign an incident off, reopen it.

    `revision` is that of the review you saw: when somebody acted since, the answer is 409 and nothing changed. An
    incident is closed by a second login. Each act is an event of the tenant's log.
    """
    body = await read_object(request, _ACT_KEYS)
    wish, tenant = _wish(body), text_of(body, "tenant")
    desk: ReviewDesk = request.app.state.reviews
    done = await asyncio.to_thread(desk.act, request.path_params["event_id"], tenant, wish, principal_of(request))
    note_tenant(request, done.denial.tenant)
    return json_answer({"review": _review(done.denial, done.review), "event_id": str(done.event_id)})


async def get_day(request: Request) -> Response:
    """Return what a day's denials come to: how many, how many without a verdict, overdue, and who you are.

    A day is that on which the collector received them, UTC. The query `review_days` tells many days at once.
    """
    return await asyncio.to_thread(_day_seen, request)


async def post_signature(request: Request) -> Response:
    """Sign a day off under your own login: `denials`, `unreviewed` and `awaiting_sign_off` are what you saw.

    Where the figures are others by now the answer is 409 and nothing was signed. The day must be over in UTC. The
    signature is an event of the tenant's log.
    """
    body = await read_object(request, _DAY_KEYS)
    note = text_of(body, "note")
    if note is not None and not 0 < len(note) <= MAX_NOTE_CHARS:
        raise BadBodyError(f"'note' is a text of at most {MAX_NOTE_CHARS:,} characters; leave an empty one out")
    seen = DayFigures(**{key: count_of(body, key) for key in _FIGURES}, overdue=0)
    desk: ReviewDesk = request.app.state.reviews
    signed = await asyncio.to_thread(
        desk.sign_day, _day(request), text_of(body, "tenant"), seen, principal_of(request), note
    )
    note_tenant(request, signed.tenant)
    told = _figures(signed.day, signed.tenant, signed.figures, signed.revision)
    return json_answer({"day": told, "event_id": str(signed.event_id)})


def _seen(request: Request) -> Response:
    who, access = principal_of(request), access_of(request)
    desk: ReviewDesk = request.app.state.reviews
    reader: Reader = request.app.state.reader
    denial, review, acts = desk.look(request.path_params["event_id"], request.query_params.get("tenant"), who)
    note_tenant(request, denial.tenant)
    note_rows(request, 1 + len(acts))
    notes = reader.contents([str(act.event_id) for act in acts], access) if acts and access.content else {}
    answer: dict[str, Any] = {
        "review": _review(denial, review),
        "acts": [_act(act, notes.get(str(act.event_id))) for act in acts],
        "retries": retries_of(reader, denial, access),
        "you": _you(who),
    }
    return json_answer(answer if access.content else answer | {"content_withheld": NO_CONTENT})


def _day_seen(request: Request) -> Response:
    who = principal_of(request)
    desk: ReviewDesk = request.app.state.reviews
    day, tenant = _day(request), tenant_of(request.query_params.get("tenant"), who)
    due_hours = whole_number(request.query_params, "due_hours", MAX_DUE_HOURS) or DUE_HOURS
    figures, revision = desk.day(day, tenant, who, due_hours)
    note_tenant(request, tenant)
    return json_answer({"day": _figures(day, tenant, figures, revision), "you": _you(who)})


def _wish(body: dict[str, Any]) -> Wish:
    act, verdict = text_of(body, "act", required=True), text_of(body, "verdict")
    if act not in ACTS:
        raise BadBodyError(f"'act' is one of {', '.join(ACTS)}")
    if verdict is not None and verdict not in VERDICTS:
        raise BadBodyError(f"'verdict' is one of {', '.join(VERDICTS)}")
    return Wish(act, count_of(body, "revision"), text_of(body, "assignee"), verdict, text_of(body, "note"))


def _day(request: Request) -> date:
    try:
        day = date.fromisoformat(request.path_params["day"])
    except ValueError:
        day = date.max
    if day.year not in _YEARS:
        raise QueryError("a day is written as 2026-11-30")
    return day


def _review(denial: Denial, review: Review) -> dict[str, Any]:
    return {
        "event_id": str(denial.event_id),
        "tenant": denial.tenant,
        "run_id": denial.run_id,
        "received_at": iso_utc(denial.received_at),
        "state": review.state,
        "revision": review.revision,
        "assignee": review.assignee,
        "verdict": review.verdict,
        "verdict_by": review.verdict_by,
    }


def _act(act: StoredAct, content: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "event_id": str(act.event_id),
        "revision": act.revision,
        "act": act.type.removeprefix(PREFIX),
        "at": iso_utc(act.at),
        "by": act.by,
        "state": act.state,
        "assignee": act.assignee,
        "verdict": act.verdict,
        "note": (content or {}).get("note"),
    }


def _figures(day: date, tenant: str, figures: DayFigures, revision: int) -> dict[str, Any]:
    return {
        "day": day.isoformat(),
        "tenant": tenant,
        "denials": figures.denials,
        "unreviewed": figures.unreviewed,
        "awaiting_sign_off": figures.awaiting_sign_off,
        "overdue": figures.overdue,
        "signatures": revision,
    }


def _you(who: Principal) -> dict[str, Any]:
    return {"login": who.name, "may_review": who.may(REVIEWER)}
