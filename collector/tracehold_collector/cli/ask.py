"""The verbs that ask: `query`, `runs`, `denials`, `spend`."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any, Final

import typer

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import QueryError

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many rows at most.")]
Since = Annotated[str | None, typer.Option(help="From this time on, UTC: 2026-11-29 or 2026-11-29T17:00:00.")]
Until = Annotated[str | None, typer.Option(help="Before this time, UTC.")]

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(query)
    app.command()(runs)
    app.command()(denials)
    app.command()(spend)


def query(
    name: Annotated[str | None, typer.Argument(help="A named query; leave it out to list them.")] = None,
    parameters: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="A parameter, as name=value; may be repeated.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Run a named query, or list them.

    Examples: tracehold query; tracehold query tools; tracehold query latency -p kind=llm --json
    """
    with Client(url) as client:
        if name is None:
            catalogue = client.get("/api/v1/queries").json()["queries"]
            show(
                [{"name": entry["name"], "answers": entry["question"]} for entry in catalogue],
                as_json=as_json,
            )
            return
        given = _pairs(parameters or [])
        if csv:
            sys.stdout.write(client.get(f"/api/v1/queries/{name}", given, accept="text/csv").text)
            return
        show(client.query(name, given), as_json=as_json)


def runs(
    status: Annotated[
        str | None, typer.Option(help="Only runs of this status: ok, error, blocked, started ...")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List runs, newest first."""
    with Client(url) as client:
        rows = client.query("runs", {"status": status, "agent": agent, "since": since, "until": until, "limit": limit})
    columns = [
        "started_at",
        "run_id",
        "name",
        "agent",
        "status",
        "duration_ns",
        "llm_calls",
        "tool_calls",
        "denials",
        "cost_usd",
    ]
    show(
        rows,
        as_json=as_json,
        columns=columns,
        empty=f"no runs yet. Send some to {url}, or try 'tracehold demo'",
    )


def denials(
    agent: Annotated[str | None, typer.Option(help="Only attempts of this agent.")] = None,
    rule: Annotated[str | None, typer.Option(help="Only those stopped by this rule.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List what gates stopped: which attempt, by which rule or person, why, and what happened next."""
    with Client(url) as client:
        rows = client.query(
            "gate_denials", {"agent": agent, "rule": rule, "since": since, "until": until, "limit": limit}
        )
        contents = _contents(client, [row["event_id"] for row in rows])
    for row in rows:
        row["reason"] = reason_of(contents.get(row["event_id"]))
    columns = [
        "at",
        "run_id",
        "kind",
        "name",
        "decision",
        "rule",
        "decided_by",
        "reason",
        "next_event",
    ]
    show(rows, as_json=as_json, columns=columns, empty="nothing was stopped")


def spend(
    since: Annotated[
        str | None,
        typer.Option(
            help="From this day on, in the time zone (2026-11-29), or this moment, UTC (2026-11-29T17:00:00)."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Before this day, in the time zone, or before this moment, UTC.")
    ] = None,
    timezone: Annotated[str, typer.Option(help="Whose days: a zone name such as Europe/Berlin.")] = "UTC",
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show spend by day and model, in USD. Calls without a known price make a total a lower bound.

    Example, one day in Berlin: tracehold spend --since 2026-03-29 --until 2026-03-30 --timezone Europe/Berlin
    """
    bounds = {
        ("from_day" if _DAY.fullmatch(since or "") else "since"): since,
        ("until_day" if _DAY.fullmatch(until or "") else "until"): until,
    }
    with Client(url) as client:
        rows = client.query("spend_by_model_day", bounds | {"timezone": timezone})
    show(rows, as_json=as_json, empty="no model calls yet")
    if rows and not as_json:
        known = sum(row["cost_usd"] or 0 for row in rows)
        unpriced = sum(row["unpriced_calls"] for row in rows)
        typer.echo(
            f"\ntotal {known:,.6f} USD, days in {timezone}"
            + (f"; {unpriced:,} calls have no known cost: a lower bound" if unpriced else "")
        )


def reason_of(content: dict[str, Any] | None) -> str | None:
    """Return why a gate stopped something, from its event's content, on one line."""
    found = _find_reason(content or {})
    return None if found is None else " ".join(found.split())[:200]


def _find_reason(content: dict[str, Any]) -> str | None:
    for key in ("reason", "message", "detail", "error"):
        value = content.get(key)
        if isinstance(value, str) and value:
            return value
    for key in ("data", "attributes"):
        inner = content.get(key)
        if isinstance(inner, dict) and (found := _find_reason(inner)):
            return found
    categories = content.get("categories")
    return ", ".join(map(str, categories)) if isinstance(categories, list) and categories else None


def _contents(client: Client, event_ids: list[str]) -> dict[str, dict[str, Any] | None]:
    found: dict[str, dict[str, Any] | None] = {}
    for start in range(0, len(event_ids), 100):
        page = event_ids[start : start + 100]
        answer = client.get("/api/v1/contents", {"event_id": page}).json()
        found |= answer["contents"]
        if start == 0 and answer.get("content_withheld"):
            typer.echo(f"reasons are missing: {answer['content_withheld']}", err=True)
    return found


def _pairs(texts: list[str]) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise QueryError(f"--param {text!r} is not of the form name=value")
        pairs.setdefault(name, []).append(value)
    return pairs
