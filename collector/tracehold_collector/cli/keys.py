"""`tracehold keys`: makes, lists, changes and ends API keys, whether or not a collector runs on the data folder."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from tracehold.core.clock import NS_PER_S, now_ns

from tracehold_collector.access.keys import Key, KeyFile, NewKey
from tracehold_collector.access.limits import Limit
from tracehold_collector.access.roles import MAY, Role
from tracehold_collector.access.tokens import Token
from tracehold_collector.cli.options import JsonOption
from tracehold_collector.cli.render import show
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.settings import CollectorSettings, load_settings
from tracehold_collector.core.times import iso_utc, parse_moment_ns

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION: Final = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)

Which = Annotated[str, typer.Argument(help="The key's id or name, as 'tracehold keys list' shows it.", metavar="ID")]
DataDir = Annotated[
    Path | None, typer.Option(help="The collector's data folder. [default: the platform's user data folder]")
]
PerSecond = Annotated[
    float | None, typer.Option("--requests-per-second", help="Requests a second at most. [default: no limit]")
]
PerDay = Annotated[
    int | None, typer.Option("--events-per-day", help="Events taken in a UTC day at most. [default: no limit]")
]

keys = typer.Typer(
    no_args_is_help=True,
    help="API keys: who may send, read and see what was said, and for which tenants.\n\n"
    "The first key ends keyless access, also on this machine. A running collector sees every change within a second. "
    "Works on the data folder, so only for who may write there.",
)


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(keys, name="keys")


_ROLES_TOLD: Final = "  ".join(f"{role}: {may}." for role, may in MAY.items())


@keys.command(epilog=f"Roles. {_ROLES_TOLD}")
def create(
    name: Annotated[str, typer.Argument(help="What people call the key: the agent or person it is for.")],
    role: Annotated[list[str], typer.Option(help="ingest, read, content, audit, erase or admin; may be repeated.")],
    tenant: Annotated[
        list[str] | None,
        typer.Option(
            help="A tenant it may write and see; may be repeated. The first is that of data which claims none. "
            "[default: the collector's own tenant]"
        ),
    ] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Every tenant, those to come included, instead of --tenant.")
    ] = False,
    expires: Annotated[
        str | None, typer.Option(help="When it ends: 90d, 12h, 2027-01-31 or 'never'. [default: never]")
    ] = None,
    requests_per_second: PerSecond = None,
    events_per_day: PerDay = None,
    data_dir: DataDir = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key and print it, once: only a hash is kept, so put it away now.

    Examples: tracehold keys create mail-agent --role ingest --tenant acme --expires 90d; tracehold keys create ann
    --role read --role content; tracehold keys create ops --role admin --all-tenants
    """
    if tenant and all_tenants:
        raise CollectorError("give either --tenant or --all-tenants")
    with _file(data_dir) as (file, settings):
        tenants = None if all_tenants else tuple(tenant or [settings.tenant])
        limit = Limit(requests_per_second, events_per_day)
        roles = cast("list[Role]", role)  # checked where the key is made
        key, token = file.create(NewKey(name, roles, tenants, _end(expires), limit))
    _tell(key, token, as_json=as_json)


@keys.command("list")
def list_(data_dir: DataDir = None, as_json: JsonOption = False) -> None:
    """List the keys: what each may, until when, and when it was last used. Never a secret."""
    with _file(data_dir) as (file, _):
        rows = [_row(key) for key in file.listed()]
    columns = ["id", "name", "state", "roles", "tenants", "created_at", "expires_at", "last_used_at"]
    show(
        rows if as_json else [_plain(row) for row in rows],
        as_json=as_json,
        columns=columns,
        empty="no keys yet: this machine only, without a key. Make one with 'tracehold keys create'",
    )


