"""How the budgets stand, for people, dashboards and scripts."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.api.access import access_of, principal_of
from tracehold_collector.budgets import Budgets


async def list_budgets(request: Request) -> Response:
    """Return each budget with what is spent of it in the current period, and what it will come to.

    A key of some tenants is shown the budgets of these tenants.
    """
    budgets: Budgets = request.app.state.budgets
    oversees = principal_of(request).oversees
    states = await asyncio.to_thread(budgets.states, access_of(request), oversees=oversees)
    return JSONResponse({"budgets": [state.as_json() for state in states]})
