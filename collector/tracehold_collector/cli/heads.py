"""`tracehold heads`: the signed tree heads of the audit log, the keys that sign them, and where copies go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from tracehold.core.clock import now_ns

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.settings import load_settings
from tracehold_collector.core.times import iso_utc

Tenant = Annotated[str | None, typer.Option(help="Whose log; by default all you may see.")]
Folder = Annotated[
    Path | None, typer.Option(help="The collector's data folder. [default: the platform's user data folder]")
]

heads = typer.Typer(
    no_args_is_help=True,
    help="The audit log's signed tree heads, and the keys that sign them. Keep both in a place of your own: they are "
    "what 'tracehold verify' needs to notice a log that was rebuilt as a whole.",
)


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(heads, name="heads")


@heads.command("list")
def list_(tenant: Tenant = None, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the newest tree head of each log: how many leaves it covers, its root, when it was signed."""
    with Client(url) as client:
        rows = [_row(log) for log in _logs(client, tenant)]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    else:
        show(rows, as_json=False, columns=("tenant", "leaves", "covered", "signed_at", "root"), empty="no log yet")


@heads.command("show")
def show_note(
    tenant: Annotated[str | None, typer.Argument(help="Whose log; may be left out when there is one.")] = None,
    size: Annotated[int | None, typer.Option(help="The head of this size; by default the newest.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Print one tree head as the signed note it is: redirect it to a file, and keep that.

    Example: tracehold heads show > head-2026-11-30.txt; later: tracehold verify --tree-heads head-2026-11-30.txt
    """
    with Client(url) as client:
        logs = _logs(client, tenant)
        if len(logs) != 1:
            raise typer.BadParameter(f"name one of {', '.join(log['tenant'] for log in logs)}", param_hint="TENANT")
        newest = [logs[0]["head"]] if logs[0]["head"] else []
        found = newest if size is None else [head for head in _heads(client, logs[0]) if head["size"] == size]
    if not found:
        raise CollectorError("there is no such tree head; 'tracehold heads list' shows the newest of each log")
    typer.echo(found[0]["note"], nl=False)


@heads.command("keys")
def keys(tenant: Tenant = None, url: UrlOption = DEFAULT_URL) -> None:
    """Print the verifier keys of each log, the one in use first: what --key of 'tracehold verify' takes."""
    with Client(url) as client:
        for log in _logs(client, tenant):
            for key in log["keys"]:
                typer.echo(key)


@heads.command("rotate")
def rotate(data_dir: Folder = None) -> None:
    """Retire the key that signs tree heads for a new one, here on the collector's machine; it may be running.

    What the old key signed can still be verified, its private half is gone. Give the new verifier key ('tracehold heads
    keys') to whoever verifies, by a way that does not lead over this machine.
    """
    from tracehold_collector.audit.signing import Signer  # noqa: PLC0415 - pydantic, for this only

    # Loopback: a host that wants a key has nothing to do with this one.
    folder = load_settings(data_dir=data_dir, host="127.0.0.1").data_dir
    key = Signer(folder, now_ns()).rotate(now_ns())
    typer.echo(f"a new key signs tree heads since {iso_utc(key.since)}; its verifier keys: tracehold heads keys")


def _logs(client: Client, tenant: str | None) -> list[dict[str, Any]]:
    logs: list[dict[str, Any]] = client.get("/api/v1/log").json()["logs"]
    return [log for log in logs if tenant is None or log["tenant"] == tenant]


def _heads(client: Client, log: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/log/state", {"tenant": log["tenant"]}).json()["heads"]
    return found


def _row(log: dict[str, Any]) -> dict[str, Any]:
    head = log["head"] or {}
    return {
        "tenant": log["tenant"],
        "leaves": log["size"],
        "covered": head.get("size", 0),
        "signed_at": head.get("signed_at"),
        "root": head.get("root"),
        "note": head.get("note"),
    }
