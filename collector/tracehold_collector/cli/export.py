"""`tracehold export`: events into a file that is whole or not there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from tracehold_collector.cli.options import UrlOption
from tracehold_collector.cli.output import STDOUT, ForceOption, OutputOption, written
from tracehold_collector.client import DEFAULT_URL, Client

_PATH: Final = "/api/v1/export/events"

_HELP: Final = {
    "csv": "Write events as CSV, a row each, with times as ISO 8601 and costs as known today.",
    "parquet": "Write events as Parquet, a row each, with costs as known today: for pandas, DuckDB, Spark.",
    "otlp": "Write events as OTLP, a trace request a line of JSON: for 'tracehold ingest' and any OTLP receiver.",
}

_EXAMPLE: Final = (
    "\n\nThe file appears under its name when it is whole; Ctrl-C leaves nothing. Every export is noted in the access "
    "log. Example: tracehold export {form} --from 2026-11-01 --to 2026-12-01 -o november.{suffix}"
)

From = Annotated[
    str | None, typer.Option("--from", "--since", help="From this time on, UTC: 2026-11-29 or 2026-11-29T17:00:00.")
]
To = Annotated[str | None, typer.Option("--to", "--until", help="Before this time, UTC.")]
Run = Annotated[str | None, typer.Option("--run", help="Only this run.")]
Trace = Annotated[str | None, typer.Option("--trace", help="Only this trace.")]
Session = Annotated[str | None, typer.Option("--session", help="Only this session, by its pseudonym.")]
User = Annotated[str | None, typer.Option("--user", help="Only this user, by the pseudonym.")]
Tenant = Annotated[str | None, typer.Option(help="Only this tenant.")]
Agent = Annotated[str | None, typer.Option(help="Only this agent.")]
Service = Annotated[str | None, typer.Option(help="Only this service.")]
Model = Annotated[str | None, typer.Option(help="Only this model.")]
Kind = Annotated[str | None, typer.Option(help="Only this kind: llm, tool, gate ...")]
Status = Annotated[str | None, typer.Option(help="Only this status: ok, error, blocked ...")]
Decision = Annotated[str | None, typer.Option(help="Only this decision of a gate: denied, rejected ...")]
WithContent = Annotated[
    bool,
    typer.Option("--with-content", help="Also what was said: prompts, replies, arguments. Needs the role content."),
]

export = typer.Typer(no_args_is_help=True, help="Write what is stored into a file: CSV, Parquet, OTLP, or evidence.")


def add_to(app: typer.Typer) -> None:
    """Add the verb with its forms."""
    app.add_typer(export, name="export")


def _command(form: str) -> Callable[..., None]:
    def run(
        since: From = None,
        until: To = None,
        run_id: Run = None,
        trace_id: Trace = None,
        session_id: Session = None,
        user_ref: User = None,
        tenant: Tenant = None,
        agent: Agent = None,
        service: Service = None,
        model: Model = None,
        kind: Kind = None,
        status: Status = None,
        decision: Decision = None,
        with_content: WithContent = False,
        output: OutputOption = STDOUT,
        force: ForceOption = False,
        url: UrlOption = DEFAULT_URL,
    ) -> None:
        asked = {
            "since": since, "until": until, "run_id": run_id, "trace_id": trace_id, "session_id": session_id,
            "user_ref": user_ref, "tenant": tenant, "agent": agent, "service": service, "model": model, "kind": kind,
            "status": status, "decision": decision, "with_content": "true" if with_content else None,
        }  # fmt: skip
        with (
            Client(url) as client,
            written(output, force=force, binary=form == "parquet") as file,
            client.stream(_PATH, {"format": form, **asked}) as (headers, pieces),
        ):
            events = int(headers["X-Tracehold-Events"])
            with progress(f"{events:,} events") as advance:
                for piece in pieces:
                    file.write(piece)
                    advance(len(piece))
        if output != STDOUT:
            typer.echo(f"{output}: {events:,} events", err=True)

    return run


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], Any]]:
    """Show how much of an export came in; gives what counts the bytes."""
    columns = (TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda size: progress.update(task, advance=size)


for _form, _help in _HELP.items():
    _suffix = {"otlp": "otlp.jsonl"}.get(_form, _form)
    export.command(_form, help=_help + _EXAMPLE.format(form=_form, suffix=_suffix))(_command(_form))
