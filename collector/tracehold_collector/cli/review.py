"""`tracehold review`: the queue of denials, and what a reviewer does about one, under the login of their key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from tracehold_collector.cli.ask import Limit, Since, Until, reason_of
from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import QueryError

review = typer.Typer(
    no_args_is_help=True,
    help="Review denials: the queue, a verdict, the second sign-off of incidents, the daily record. Each act is an "
    "event of the log under the name of your key: use a key of your own with the roles read and audit (content as "
    "well, to see reasons, arguments and notes).",
)

_ID: Final = typer.Argument(help="The denial's event id, as 'tracehold review list' shows it.")
Denial = Annotated[str, _ID]
Note = Annotated[str | None, typer.Option("--note", "-m", help="Why, in words. Kept as content.")]
Tenant = Annotated[str | None, typer.Option(help="Whose, where your key names several tenants.")]
Revision = Annotated[
    int | None,
    typer.Option(
        min=0, help="The revision you saw: refused when somebody acted since. Left out, it is looked up just before."
    ),
]
_LISTED: Final = ["at", "event_id", "name", "decision", "rule", "agent", "state", "assignee", "verdict", "retries"]
_DAYS: Final = [
    "day",
    "tenant",
    "denials",
    "unreviewed",
    "awaiting_sign_off",
    "overdue",
    "incidents",
    "reviewers",
    "signed_by",
    "signed_at",
    "changed_after",
]


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(review, name="review")


@review.command("list")
def list_queue(
    state: Annotated[
        str | None, typer.Option(help="open, assigned, reviewed, awaiting_sign_off or closed; left out, any.")
    ] = None,
    assignee: Annotated[str | None, typer.Option(help="Only those this login has.")] = None,
    overdue: Annotated[bool, typer.Option("--overdue", help="Only those that wait too long.")] = False,
    due_hours: Annotated[int, typer.Option(min=1, help="Hours by which a denial should be reviewed.")] = 24,
    agent: Annotated[str | None, typer.Option(help="Only denials of this agent.")] = None,
    since: Since = None,
    until: Until = None,
    tenant: Tenant = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List denials with how their review stands, oldest first.

    Examples: tracehold review list --state open; tracehold review list --overdue --json
    """
    asked: dict[str, Any] = {"state": state, "assignee": assignee, "overdue": overdue or None, "due_hours": due_hours}
    asked |= {"agent": agent, "since": since, "until": until, "tenant": tenant, "limit": limit, "first": "oldest"}
    with Client(url) as client:
        rows = client.query("review_queue", asked)
    if not as_json:
        rows = [row | {"retries": _retries(row)} for row in rows]
    show(rows, as_json=as_json, columns=_LISTED, empty="no denial fits")
    if rows and not as_json and rows[0]["total"] > len(rows):
        typer.echo(f"\n{len(rows)} of {rows[0]['total']:,}; more with --limit")


