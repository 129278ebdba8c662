"""`tracehold budgets`: how much of each budget is spent, and what the period will come to."""

from __future__ import annotations

from typing import Annotated

import typer

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client

_EXIT_OVER = 1
_COLUMNS = ("name", "state", "spent_usd", "usd", "forecast_usd", "unpriced_calls", "period", "timezone", "until")


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(budgets)


def budgets(
    fail: Annotated[bool, typer.Option("--fail", help="Exit 1 when one is over or will be: for cron and CI.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show how budgets stand: spent, forecast at the pace so far, state. Calls without a price make it a lower bound.

    Budgets are written in the TOML file that the collector got with --budgets: tables [[budget]] with usd, and where
    you like by and value, tenant, period (day, week, month), timezone, warn_at. A key of one tenant
    sees that tenant's. They are told and watched, not enforced; the engine's own budgets stop a run.
    """
    with Client(url) as client:
        rows = client.get("/api/v1/budgets").json()["budgets"]
    show(rows, as_json=as_json, columns=list(_COLUMNS), empty="no budgets: start the collector with --budgets FILE")
    if fail and any(row["state"] in {"over", "will be over"} for row in rows):
        raise typer.Exit(_EXIT_OVER)
