"""Options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line, for pipes.")]
UrlOption = Annotated[str, typer.Option("--url", envvar="TRACEHOLD_URL", help="Where the collector is.")]