@keys.command()
def revoke(which: Which, data_dir: DataDir = None, as_json: JsonOption = False) -> None:
    """End a key for good, within a second also at a running collector. Example: tracehold keys revoke mail-agent."""
    with _file(data_dir) as (file, _):
        key = file.revoke(which)
    if as_json:
        show([_row(key)], as_json=True)
    else:
        typer.echo(f"{key.id} ({key.name}) is revoked")


@keys.command()
def rotate(
    which: Which,
    grace: Annotated[str, typer.Option(help="How long the old secret is still taken: 24h, 30m, 0s.")] = "24h",
    data_dir: DataDir = None,
    as_json: JsonOption = False,
) -> None:
    """Give a key a new secret and print it, once; the old one is taken until the time of grace is over.

    Senders can then be changed one by one. A key that leaked is better revoked, or rotated with --grace 0s.
    """
    with _file(data_dir) as (file, _):
        key, token = file.rotate(which, _duration_ns("--grace", grace))
    _tell(key, token, as_json=as_json)


@keys.command()
def limit(
    which: Which,
    requests_per_second: PerSecond = None,
    events_per_day: PerDay = None,
    data_dir: DataDir = None,
    as_json: JsonOption = False,
) -> None:
    """Set what a key may use up; what is left out has no limit.

    A sender beyond it gets 429 with Retry-After, over gRPC RESOURCE_EXHAUSTED with RetryInfo, and keeps its events.
    """
    with _file(data_dir) as (file, _):
        key = file.limit(which, Limit(requests_per_second, events_per_day))
    show([_row(key) if as_json else _plain(_row(key))], as_json=as_json)


@contextmanager
def _file(data_dir: Path | None) -> Iterator[tuple[KeyFile, CollectorSettings]]:
    # Loopback: a host that wants a key must not keep the first one from being made.
    settings = load_settings(data_dir=data_dir, host="127.0.0.1")
    with closing(KeyFile(settings.data_dir, f"{_user()}, by the command")) as file:
        yield file, settings


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "somebody"


def _tell(key: Key, token: Token, *, as_json: bool) -> None:
    if as_json:
        show([{**_row(key), "key": token.reveal()}], as_json=True)
        return
    typer.echo(token.reveal())
    typer.echo(
        f"{key.id} ({key.name}): {', '.join(key.roles)}; tenants: {_tenants(key)}; "
        f"expires: {iso_utc(key.expires_at) or 'never'}\n"
        "This is the only time it is shown. Clients read it from TRACEHOLD_API_KEY.",
        err=True,
    )


def _row(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "state": key.state(now_ns()),
        "roles": list(key.roles),
        "tenants": None if key.tenants is None else list(key.tenants),
        "all_tenants": key.tenants is None,
        "created_at": iso_utc(key.created_at),
        "expires_at": iso_utc(key.expires_at),
        "revoked_at": iso_utc(key.revoked_at),
        "rotated_at": iso_utc(key.rotated_at),
        "old_secret_until": iso_utc(key.previous_until),
        "last_used_at": iso_utc(key.last_used_at),
        "requests_per_second": key.limit.requests_per_s,
        "events_per_day": key.limit.events_per_day,
    }


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    tenants = "all" if row["all_tenants"] else ", ".join(row["tenants"])
    return {**row, "roles": ", ".join(row["roles"]), "tenants": tenants}


def _tenants(key: Key) -> str:
    return "all" if key.tenants is None else ", ".join(key.tenants)


def _end(text: str | None) -> int | None:
    if text is None or text == "never":
        return None
    if _DURATION.fullmatch(text):
        return now_ns() + _duration_ns("--expires", text)
    moment = parse_moment_ns(text)
    if moment is None:
        raise CollectorError("--expires takes a time from now such as 90d or 12h, a date such as 2027-01-31, or never")
    return moment


def _duration_ns(flag: str, text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise CollectorError(f"{flag} takes a number and a unit of s, m, h, d or w, such as 24h")
    return int(match[1]) * _UNITS[match[2]] * NS_PER_S
