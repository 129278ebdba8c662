"""`tracehold erase`: previews, asks for, approves and follows erasures; `tracehold holds`: legal holds."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any, Final

import typer

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import cell, show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.erasure.words import BASES, BASIS_TEXTS, HOLD_KINDS, MODES, SCOPES

_EVERY_S: Final = 0.5
_DONE: Final = frozenset({"completed", "bytes gone", "refused", "waiting for approval"})
_BASES_TOLD: Final = "  ".join(f"{basis}: {BASIS_TEXTS[basis]}." for basis in BASES if basis != "retention")

erase = typer.Typer(
    no_args_is_help=True,
    help="Erases what was recorded: an event, a run, a session, a person (subject), a tenant, or what is older than a "
    "time.\n\nScrub empties what was said and keeps that it was; delete takes both. The audit log still verifies, and "
    "shows what was erased. Needs a key with the role erase; the role audit sees the register.",
)
holds = typer.Typer(
    no_args_is_help=True,
    help="Legal holds: what is under one is not erased, by nobody and on no ground, until it is released.",
)

Scope = Annotated[str, typer.Argument(help=f"What kind of thing: {', '.join(SCOPES)}.", metavar="SCOPE")]
Value = Annotated[
    str | None,
    typer.Argument(
        help="Which one: a person's or session's own id or its pseudonym, a run id, event ids with commas between, or "
        "a time for 'age'. - reads it from standard input, so that no shell keeps a person's name. None for 'tenant'.",
        metavar="VALUE",
    ),
]
TenantOption = Annotated[str | None, typer.Option("--tenant", help="Whose data. [default: the key's first tenant]")]
ModeOption = Annotated[str, typer.Option("--mode", help=f"{' or '.join(MODES)}.")]
BasisOption = Annotated[str, typer.Option("--basis", help="On what ground; listed below.")]
ErasureId = Annotated[str, typer.Argument(help="The erasure's id, as 'tracehold erase list' shows it.", metavar="ID")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(erase, name="erase")
    app.add_typer(holds, name="holds")


@erase.command(epilog=f"Grounds. {_BASES_TOLD}")
def preview(
    scope: Scope,
    value: Value = None,
    mode: ModeOption = "scrub",
    basis: BasisOption = "operator",
    tenant: TenantOption = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Say what an erasure would come to: how much, what legal holds keep, what else stays. Nothing is changed.

    Example: tracehold erase preview subject alice@example.org --mode delete
    """
    with Client(url) as client:
        told = _preview(client, _body(scope, value, mode, basis, tenant))
    if as_json:
        show([told], as_json=True)
    else:
        _tell_preview(told)


