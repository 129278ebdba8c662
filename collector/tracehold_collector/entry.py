"""The `tracehold` command's door: says which extra to install when the rest is not there.

Imports nothing but the standard library, since `pip install .` brings no server and no terminal toolkit.
"""

from __future__ import annotations

import sys
from typing import Final

from tracehold_collector.core.lean import without_pandas

_SERVERS: Final = frozenset({"collect", "up", "demo"})


def main() -> None:
    """Run the command, or say what to install."""
    if sys.argv[1:2] and sys.argv[1] in _SERVERS:
        without_pandas()
    try:
        from tracehold_collector.cli.run import run  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tracehold"):
            raise
        sys.exit(
            f"tracehold: this command needs the package {error.name!r}, which is not installed.\n"
            "Install the collector and the command in a clone of Tracehold with: pip install '.[collector]'\n"
            "or everything with:                                                 pip install '.[all]'"
        )
    run()
