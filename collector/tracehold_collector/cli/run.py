"""Runs the command, and turns our errors into one plain message and an exit status."""

from __future__ import annotations

import sys

import typer
from tracehold.core.errors import TraceholdError

from tracehold_collector.cli.verbs import make_app, modules_of

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def run() -> None:
    """Run the command: exit 0 when done, 1 with a message when not, 2 for wrong usage, 130 after Ctrl-C."""
    try:
        make_app(modules_of(sys.argv[1] if len(sys.argv) > 1 else None))()
    except TraceholdError as error:
        typer.secho(f"tracehold: {error}", err=True, fg=typer.colors.RED)
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe (head, less) went away: not a fault.
        sys.stderr.close()
        sys.exit(0)
