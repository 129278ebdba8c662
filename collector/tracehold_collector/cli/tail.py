"""`tracehold tail`: events as they are committed, until Ctrl-C; it comes back by itself after a restart."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import orjson
import typer

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import cell
from tracehold_collector.client import DEFAULT_URL, BusyError, Client, UnreachableError
from tracehold_collector.core.sent_events import SentEvent

_PATH: Final = "/api/v1/tail"
_LONGEST_WAIT_S: Final = 10.0


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(tail)


def tail(
    run_id: Annotated[str | None, typer.Option("--run", help="Only events of this run.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only events of this kind: llm, tool, gate ...")] = None,
    name: Annotated[str | None, typer.Option(help="Only events of this name, such as a tool's.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only events of this agent.")] = None,
    status: Annotated[str | None, typer.Option(help="Only events of this status: ok, error, blocked ...")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only events of this tenant.")] = None,
    denials: Annotated[bool, typer.Option("--denials", help="Only what gates stopped.")] = False,
    last: Annotated[int, typer.Option("--last", "-n", min=0, max=500, help="Past events to begin with.")] = 0,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Follow: print events as they come in, until Ctrl-C. What was said is not shown.

    When the collector restarts, it goes on without a gap. When events come faster than they can be printed, it says
    how many were left out.

    Examples: tracehold tail --denials; tracehold tail --run RUN --last 20 --json
    """
    filters = {"run_id": run_id, "kind": kind, "name": name, "agent": agent, "status": status, "tenant": tenant}
    asked: dict[str, Any] = filters | {"denials": "true" if denials else None, "last": last or None}
    with Client(url) as client:
        for event in _followed(client, asked):
            if event.name == "skipped":
                skipped = json.loads(event.data)["skipped"]
                typer.echo(f"... {skipped:,} events are left out: they came faster than they were read", err=True)
            elif event.name == "message" and event.data:
                _print(orjson.loads(event.data), as_json=as_json)


def _followed(client: Client, asked: dict[str, Any]) -> Iterator[SentEvent]:
    """The events of one connection after the other; only the first may fail."""
    last_id, reached, wait_s = "", False, 1.0
    while True:
        try:
            for event in client.sent_events(_PATH, asked, last_id):
                if not reached:
                    typer.echo(f"following {client.url}; stop with Ctrl-C", err=True)
                reached, wait_s, last_id = True, 1.0, event.last_id
                asked["last"] = None
                yield event
            typer.echo("the collector ended the connection; trying again", err=True)
        except UnreachableError:
            if not reached:
                raise
            if wait_s == 1.0:
                typer.echo("the collector does not answer; trying again until it does", err=True)
        except BusyError as error:
            typer.echo(str(error), err=True)
            wait_s = error.retry_after_s
        time.sleep(wait_s)
        wait_s = min(_LONGEST_WAIT_S, wait_s * 2)


def _print(event: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        line = json.dumps(event, ensure_ascii=False)
    else:
        line = "  ".join(cell(name, value) for name, value in _told(event))
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _told(event: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "at", event["at"]
    yield "run_id", event["run_id"]
    yield "what", " ".join(event[key] for key in ("kind", "name", "status") if event[key])
    for name in ("decision", "decided_by", "rule", "error_type", "agent", "model", "duration_ns", "cost_usd"):
        if event[name] is not None:
            yield name, event[name]
