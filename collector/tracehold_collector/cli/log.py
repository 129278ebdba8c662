"""`tracehold log`: looks into the log file of an engine, whether or not the engine runs. Nothing is ever written.

`verify` also checks the trace files that `SqliteExporter` writes: one command for every hash chain (DEC-08).
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from tracehold.core.errors import StoreError
from tracehold.events.chain import ChainReport
from tracehold.events.cloudevents import to_cloudevent
from tracehold.events.event import FIELDS, Event
from tracehold.events.sqlite import layout, reading, verifying
from tracehold.events.store import RunInfo
from tracehold.observability.exporters import trace_chain

from tracehold_collector.cli.log_file import events_of, has_traces, opened, require
from tracehold_collector.cli.options import JsonOption
from tracehold_collector.cli.render import cell
from tracehold_collector.cli.render import show as show_rows

COMPLETED: Final = "aaa.run.completed"
_LOOK_S: Final = 0.2
_SHOWN_CHARS: Final = 120
_NO_CHAIN: Final = (
    "the traces in this file have no hash chain and were not checked: an older version wrote them, or the chain was "
    "removed"
)

File = Annotated[Path, typer.Argument(help="The engine's log: the file its SQLiteEventStore was given.")]
RunId = Annotated[str, typer.Argument(help="A run's id, as 'tracehold log list' shows it.")]

log = typer.Typer(
    no_args_is_help=True,
    help="Look into an engine's log file: its runs, their events, whether it was altered. Opens it read-only; the "
    "engine may be running.",
)


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(log, name="log")


@log.command("list")
def list_(
    file: File,
    open_only: Annotated[bool, typer.Option("--open", help="Only runs that have not ended.")] = False,
    tenant: Annotated[str | None, typer.Option(help="Only runs of this tenant.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs in a log, oldest first: algorithm, tenant, how each ended, how many events it has."""
    with opened(file) as connection:
        runs = reading.run_index(connection, open_only=open_only)
        sizes = dict(connection.execute("SELECT name, last_seq + 1 FROM log_streams"))
    rows = [_run_row(info, sizes.get(info.stream)) for info in runs if tenant in {None, info.started.tenant}]
    whose = f" of tenant {tenant!r}" if tenant is not None else ""
    show_rows(rows, as_json=as_json, empty=f"no {'open ' if open_only else ''}runs{whose} in this log")


@log.command()
def show(file: File, run: RunId, as_json: JsonOption = False) -> None:
    """Show the events of a run, in order. With --json whole, without it each payload's first characters."""
    with opened(file) as connection:
        require(connection, file, run)
        _print(events_of(connection, file, run), as_json=as_json)


