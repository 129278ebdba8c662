"""Puts the verbs together and turns our errors into one plain message and an exit status."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from tracehold.core.errors import TraceholdError
from tracehold.core.version import __version__

from tracehold_collector.cli import (
    access,
    ask,
    budgets,
    controls,
    doctor,
    erase,
    erasure,
    explain,
    export,
    export_evidence,
    gaps,
    heads,
    ingest,
    keys,
    log,
    policy,
    prices,
    retention,
    review,
    sealing,
    search,
    serving,
    sql,
    tail,
    verify,
)

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="tracehold",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The flight recorder for AI agents: records what an agent does and answers for it.",
    epilog="Start with 'tracehold up', then send events to the address it prints. Settings: flag, TRACEHOLD_* "
    "variable, tracehold.toml, default.",
)

serving.add_to(app)
ingest.add_to(app)
explain.add_to(app)
ask.add_to(app)
search.add_to(app)
tail.add_to(app)
gaps.add_to(app)
review.add_to(app)
policy.add_to(app)
controls.add_to(app)
sql.add_to(app)
export.add_to(app)
export_evidence.add_to(app)
budgets.add_to(app)
log.add_to(app)
heads.add_to(app)
verify.add_to(app)
erase.add_to(app)
erasure.add_to(app)
retention.add_to(app)
sealing.add_to(app)
prices.add_to(app)
keys.add_to(app)
access.add_to(app)
doctor.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tracehold {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version_wanted: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""


def run() -> None:
    """Run the command: exit 0 when done, 1 with a message when not, 2 for wrong usage, 130 after Ctrl-C."""
    try:
        app()
    except TraceholdError as error:
        typer.secho(f"tracehold: {error}", err=True, fg=typer.colors.RED)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe (head, less) went away: not a fault.
        sys.stderr.close()
        sys.exit(0)
