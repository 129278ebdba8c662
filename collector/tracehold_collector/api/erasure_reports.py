"""Reports on erasures over HTTP: the signed report, its PDF, the register, and the record of processing activities."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tracehold.core.clock import now_ns

from tracehold_collector.api.access import principal_of
from tracehold_collector.api.noting import note_parameters, note_rows, note_tenant
from tracehold_collector.core.errors import NotFoundError, QueryError
from tracehold_collector.erasure.processing import Processing
from tracehold_collector.erasure.register import register
from tracehold_collector.erasure.report import build_report, head_after, sign_report
from tracehold_collector.erasure.service import Erasures

PDF: Final = "application/pdf"
MARKDOWN: Final = "text/markdown; charset=utf-8"
FORMS: Final = ("json", "markdown", "pdf")


async def get_register(request: Request) -> Response:
    """Return the register: every erasure of the key's tenants, the overdue ones first, then those due next."""
    erasures: Erasures = request.app.state.erasures
    records = await asyncio.to_thread(erasures.records, principal_of(request).tenants)
    note_rows(request, len(records))
    return JSONResponse({"erasures": register(records, now_ns())})


async def get_report(request: Request) -> Response:
    """Return the report of an erasure as it stands, signed with the log's key: the object and its signatures."""
    return JSONResponse(await asyncio.to_thread(_report, request))


async def get_report_pdf(request: Request) -> Response:
    """Return the report of an erasure as a PDF, which names the SHA-256 of the JSON."""

    def write() -> tuple[str, bytes]:
        # Fonts and images come with it: a second of work that few collectors ever need.
        from tracehold_collector.erasure.pdf import report_pdf  # noqa: PLC0415

        file = _report(request)
        return file["report"]["erasure"]["id"], report_pdf(file)

    erasure_id, data = await asyncio.to_thread(write)
    return Response(data, media_type=PDF, headers=_named(f"erasure-{erasure_id}.pdf"))


async def get_processing(request: Request) -> Response:
    """Return the record of processing activities (GDPR Art. 30), as `form` says: json, markdown or pdf."""
    form = request.query_params.get("form", "json")
    if form not in FORMS:
        raise QueryError(f"'form' is one of {', '.join(FORMS)}")
    processing: Processing = request.app.state.processing
    record = processing.record(now_ns())
    if form == "json":
        return JSONResponse(record)

    def write() -> Response:
        from tracehold_collector.erasure.processing_pages import processing_markdown, processing_pdf  # noqa: PLC0415

        if form == "pdf":
            return Response(processing_pdf(record), media_type=PDF, headers=_named("records-of-processing.pdf"))
        return Response(processing_markdown(record), media_type=MARKDOWN)

    return await asyncio.to_thread(write)


def _report(request: Request) -> dict[str, Any]:
    state = request.app.state
    erasures: Erasures = state.erasures
    found = erasures.records(principal_of(request).tenants, [request.path_params["erasure_id"]])
    if not found:
        raise NotFoundError("there is no erasure of this id; /api/v1/erasures lists them")
    record = found[0]
    note_tenant(request, record.tenant)
    note_parameters(request, erasure=record.id)
    with state.database.cursor() as cursor:
        head = head_after(cursor, record)
    return sign_report(build_report(record, state.signer, head), state.signer)


def _named(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
