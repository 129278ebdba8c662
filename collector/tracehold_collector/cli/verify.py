"""`tracehold verify`: whether anything in the audit log was altered, and what."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tracehold_collector.audit.notes import VerifierKey, parse_verifier_key
from tracehold_collector.cli.options import UrlOption
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import AuditError, CollectorError
from tracehold_collector.heads.copies import read_notes
from tracehold_collector.store.log_rows import Contents
from tracehold_collector.verify.findings import Finding, Report
from tracehold_collector.verify.remote import RemoteLog
from tracehold_collector.verify.run import alarm_text, verify_log
from tracehold_collector.verify.window import LogSource

EXIT_ALARM: Final = 1
_CONTENTS: Final = get_args(Contents)


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("verify")(verify)


def verify(
    tenant: Annotated[
        list[str] | None, typer.Option(help="Whose log; may be repeated. By default all you may see.")
    ] = None,
    stretch: Annotated[
        str | None, typer.Option("--leaves", help="Only these leaves, such as 0:5000; read on to the next tree head.")
    ] = None,
    event: Annotated[str | None, typer.Option("--event", help="Only this event, by its id.")] = None,
    heads: Annotated[
        list[Path] | None,
        typer.Option(
            "--tree-heads",
            help="Tree heads you kept, or a second place did: a note, or tree-heads.log. May be repeated.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            help="A verifier key you got by other means; may be repeated. By default those that the collector names.",
        ),
    ] = None,
    contents: Annotated[
        str,
        typer.Option(
            help="none, check (the collector holds them against commitments), raw (you do; needs the role content)."
        ),
    ] = "check",
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", help="Read this folder's store instead of asking a collector; none may be running on it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a log.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Check the audit log: every leaf against its event, the tree against its signed tree heads.

    Each leaf is verified, erased, expired (erased by a retention policy), missing or altered; only the last two are
    alarms and end with exit status 1. What the collector says is not believed, but computed here again; keep a tree
    head ('tracehold heads list') and the verifier key in a place of your own, and give them with --tree-heads and
    --key: only then would you notice a log that was rebuilt as a whole.
    """
    if contents not in _CONTENTS:
        raise typer.BadParameter(f"one of {', '.join(_CONTENTS)}", param_hint="--contents")
    notes = [note for path in heads or [] for note in read_notes(path)]
    given = [parse_verifier_key(text) for text in key or []]
    with ExitStack() as stack:
        source, logs, events = _open(stack, url, data_dir, cast("Contents", contents))
        chosen = [log for log in logs if not tenant or log["tenant"] in tenant]
        _check_tenants(tenant, logs)
        where = None if stretch is None else _leaves(stretch)
        if event is not None:
            whose, index = events(event)
            chosen, where = [log for log in chosen if log["tenant"] == whose], (index, index + 1)
        reports = [_verify(source, log, given, notes, where) for log in chosen]
    reports += _vanished(notes, logs)
    if not reports:
        typer.echo("there is no log yet: nothing was recorded since the audit log began")
    for report in reports:
        typer.echo(json.dumps(_as_json(report)) if as_json else _as_text(report, named_keys=bool(given)))
    if not all(report.intact for report in reports):
        raise typer.Exit(EXIT_ALARM)


def _vanished(notes: list[str], logs: list[dict[str, Any]]) -> list[Report]:
    """A tree head that somebody kept, of a log that is not here any more: all of it was cut off."""
    known = {log["origin"] for log in logs}
    reports = []
    for origin in dict.fromkeys(note.partition("\n")[0] for note in notes):
        if origin not in known:
            report = Report(origin)
            report.alarm(Finding("missing", None, None, "a tree head of this log was given, and no such log is here"))
            reports.append(report)
    return reports


