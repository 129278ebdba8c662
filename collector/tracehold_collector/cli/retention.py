"""`tracehold retention`: the policies, what they would take, and a pass now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.settings import MIN_ACCESS_LOG_DAYS

retention = typer.Typer(
    no_args_is_help=True,
    help="How long what is kept. The collector applies the policies of its setting 'retention' once an hour: runs go "
    "whole, never while their session is used or an approval is awaited, and not below the minimum of 183 days.",
)


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(retention, name="retention")


@retention.command("list")
def list_(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the policies of the running collector, and when they were applied last."""
    with Client(url) as client:
        told = client.get("/api/v1/retention").json()
    columns = ["name", "tenant", "agent", "what", "kinds", "days"]
    show(told["policies"], as_json=as_json, columns=columns, empty="there are no retention policies")
    if not as_json:
        typer.echo(f"at least {told['min_retention_days']} days; last pass: {told['last_pass_at'] or 'none yet'}")


@retention.command()
def preview(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Say what the policies would take now, and what legal holds keep. A dry run: nothing is changed."""
    with Client(url) as client:
        due = client.ask("/api/v1/retention/preview", {}).json()["due"]
    for row in due:
        row["held_runs"] = sum(row["holds"].values())
    columns = ["policy", "tenant", "mode", "scope_value", "runs", "events", "content_bytes", "held_runs"]
    show(due, as_json=as_json, columns=columns, empty="there are no retention policies")


@retention.command()
def run(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Apply the policies now, not at the next hour. Each is an erasure of its own in 'tracehold erase list'."""
    with Client(url) as client:
        records = client.ask("/api/v1/retention/run", {}).json()["erasures"]
    columns = ["id", "tenant", "policy", "mode", "status"]
    show(records, as_json=as_json, columns=columns, empty="nothing has had its time")


@retention.command()
def check(
    file: Annotated[Path, typer.Argument(help="A file of policies, TOML with tables [[policy]].")],
    min_days: Annotated[int, typer.Option(help="The floor, as the collector's min_retention_days.")] = (
        MIN_ACCESS_LOG_DAYS
    ),
) -> None:
    """Check a file of policies before a collector is started with it. Example: tracehold retention check keep.toml."""
    from tracehold_collector.erasure.policies import load_policies  # noqa: PLC0415 - as the other checks do

    policies = load_policies(file, min_days)
    typer.echo(f"{file} can be used: {len(policies)} policies, none below {min_days} days")