@erase.command(epilog=f"Grounds. {_BASES_TOLD}")
def request(
    scope: Scope,
    value: Value = None,
    mode: ModeOption = "scrub",
    basis: BasisOption = "operator",
    tenant: TenantOption = None,
    received_at: Annotated[
        str | None,
        typer.Option("--received-at", help="When the person asked; one month is counted from then. [default: now]"),
    ] = None,
    note: Annotated[
        str | None, typer.Option(help="For the record, such as a ticket; kept sealed, and shown with the role content.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask after the preview.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until nothing can be read any more, and say how it went.")] = True,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show what an erasure would come to, ask, and have it carried out. It cannot be undone.

    Once asked for, it goes on whatever becomes of this command; Ctrl-C only stops the waiting. Examples: tracehold
    erase request run run-42; tracehold erase request subject - --mode delete --basis gdpr-17-1-a --yes < id.txt
    """
    body = _body(scope, value, mode, basis, tenant)
    with Client(url) as client:
        if not yes:
            told = _preview(client, body)
            _tell_preview(told)
            if value == "-" or not sys.stdin.isatty():
                raise CollectorError("nothing was erased: there is nobody here to ask. Say --yes")
            if not typer.confirm(f"{mode.capitalize()} this for good?", default=False):
                raise CollectorError("nothing was erased")
        more = {"received_at": received_at, "note": note}
        record = client.ask(
            "/api/v1/erasures/request", body | {name: said for name, said in more.items() if said is not None}
        ).json()
        if wait:
            record = _followed(client, record, quiet=as_json)
    _tell(record, as_json=as_json)


@erase.command("list")
def list_(
    overdue: Annotated[bool, typer.Option("--overdue", help="Only those that should have been done by now.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the register of erasures, the latest request first, with those that are overdue (GDPR Art. 12(3))."""
    with Client(url) as client:
        rows = client.get("/api/v1/erasures").json()["erasures"]
    rows = [row for row in rows if row["overdue"] or not overdue]
    columns = ["id", "tenant", "status", "scope", "scope_value", "mode", "basis", "events", "requester", "due_at"]
    show(rows, as_json=as_json, columns=columns, empty="none is overdue" if overdue else "no erasure was asked for")


@erase.command("show")
def show_(erasure_id: ErasureId, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Show one erasure: its steps, what was done where, what stayed and why, and who is to be told."""
    with Client(url) as client:
        record = client.get(f"/api/v1/erasures/{erasure_id}").json()
    _tell(record, as_json=as_json)


@erase.command()
def approve(erasure_id: ErasureId, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Approve of a request as the second person, with another key than the one that asked (strict mode)."""
    with Client(url) as client:
        record = client.ask(f"/api/v1/erasures/{erasure_id}/approve", {}).json()
        record = _followed(client, record, quiet=as_json)
    _tell(record, as_json=as_json)


@erase.command()
def refuse(erasure_id: ErasureId, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Refuse a request that waits for approval; with the key that asked, withdraw it."""
    with Client(url) as client:
        record = client.ask(f"/api/v1/erasures/{erasure_id}/refuse", {}).json()
    _tell(record, as_json=as_json)


@holds.command("list")
def list_holds(
    released: Annotated[bool, typer.Option("--released", help="Those that were released, too.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List the legal holds."""
    with Client(url) as client:
        rows = client.get("/api/v1/holds").json()["holds"]
    rows = [row for row in rows if row["active"] or released]
    columns = ["id", "tenant", "scope", "value", "reason", "placed_by", "placed_at", "released_by", "released_at"]
    show(rows, as_json=as_json, columns=columns, empty="nothing is under a legal hold")


@holds.command()
def place(
    scope: Annotated[str, typer.Argument(help=f"{', '.join(HOLD_KINDS)}.", metavar="SCOPE")],
    reason: Annotated[str, typer.Option(help="Why, such as the number of a case; it is listed.")],
    value: Value = None,
    tenant: TenantOption = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Place a legal hold. Of a person or session, all runs that name them stay whole.

    Example: tracehold holds place subject alice@example.org --reason "case 12/26"
    """
    body = {"scope": scope, "value": _read_value(value), "reason": reason, "tenant": tenant}
    with Client(url) as client:
        hold = client.ask("/api/v1/holds/place", {name: said for name, said in body.items() if said is not None}).json()
    show([hold], as_json=as_json, columns=["id", "tenant", "scope", "value", "reason", "placed_by", "placed_at"])


@holds.command()
def release(
    hold_id: Annotated[str, typer.Argument(help="As 'tracehold holds list' shows it.", metavar="ID")],
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Release a legal hold. What it kept stays until somebody asks again, or a retention policy takes it."""
    with Client(url) as client:
        hold = client.ask(f"/api/v1/holds/{hold_id}/release", {}).json()
    show([hold], as_json=as_json, columns=["id", "scope", "value", "released_by", "released_at"])


def _body(scope: str, value: str | None, mode: str, basis: str, tenant: str | None) -> dict[str, Any]:
    given = {"scope": scope, "value": _read_value(value), "mode": mode, "basis": basis, "tenant": tenant}
    return {name: said for name, said in given.items() if said is not None}


def _read_value(value: str | None) -> str | None:
    return sys.stdin.readline().strip() if value == "-" else value


def _preview(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = client.ask("/api/v1/erasures/preview", body).json()
    return told


def _tell_preview(told: dict[str, Any]) -> None:
    what = told["scope"] if told["scope_value"] is None else f"{told['scope']} {told['scope_value']}"
    typer.echo(
        f"{told['mode']} of {what} (tenant {told['tenant']}): {told['events']:,} events of {told['runs']:,} runs, "
        f"{told['whole_runs']:,} of them whole; {told['content_bytes']:,} bytes of content in {told['chunks']:,} "
        f"chunks under {told['keys']:,} keys"
    )
    for stayed in told["stayed"]:
        typer.echo(f"  stays: {stayed['what']}: {stayed['why']}")
    if told["needs_approval"]:
        typer.echo("  a second person has to approve of it (strict_erasure)")


def _followed(client: Client, record: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Ask until it goes no further by itself, or a person's patience with what takes longer is used up."""
    said = ""
    while record["status"] not in _DONE and not record["failures"]:
        if not quiet and record["status"] != said:
            said = record["status"]
            typer.echo(f"{said} ...", err=True)
        time.sleep(_EVERY_S)
        record = client.get(f"/api/v1/erasures/{record['id']}").json()
    return record


def _tell(record: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show([record], as_json=True)
        return
    what = record["scope"] if record["scope_value"] is None else f"{record['scope']} {record['scope_value']}"
    typer.echo(f"erasure {record['id']} of {what} (tenant {record['tenant']}): {record['status']}")
    facts = {
        "mode": record["mode"],
        "ground": record["basis_text"],
        "asked for by": record["requester"],
        "approved by": record["approver"],
        "refused": record["refused_why"],
        "received": record["received_at"],
        "due": record["due_at"] + (" (overdue)" if record["overdue"] else ""),
        "unreadable since": record["unreadable_since"],
        "completed": record["completed_at"],
        "bytes gone since": record["bytes_gone_since"],
        "root of its leaves": record["root"],
        "tried again": f"{record['failures']} times, last for {record['last_error']}" if record["failures"] else None,
    }
    for name, value in facts.items():
        if value is not None:
            typer.echo(f"  {name + ':':20}{cell('at', value)}")
    if record["places"]:
        show(record["places"], as_json=False, columns=["place", "found", "removed", "emptied", "resealed", "error"])
    for stayed in record["stayed"]:
        typer.echo(f"  stayed: {stayed['what']}: {stayed['why']}")
    for each in record["recipients"]:
        until = f" until {cell('at', each['until'])}" if each["kind"] == "key backup" else ""
        typer.echo(f"  may have a copy: {each['kind']} {each['name']}{until}: {each['note']}")
    if (canaries := record["canaries"]) is not None:
        looked, found = canaries["sealed"] + canaries["plain"], sum(canaries["found"].values())
        typer.echo(f"  remains: {found} of {looked} pieces found in {canaries['files']} files")