def _verify(
    source: LogSource, log: dict[str, Any], given: list[VerifierKey], notes: list[str], where: tuple[int, int] | None
) -> Report:
    origin = str(log["origin"])
    keys = [one for one in given if one.name == origin] if given else [parse_verifier_key(text) for text in log["keys"]]
    if not keys:
        raise AuditError(
            f"none of the keys given is of the log {origin}: a verifier key begins with the origin of its log. "
            "'tracehold heads keys' shows those of the collector"
        )
    own = [note for note in notes if note.startswith(f"{origin}\n")]
    with _progress(str(log["tenant"])) as progress:
        return verify_log(
            source, str(log["tenant"]), origin=origin, keys=keys, notes=own, stretch=where, progress=progress
        )


def _open(
    stack: ExitStack, url: str, data_dir: Path | None, contents: Contents
) -> tuple[LogSource, list[dict[str, Any]], Any]:
    if data_dir is not None:
        from tracehold_collector.cli.verify_folder import open_folder  # noqa: PLC0415 - DuckDB, for this only

        return open_folder(stack, data_dir, contents)
    client = stack.enter_context(Client(url))

    def place(event_id: str) -> tuple[str, int]:
        said = client.get(f"/api/v1/events/{event_id}").json()["event"]
        return _placed(event_id, said["tenant"], said["leaf_index"])

    return RemoteLog(client, contents=contents), client.get("/api/v1/log").json()["logs"], place


def _placed(event_id: str, tenant: str, leaf_index: int | None) -> tuple[str, int]:
    if leaf_index is None:
        raise CollectorError(f"event {event_id} is from before the audit log began: nothing vouches for it")
    return tenant, leaf_index


def _check_tenants(wanted: list[str] | None, logs: list[dict[str, Any]]) -> None:
    known = {log["tenant"] for log in logs}
    for tenant in wanted or []:
        if tenant not in known:
            raise CollectorError(
                f"there is no log of tenant {tenant!r} here; there are: {', '.join(sorted(known)) or 'none'}"
            )


def _leaves(text: str) -> tuple[int, int]:
    first, _, end = text.partition(":")
    if not (first.isdigit() and end.isdigit() and int(first) < int(end)):
        raise typer.BadParameter("two leaf indexes with a colon between them, such as 0:5000", param_hint="--leaves")
    return int(first), int(end)


@contextmanager
def _progress(what: str) -> Iterator[Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(f"verifying {what}", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _as_text(report: Report, *, named_keys: bool) -> str:
    counted = ", ".join(f"{count:,} {state}" for state, count in sorted(report.counts.items()) if count) or "no leaves"
    verdict = "intact" if report.intact else f"NOT INTACT: {report.alarms:,} alarm{'s' if report.alarms > 1 else ''}"
    lines = [
        f"{report.tenant}: {verdict}",
        f"  leaves {report.first:,} to {report.end:,}: {counted}",
        f"  {report.heads:,} tree heads fit; the last one covers {report.covered:,} leaves",
    ]
    if report.end > report.covered and not report.first:
        lines.append(f"  {report.end - report.covered:,} leaves wait for the next tree head")
    if report.before:
        lines.append(f"  {report.before:,} events are from before the log began: nothing vouches for them")
    if report.unchecked:
        lines.append(f"  {report.unchecked:,} contents were not looked at")
    if not named_keys:
        lines.append("  the keys believed are those that the collector named; give --key to rely on your own")
    lines += [f"  note: {note}" for note in report.notes]
    lines += [f"  ! {alarm_text(finding)}" for finding in report.findings]
    if report.alarms > len(report.findings):
        lines.append(f"  ... and {report.alarms - len(report.findings):,} more")
    return "\n".join(lines)


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "tenant": report.tenant,
        "intact": report.intact,
        "first": report.first,
        "end": report.end,
        "counts": dict(report.counts),
        "alarms": report.alarms,
        "findings": [finding._asdict() for finding in report.findings],
        "tree_heads": report.heads,
        "covered": report.covered,
        "before_the_log": report.before,
        "contents_not_looked_at": report.unchecked,
        "notes": report.notes,
    }
