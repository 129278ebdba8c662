"""Which module has which verb. A command imports the modules of its verb only: all of them take a second.

`tracehold --help`, and whatever is no verb, has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Final

import typer
from tracehold.core.version import __version__

VERBS: Final[dict[str, tuple[str, ...]]] = {
    "serving": ("up", "collect", "dashboard", "demo"),
    "ingest": ("ingest",),
    "explain": ("explain",),
    "ask": ("query", "runs", "denials", "spend"),
    "search": ("search",),
    "tail": ("tail",),
    "gaps": ("gaps",),
    "review": ("review",),
    "policy": ("policy",),
    "controls": ("controls",),
    "sql": ("sql",),
    "export": ("export",),
    "export_evidence": ("export",),
    "budgets": ("budgets",),
    "log": ("log",),
    "heads": ("heads",),
    "verify": ("verify",),
    "erase": ("erase", "holds"),
    "erasure": ("erasure", "records-of-processing"),
    "retention": ("retention",),
    "sealing": ("sealing",),
    "prices": ("prices",),
    "keys": ("keys",),
    "access": ("access",),
    "doctor": ("doctor",),
}
"""The verbs of each module in this package, in the order in which help lists them."""


def modules_of(verb: str | None) -> list[str]:
    """Return the modules that a verb needs; all of them for anything else."""
    return [module for module, verbs in VERBS.items() if verb in verbs] or list(VERBS)


def make_app(modules: Iterable[str]) -> typer.Typer:
    """Return the command with the verbs of these modules."""
    app = typer.Typer(
        name="tracehold",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="The flight recorder for AI agents: records what an agent does and answers for it.",
        epilog="Start with 'tracehold up', then send events to the address it prints. Settings: flag, TRACEHOLD_* "
        "variable, tracehold.toml, default.",
    )
    app.callback()(_root)
    for module in modules:
        import_module(f"tracehold_collector.cli.{module}").add_to(app)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tracehold {__version__}")
        raise typer.Exit


def _root(
    _version_wanted: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""
