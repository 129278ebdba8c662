"""How the budgets stand, for people, dashboards and scripts."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tracehold_collector.budgets import Budgets


async def list_budgets(request: Request) -> Response:
    """Return each budget with what is spent of it in the current period, and what it will come to."""
    budgets: Budgets = request.app.state.budgets
    states = await asyncio.to_thread(budgets.states)
    return JSONResponse({"budgets": [state.as_json() for state in states]})
