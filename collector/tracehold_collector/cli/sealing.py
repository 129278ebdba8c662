"""`tracehold sealing`: backups of the key store, whether or not a collector runs on the data folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from tracehold.core.clock import now_ns

from tracehold_collector.cli.options import JsonOption
from tracehold_collector.cli.render import show
from tracehold_collector.core.settings import load_settings
from tracehold_collector.core.times import iso_utc

if TYPE_CHECKING:
    from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore

_DAY_NS: Final = 86_400 * 1_000_000_000

DataDir = Annotated[
    Path | None, typer.Option(help="The collector's data folder. [default: the platform's user data folder]")
]

sealing = typer.Typer(
    no_args_is_help=True,
    help="The keys that seal what agents said (keys.db). Without them no content can be read, and with an old copy of "
    "them content that was erased since can be: so a backup has a life of its own, which erasure reports state.\n\n"
    "Works on the data folder, so only for who may write there. Keep master.key apart from the backups.",
)


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(sealing, name="sealing")


@sealing.command()
def backup(
    to: Annotated[Path, typer.Option("--to", help="The new file; it must not be there yet.")],
    days: Annotated[int, typer.Option(min=1, max=3650, help="How many days it is kept: delete it by then.")] = 30,
    data_dir: DataDir = None,
    as_json: JsonOption = False,
) -> None:
    """Write a consistent copy of the key store, also while a collector runs, and register it.

    An erasure that comes later lists it until its time is over: whoever has it, the master key and an old copy of the
    database can read what was erased. To restore: stop the collector and put it back as keys.db; erasures that it does
    not know are applied at the start. Example: tracehold sealing backup --to /backup/keys-2026-11-30.db --days 30
    """
    with _store(data_dir) as store:
        now = now_ns()
        made = store.backup(to, made_at=now, expires_at=now + days * _DAY_NS)
    row = _row(made.path, made.made_at, made.expires_at, now)
    if as_json:
        show([row], as_json=True)
    else:
        typer.echo(f"{made.path} holds the keys as of now; delete it by {iso_utc(made.expires_at)}")


@sealing.command()
def backups(data_dir: DataDir = None, as_json: JsonOption = False) -> None:
    """List the backups of the key store ever made here, and those that should be gone by now."""
    with _store(data_dir) as store:
        now = now_ns()
        rows = [_row(made.path, made.made_at, made.expires_at, now) for made in store.backups()]
    show(rows, as_json=as_json, columns=["path", "made_at", "expires_at", "state"], empty="no backup was made here")


def _row(path: str, made_at: int, expires_at: int, now: int) -> dict[str, Any]:
    expired, there = expires_at <= now, Path(path).exists()
    state = ("delete it now" if there else "expired") if expired else ("there" if there else "moved, or deleted")
    return {"path": path, "made_at": iso_utc(made_at), "expires_at": iso_utc(expires_at), "state": state}


@contextmanager
def _store(data_dir: Path | None) -> Iterator[SqliteKeyStore]:
    from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore  # noqa: PLC0415 - the ciphers take a moment

    settings = load_settings(data_dir=data_dir, host="127.0.0.1")
    with closing(SqliteKeyStore.open_in(settings.data_dir, may_create=False)) as store:
        yield store