@log.command()
def tail(
    file: File,
    run: RunId,
    last: Annotated[int, typer.Option("--last", "-n", min=0, help="How many past events to begin with.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Follow a run: its last events, then each new one, until the run has ended or Ctrl-C."""
    with opened(file) as connection:
        require(connection, file, run)
        newest = reading.last_seq(connection, run)
        following = max(0, newest + 1 - last)
        ended = reading.is_completed(connection, run)
        while True:
            for event in events_of(connection, file, run, following):
                following = event.seq + 1
                ended = ended or event.type == COMPLETED
                _print_line(event, as_json=as_json)
            sys.stdout.flush()
            if ended:
                return
            time.sleep(_LOOK_S)
            require(connection, file, run)  # deleted meanwhile: there is nothing left to wait for


@log.command()
def verify(
    file: Annotated[Path, typer.Argument(help="An engine's log, or a trace file that a SqliteExporter was given.")],
    run: Annotated[str | None, typer.Argument(help="Only this run of an engine's log; default the whole file.")] = None,
    heads: Annotated[
        bool, typer.Option("--heads", help="Also print each stream's last hash: kept elsewhere, it proves a rewrite.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the hash chains: an edit, a cut tail or a removed run shows, a documented erasure does not.

    Exits 1 when something does not fit. Whoever can write the file can also compute the whole chain anew: against that,
    keep heads elsewhere.
    """
    with opened(file, to_verify=True, traces=run is None) as connection:
        report = _checked(connection, file, run)
    problems = [{"stream": one.stream, "seq": one.seq, "problem": one.what} for one in report.problems]
    if as_json:
        told: dict[str, Any] = {
            "ok": report.ok,
            "streams": report.streams,
            "events": report.events,
            "erased": report.erased,
            "deleted": report.deleted,
            "problems": problems,
            "notes": list(report.notes),
            "heads": report.heads,
        }
        show_rows([told], as_json=True)
    else:
        if problems:
            show_rows(problems, as_json=False)
        counted = f"{report.streams:,} streams, {report.events:,} events, {report.erased:,} of them erased"
        typer.echo(f"{'intact' if report.ok else 'ALTERED'}: {counted}; {report.deleted:,} streams deleted")
        for note in report.notes:
            typer.echo(f"note: {note}")
        if heads:
            show_rows([{"stream": name, "head": head} for name, head in report.heads.items()], as_json=False)
    if not report.ok:
        raise typer.Exit(1)


@log.command()
def export(
    file: File,
    runs: Annotated[list[str] | None, typer.Argument(help="Runs to export; default every stream.")] = None,
    cloudevents: Annotated[
        bool, typer.Option("--cloudevents", help="CloudEvents 1.0 in structured JSON instead.")
    ] = False,
) -> None:
    """Print events as JSON, one a line, in a form that 'tracehold ingest' reads.

    Payloads are in it as the log holds them; those in a blob store are not. Examples: tracehold log export log.db >
    log.jsonl; tracehold log export log.db r-1 --cloudevents
    """
    with opened(file) as connection:
        for run in runs or ():
            require(connection, file, run)
        streams = runs or [name for (name,) in connection.execute("SELECT name FROM log_streams ORDER BY no")]
        for stream in streams:
            for event in events_of(connection, file, stream):
                made = to_cloudevent(event) if cloudevents else {"stream": stream, "event": _as_json(event)}
                sys.stdout.write(json.dumps(made) + "\n")


def _checked(connection: sqlite3.Connection, file: Path, run: str | None) -> ChainReport:
    logged = traced = None
    if layout.has_log(connection):
        if run is not None and not layout.missing_tables(connection):
            require(connection, file, run)
        logged = verifying.verify(connection, run)
    if run is None and has_traces(connection):
        traced = trace_chain.verify(connection)
        if traced is None and logged is None:
            raise StoreError(
                f"{file} holds traces without a hash chain: an older version wrote it, or the chain was removed. A "
                "SqliteExporter that opens it takes over the rows as they are now; keep a copy first"
            )
        if traced is None:
            traced = ChainReport(0, 0, 0, 0, {}, (), (_NO_CHAIN,))
    first, *more = [report for report in (logged, traced) if report is not None]
    return _together(first, more[0]) if more else first


def _together(logged: ChainReport, traced: ChainReport) -> ChainReport:
    """Return one report on a file that an engine and an exporter share."""
    return ChainReport(
        streams=logged.streams + traced.streams,
        events=logged.events + traced.events,
        erased=logged.erased,
        deleted=logged.deleted,
        heads=logged.heads | traced.heads,
        problems=logged.problems + traced.problems,
        notes=logged.notes + traced.notes,
    )


def _run_row(info: RunInfo, events: int | None) -> dict[str, Any]:
    started, completed = info.started, info.completed
    ended = completed.data.get("kind") if completed is not None else None
    return {
        "started_at": _at(started),
        "run": info.stream,
        "algo": started.data.get("algo"),
        "tenant": started.tenant,
        "parent": started.data.get("parent"),
        "ended": ended if completed is not None else "open",
        "duration_ns": None if completed is None else int((completed.time - started.time).total_seconds() * 1e9),
        "events": events,
    }


def _print(events: Iterator[Event], *, as_json: bool) -> None:
    if as_json:
        for event in events:
            _print_line(event, as_json=True)
        return
    rows: list[dict[str, Any]] = []
    failed: StoreError | None = None
    try:
        for event in events:
            row = {"seq": event.seq, "at": _at(event), "type": event.type, "data": _shown(event)}
            rows.append(row)
    except StoreError as error:  # the events in front of one that cannot be read are shown all the same
        failed = error
    if rows or failed is None:
        show_rows(rows, as_json=False)
    if failed is not None:
        raise failed


def _print_line(event: Event, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(_as_json(event)) + "\n")
    else:
        typer.echo(f"{event.seq:>5}  {cell('at', _at(event))}  {cell('type', event.type):<26}  {_shown(event)}")


def _shown(event: Event) -> str:
    # ASCII JSON: nothing in a payload can move the terminal's cursor.
    text = json.dumps(event.data)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 3] + "..."


def _as_json(event: Event) -> dict[str, Any]:
    made = {name: getattr(event, name) for name in FIELDS if name != "dup"}
    made["time"] = _at(event)
    made["blobs"] = [
        {"uri": ref.uri, "sha256": ref.sha256, "size": ref.size, "media_type": ref.media_type} for ref in event.blobs
    ]
    return made


def _at(event: Event) -> str:
    return event.time.isoformat(timespec="microseconds").replace("+00:00", "Z")
