"""`GET /api/v1/export/events`: events as a file, streamed, and noted as an export before the first byte goes out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.api.access import access_of
from tracehold_collector.api.noting import note_export, note_rows, note_tenant
from tracehold_collector.api.streaming import Streamed
from tracehold_collector.core.errors import QueryError, ThrottledError
from tracehold_collector.export.events import EventExport
from tracehold_collector.export.files import FORMS
from tracehold_collector.export.selection import Selection, parse_selection
from tracehold_collector.store.database import Database
from tracehold_collector.store.reader import NO_CONTENT, Access

COUNT_HEADER: Final = "X-Tracehold-Events"
"""How many events the answer has."""

AT_ONCE: Final = 2
"""Exports under way: each keeps a snapshot of the store open."""

_NAME: Final = "tracehold-events"
_SUFFIXES: Final = {"csv": "csv", "parquet": "parquet", "otlp": "otlp.jsonl"}


async def export_events(request: Request) -> Response:
    """Return events as CSV, Parquet or OTLP (JSON lines), in the order they came in.

    What was said is in it only with `with_content=true` and a key that has the role `content`. An answer that breaks
    off is seen to: its last chunk is missing.
    """
    form, with_content, selection = _asked(request)
    access = access_of(request)
    note_export(request)
    tenant = selection.equal.get("tenant")
    if tenant is not None and (access.tenants is None or tenant in access.tenants):
        note_tenant(request, tenant)
    if with_content and not access.content:
        return JSONResponse(
            {"error": NO_CONTENT, "hint": "leave with_content out, or show a key with the role content"}, 403
        )
    places: threading.BoundedSemaphore = request.app.state.exports
    if not places.acquire(blocking=False):
        raise ThrottledError(f"{AT_ONCE} exports are under way, as many as may be at once", 10)
    try:
        export = await asyncio.to_thread(_opened, request.app.state.database, form, selection, access, with_content)
    except BaseException:
        places.release()
        raise
    note_rows(request, export.events)
    write, media_type = FORMS[form]
    headers = {
        COUNT_HEADER: str(export.events),
        "Content-Disposition": f'attachment; filename="{_NAME}.{_SUFFIXES[form]}"',
    }
    return Streamed(write(export), partial(_let_go, export, places.release), headers, media_type)


def _opened(database: Database, form: str, selection: Selection, access: Access, with_content: bool) -> EventExport:
    return EventExport(
        database,
        selection,
        access,
        with_content=with_content,
        # An OTLP span says what its sender said; a table says what is known today.
        table="events" if form == "otlp" else "priced_events",
        ended_only=form == "otlp",
    )


def _asked(request: Request) -> tuple[str, bool, Selection]:
    given = {name: request.query_params.getlist(name) for name in request.query_params}
    twice = [name for name, values in given.items() if len(values) > 1]
    if twice:
        raise QueryError(f"{twice[0][:40]!r} is given twice")
    single = {name: values[0] for name, values in given.items()}
    form = single.pop("format", None)
    if form not in FORMS:
        raise QueryError(f"format takes one of {', '.join(FORMS)}")
    content = single.pop("with_content", "false")
    if content not in {"true", "false"}:
        raise QueryError("with_content is true or false")
    return form, content == "true", parse_selection(single)


def _let_go(export: EventExport, place: Callable[[], None]) -> None:
    try:
        export.close()
    finally:
        place()
