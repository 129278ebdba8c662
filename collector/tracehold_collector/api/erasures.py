"""Erasures and legal holds over HTTP: the register for who audits, the acts for who erases."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tracehold.core.clock import now_ns

from tracehold_collector.api.access import principal_of
from tracehold_collector.api.noting import note_parameters, note_rows, note_tenant
from tracehold_collector.api.objects import read_object
from tracehold_collector.core.errors import NotFoundError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.retention import Retention
from tracehold_collector.erasure.service import Erasures
from tracehold_collector.erasure.wire import hold_json, preview_json, record_json

REQUEST_KEYS: Final = ("tenant", "scope", "value", "mode", "basis", "received_at", "note")
HOLD_KEYS: Final = ("tenant", "scope", "value", "reason")


async def list_erasures(request: Request) -> Response:
    """Return the register: every erasure of the key's tenants, the latest request first."""
    records = await asyncio.to_thread(_erasures(request).records, principal_of(request).tenants)
    note_rows(request, len(records))
    now = now_ns()
    return JSONResponse({"erasures": [record_json(record, now) for record in records]})


async def get_erasure(request: Request) -> Response:
    """Return one erasure: how far it is, what was done where, what stayed and why, and who is to be told."""
    wanted = [request.path_params["erasure_id"]]
    found = await asyncio.to_thread(_erasures(request).records, principal_of(request).tenants, wanted)
    if not found:
        raise NotFoundError("there is no erasure of this id; /api/v1/erasures lists them")
    return _answer(request, found[0])


async def preview_erasure(request: Request) -> Response:
    """Say what an erasure would come to: how much, what legal holds keep, what else would stay; changes nothing."""
    body = await read_object(request, REQUEST_KEYS)
    preview = await asyncio.to_thread(_erasures(request).preview, body, principal_of(request))
    note_tenant(request, preview.tenant)
    note_parameters(request, scope=preview.scope, mode=preview.mode)
    return JSONResponse(preview_json(preview))


async def request_erasure(request: Request) -> Response:
    """Ask for an erasure; answers its record at once, and it is carried out from then on.

    With strict mode on, it waits for a second person, with another key, who approves of it.
    """
    body = await read_object(request, REQUEST_KEYS)
    return _answer(request, await asyncio.to_thread(_erasures(request).request, body, principal_of(request)))


async def approve_erasure(request: Request) -> Response:
    """Approve of a request as the second person; it is carried out from then on."""
    return await _decided(request, _erasures(request).approve)


async def refuse_erasure(request: Request) -> Response:
    """Refuse a request that waits for approval; whoever asked for it withdraws it so."""
    return await _decided(request, _erasures(request).refuse)


async def list_holds(request: Request) -> Response:
    """Return the legal holds of the key's tenants, the latest first; released ones too."""
    holds = await asyncio.to_thread(_erasures(request).holds, principal_of(request).tenants)
    note_rows(request, len(holds))
    return JSONResponse({"holds": [hold_json(hold) for hold in holds]})


async def place_hold(request: Request) -> Response:
    """Place a legal hold on a tenant, subject, session or run: nothing of it is erased until it is released."""
    body = await read_object(request, HOLD_KEYS)
    hold = await asyncio.to_thread(_erasures(request).place_hold, body, principal_of(request))
    note_tenant(request, hold.tenant)
    note_parameters(request, hold=hold.id)
    return JSONResponse(hold_json(hold))


async def release_hold(request: Request) -> Response:
    """Release a legal hold. What it kept stays until somebody asks again, or a retention policy takes it."""
    hold_id = request.path_params["hold_id"]
    await read_object(request, ())
    hold = await asyncio.to_thread(_erasures(request).release_hold, hold_id, principal_of(request))
    note_tenant(request, hold.tenant)
    return JSONResponse(hold_json(hold))


async def list_policies(request: Request) -> Response:
    """Return the retention policies that bind the key's tenants, the floor, and when they were applied last."""
    retention: Retention = request.app.state.retention
    tenants = principal_of(request).tenants
    policies = [
        policy for policy in retention.policies if tenants is None or policy.tenant is None or policy.tenant in tenants
    ]
    note_rows(request, len(policies))
    return JSONResponse(
        {
            "policies": [policy.model_dump(mode="json") for policy in policies],
            "min_retention_days": _erasures(request).rules.min_retention_days,
            "last_pass_at": iso_utc(retention.last_pass_at),
        }
    )


async def preview_retention(request: Request) -> Response:
    """Say what the retention policies would take of the key's tenants now; a dry run that changes nothing."""
    await read_object(request, ())
    retention: Retention = request.app.state.retention
    due = await asyncio.to_thread(retention.preview, principal_of(request).tenants)
    return JSONResponse({"due": [{"policy": each.policy.name, **preview_json(each.preview)} for each in due]})


async def run_retention(request: Request) -> Response:
    """Apply the retention policies to the key's tenants now, not at the next hour; answers the erasures this began."""
    await read_object(request, ())
    retention: Retention = request.app.state.retention
    records = await asyncio.to_thread(retention.run, principal_of(request).tenants)
    now = now_ns()
    return JSONResponse({"erasures": [record_json(record, now) for record in records]})


async def _decided(request: Request, decide: Any) -> Response:
    await read_object(request, ())
    record = await asyncio.to_thread(decide, request.path_params["erasure_id"], principal_of(request))
    return _answer(request, record)


def _answer(request: Request, record: ErasureRecord) -> Response:
    note_tenant(request, record.tenant)
    note_parameters(request, erasure=record.id)
    return JSONResponse(record_json(record, now_ns()))


def _erasures(request: Request) -> Erasures:
    found: Erasures = request.app.state.erasures
    return found
