"""`tracehold policy`: recording which policy is in force, showing one by its digest, and what changed between two."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from tracehold.governance import canonical_json, load_policy

from tracehold_collector.cli.ask import Limit, Since, Until
from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import QueryError
from tracehold_collector.policies.diff import diff_policies

policy = typer.Typer(
    no_args_is_help=True,
    help="Which policy was in force for an agent: record one, see who changed it and when, show it, compare two.",
)

Tenant = Annotated[str | None, typer.Option(help="Whose agent, where your key names several tenants.")]
Agent = Annotated[str | None, typer.Option(help="Only this agent.")]

_PREFIX: Final = "sha256:"
_SHORT: Final = 8


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(policy, name="policy")


@policy.command()
def record(
    file: Annotated[Path, typer.Argument(help="A policy file, .toml or .json.")],
    agent: Annotated[str, typer.Option(help="The agent's name, as its events have it.")],
    tenant: Tenant = None,
    note: Annotated[str | None, typer.Option("--note", "-m", help="Why it changed, in words.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Record that a policy is in force for an agent from now on, under the login of your key (role ingest).

    Run it where the policy is deployed. The policy that is in force already adds nothing. Nothing is enforced here: the
    agent's own gates do that. Example: tracehold policy record policy.toml --agent support
    """
    loaded = load_policy(file)
    body = {"policy": loaded.to_dict(), "agent": agent, "tenant": tenant, "note": note}
    with Client(url) as client:
        told = client.ask(
            "/api/v1/policies", {key: value for key, value in body.items() if value is not None}, wait_s=60
        ).json()
    if as_json:
        show([told], as_json=True)
    elif told["event_id"] is None:
        typer.echo(f"{told['policy_digest']} is in force for {agent} already")
    else:
        before = f", in place of {told['previous_digest']}" if told["previous_digest"] else ""
        typer.echo(f"{told['policy_digest']} is in force for {agent} from now on{before}")


@policy.command("list")
def list_changes(
    agent: Agent = None,
    since: Since = None,
    until: Until = None,
    tenant: Tenant = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List which policy was put in force for which agent, when and by whom, newest first."""
    asked = {"agent": agent, "since": since, "until": until, "tenant": tenant, "limit": limit}
    with Client(url) as client:
        rows = client.query("policy_changes", asked)
    columns = ["at", "tenant", "agent", "policy_digest", "previous_digest", "author", "author_is"]
    show(rows, as_json=as_json, columns=columns, empty="no policy was recorded; see 'tracehold policy record'")


@policy.command()
def on(
    day: Annotated[str | None, typer.Argument(help="A day, UTC: 2026-11-30; left out, today.")] = None,
    agent: Agent = None,
    tenant: Tenant = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show what each agent was allowed on a day: which policy, since when, by whom, and which ones judged its calls.

    A row without 'since' judged calls while nobody had recorded it, or while another policy was in force. One without
    decisions was in force and not asked.
    """
    asked = {"day": day or datetime.now(UTC).date().isoformat(), "agent": agent, "tenant": tenant}
    with Client(url) as client:
        rows = client.query("policies_on", asked)
    columns = ["tenant", "agent", "policy_digest", "since", "until", "author", "author_is", "decisions", "denials"]
    show(rows, as_json=as_json, columns=columns, empty="no policy was in force, and none judged a call")


@policy.command("show")
def show_policy(
    digest: Annotated[str, typer.Argument(help="A policy's digest, or its first 8 digits or more.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Print a recorded policy as JSON, and say on standard error whether it matches its digest. Needs content."""
    with Client(url) as client:
        found, exact = _recorded(client, digest)
    typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
    said = (
        "matches its digest" if exact else "does NOT match its digest: parts of it were masked on its way, or altered"
    )
    typer.echo(f"this policy {said}", err=True)


@policy.command()
def diff(
    before: Annotated[str, typer.Argument(help="A digest, or a policy file.")],
    after: Annotated[str, typer.Argument(help="The same.")],
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show what changed from one policy to another: + new, - gone, ~ changed. Needs content for recorded ones.

    Examples: tracehold policy diff sha256:1f2e3d4c sha256:9a8b7c6d; tracehold policy diff 1f2e3d4c policy.toml
    """
    with Client(url) as client:
        lines = diff_policies(_either(client, before), _either(client, after))
    for line in lines or ["the two allow the same"]:
        typer.echo(line)


def _either(client: Client, name: str) -> dict[str, Any]:
    if name.endswith((".toml", ".json")):
        return load_policy(name).to_dict()
    return _recorded(client, name)[0]


def _recorded(client: Client, digest: str) -> tuple[dict[str, Any], bool]:
    """A recorded policy, and whether it is what its digest was made of."""
    wanted = digest.lower().removeprefix(_PREFIX)
    if len(wanted) < _SHORT or not set(wanted) <= set("0123456789abcdef"):
        raise QueryError(f"{digest[:80]!r} is no digest: give its first {_SHORT} hex digits or more, or a policy file")
    rows = client.query("policy_changes", {"limit": 10_000})
    matching = {row["policy_digest"]: row["event_id"] for row in rows if _fits(row["policy_digest"], wanted)}
    if not matching:
        raise QueryError(f"no recorded policy begins with {wanted[:64]}; see tracehold policy list")
    if len(matching) > 1:
        raise QueryError(f"{len(matching)} recorded policies begin with {wanted[:64]}; give more digits")
    ((whole, event_id),) = matching.items()
    answer = client.get(f"/api/v1/events/{quote(event_id, safe='')}").json()
    said = (answer.get("content") or {}).get("policy")
    if said is None:
        why = answer.get("content_withheld") or "its content was erased"
        raise QueryError(f"the policy {whole} cannot be shown: {why}")
    document = json.loads(said) if isinstance(said, str) else said
    text = said.encode() if isinstance(said, str) else canonical_json(document)
    return document, _PREFIX + hashlib.sha256(text).hexdigest() == whole


def _fits(digest: str | None, wanted: str) -> bool:
    return digest is not None and digest.removeprefix(_PREFIX).startswith(wanted)