@review.command("show")
def show_one(denial: Denial, tenant: Tenant = None, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """Show one denial: what was stopped and why, what the agent tried afterwards, and every act of its review."""
    with Client(url) as client:
        seen = _seen(client, denial, tenant)
        event = client.get(f"/api/v1/events/{quote(denial, safe='')}").json()
    if as_json:
        show([seen | {"denial": event["event"], "content": event["content"]}], as_json=True)
        return
    stands, envelope = seen["review"], event["event"]
    facts = {name: envelope.get(name) for name in ("name", "decision", "decided_by", "rule", "agent", "run_id")}
    facts |= {"reason": reason_of(event["content"])}
    facts |= {name: stands[name] for name in ("received_at", "state", "assignee", "verdict", "verdict_by", "revision")}
    show([{"what": name, "value": value} for name, value in facts.items()], as_json=False)
    typer.echo("\nwhat the agent tried afterwards")
    show(
        seen["retries"],
        as_json=False,
        columns=["at", "way", "name", "agent", "outcome", "same_arguments", "shared"],
        empty="nothing that looks like another try",
    )
    typer.echo("\nthe review so far")
    show(seen["acts"], as_json=False, columns=["at", "act", "by", "state", "assignee", "verdict", "note"], empty="-")
    if "content_withheld" in seen:
        typer.echo(f"\nreasons, arguments and notes are missing: {seen['content_withheld']}", err=True)


@review.command()
def assign(
    denial: Denial,
    to: Annotated[str | None, typer.Option("--to", help="The name of a colleague's key; left out, yourself.")] = None,
    note: Note = None,
    revision: Revision = None,
    tenant: Tenant = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Give a denial to somebody, or take it. Whoever reviews it in the end is recorded all the same."""
    _act(url, denial, tenant, revision, {"act": "assign", "assignee": to, "note": note})


@review.command()
def verdict(
    denial: Denial,
    found: Annotated[str, typer.Argument(metavar="VERDICT", help="justified, false_alarm or incident.")],
    note: Note = None,
    revision: Revision = None,
    tenant: Tenant = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Say what a denial was. An incident needs a note, and a second login that signs it off.

    Examples: tracehold review verdict ID justified; tracehold review verdict ID incident -m "mass mail, see INC-7"
    """
    _act(url, denial, tenant, revision, {"act": "verdict", "verdict": found, "note": note})


@review.command("sign-off")
def sign_off(
    denial: Denial, note: Note = None, revision: Revision = None, tenant: Tenant = None, url: UrlOption = DEFAULT_URL
) -> None:
    """Close an incident that another login found. If you do not agree, reopen it with a note."""
    _act(url, denial, tenant, revision, {"act": "sign_off", "note": note})


@review.command()
def reopen(
    denial: Denial,
    note: Annotated[str, typer.Option("--note", "-m", help="Why, in words. Kept as content.")],
    revision: Revision = None,
    tenant: Tenant = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Open a denial again that had a verdict. What was said before stays in the log."""
    _act(url, denial, tenant, revision, {"act": "reopen", "note": note})


@review.command()
def day(
    which: Annotated[
        str | None, typer.Argument(metavar="[DAY]", help="A day of receipt, UTC: 2026-11-30; left out, the last 14.")
    ] = None,
    sign: Annotated[bool, typer.Option("--sign", help="Sign the day off under your login.")] = False,
    with_open: Annotated[
        bool, typer.Option("--with-open", help="Sign it although denials of it are without a verdict or sign-off.")
    ] = False,
    note: Note = None,
    due_hours: Annotated[int, typer.Option(min=1, help="Hours by which a denial should be reviewed.")] = 24,
    tenant: Tenant = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show the daily review: how many denials, found to be what, by whom, what is open or overdue, who signed the day.

    Examples: tracehold review day; tracehold review day 2026-11-30 --sign
    """
    with Client(url) as client:
        if sign:
            _sign(client, which, tenant, note, with_open=with_open)
        asked: dict[str, Any] = {"due_hours": due_hours, "tenant": tenant}
        asked |= {"day": which} if which else {"from_day": _ago(14)}
        rows = client.query("review_days", asked)
    show(rows, as_json=as_json, columns=_DAYS, empty="no denials came in, and nobody signed")


def _sign(client: Client, which: str | None, tenant: str | None, note: str | None, *, with_open: bool) -> None:
    if which is None:
        raise QueryError("say which day to sign off, such as: tracehold review day 2026-11-30 --sign")
    path = f"/api/v1/review-days/{quote(which, safe='')}"
    seen = client.get(path, {"tenant": tenant}).json()["day"]
    waiting = seen["unreviewed"] + seen["awaiting_sign_off"]
    if waiting and not with_open:
        raise QueryError(
            f"{waiting} of {seen['denials']} denials of {which} wait for a verdict or a sign-off: 'tracehold review "
            "list' shows them. To sign the day off as it is, add --with-open; the signature says how many waited"
        )
    body = {name: seen[name] for name in ("denials", "unreviewed", "awaiting_sign_off")}
    client.ask(f"{path}/signatures", body | _given({"note": note, "tenant": tenant}), wait_s=60)


def _act(url: str, denial: str, tenant: str | None, revision: int | None, wish: Mapping[str, Any]) -> None:
    with Client(url) as client:
        if revision is None:
            revision = _seen(client, denial, tenant)["review"]["revision"]
        body = _given({**wish, "revision": revision, "tenant": tenant})
        done = client.ask(f"/api/v1/reviews/{quote(denial, safe='')}/acts", body, wait_s=60).json()["review"]
    found = f", {done['verdict']} by {done['verdict_by']}" if done["verdict"] else ""
    has = f", with {done['assignee']}" if done["assignee"] else ""
    typer.echo(f"{denial}: {done['state'].replace('_', ' ')}{has}{found} (revision {done['revision']})")


def _seen(client: Client, denial: str, tenant: str | None) -> dict[str, Any]:
    seen: dict[str, Any] = client.get(f"/api/v1/reviews/{quote(denial, safe='')}", {"tenant": tenant}).json()
    return seen


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _retries(row: Mapping[str, Any]) -> str:
    if not row["retries"]:
        return "-"
    return f"{row['retries']}, {'got through' if row['got_through'] else 'stopped again'}"


def _ago(days: int) -> str:
    return (datetime.now(UTC).date() - timedelta(days=days)).isoformat()
