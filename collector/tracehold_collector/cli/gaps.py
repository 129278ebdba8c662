"""`tracehold gaps`: when nothing was recorded, and why."""

from __future__ import annotations

from typing import Any

import typer

from tracehold_collector.cli.ask import Limit, Since, Until
from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client

_NS_PER_S = 1_000_000_000


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(gaps)


def gaps(
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List when the collector did not run, sent senders away, or its clock jumped, with the cause; the latest first.

    A gap is a stretch without a collector, a pause one in which senders were told to come back (nothing of theirs is
    lost when they do). A row of the cause first_start says since when there is a store.

    Examples: tracehold gaps; tracehold gaps --since 2026-11-01 --json
    """
    with Client(url) as client:
        rows = client.query("gaps", {"since": since, "until": until, "limit": limit})
    if not as_json:
        for row in rows:
            row["lasted"] = _lasted(row["duration_ns"])
    columns = ["type", "cause", "started_at", "ended_at", "lasted", "refused"]
    show(rows, as_json=as_json, columns=columns, empty="no gaps in this time")


def _lasted(duration_ns: Any) -> str | None:
    if duration_ns is None:
        return None
    seconds = int(duration_ns) / _NS_PER_S
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, whole = divmod(rest, 60)
    if not (days or hours or minutes):
        return f"{seconds:.1f} s"
    return " ".join(f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (whole, "s")) if n)
