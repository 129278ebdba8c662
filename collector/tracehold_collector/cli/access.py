"""`tracehold access`: who asked for what, from the running collector's access log."""

from __future__ import annotations

from typing import Annotated

import typer

from tracehold_collector.cli.ask import Limit, Since, Until
from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(access)


def access(
    key: Annotated[str | None, typer.Option(help="Only what this key did, by its id or name.")] = None,
    action: Annotated[str | None, typer.Option(help="Only read, export, admin, denied or lost.")] = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[int | None, typer.Option(help="Only lines with a smaller number: the next page.")] = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List who looked at what, what was exported, changed and refused, newest first. Needs a key with the role audit.

    Examples: tracehold access --action denied; tracehold access --key ann --since 2026-11-01 --json
    """
    asked = {"key": key, "action": action, "since": since, "until": until, "before": before, "limit": limit}
    with Client(url) as client:
        answer = client.get("/api/v1/access-log", asked).json()
    rows = [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]
    if not as_json:
        for row in rows:
            row["tenants"] = "all" if row["tenants"] is None else ", ".join(row["tenants"]) or None
            row["parameters"] = ", ".join(f"{name}={said}" for name, said in (row["parameters"] or {}).items()) or None
    show(rows, as_json=as_json, columns=answer["columns"][:-1], empty="the access log has no such lines")
