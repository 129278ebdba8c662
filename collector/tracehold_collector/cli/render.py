"""How rows look: a table for people, JSON for pipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_RIGHT: Final = ("_ns", "_ms", "tokens", "calls", "errors", "denials", "events", "blocked", "usd", "count")


def show(
    rows: Sequence[Mapping[str, Any]], *, as_json: bool, columns: Sequence[str] | None = None, empty: str = ""
) -> None:
    """Print rows.

    Args:
        rows: what to print.
        as_json: JSON lines instead of a table.
        columns: which columns a table shows, in order; default all. JSON always has all.
        empty: said to people when there are no rows.
    """
    if as_json:
        for row in rows:
            # A lone surrogate, which no encoding takes, becomes the escape that JSON has for it.
            text = json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
            sys.stdout.write(text + "\n")
        return
    if not rows:
        typer.echo(empty or "nothing found")
        return
    names = list(columns or rows[0])
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        table.add_column(name, justify="right" if name.endswith(_RIGHT) else "left", overflow="fold")
    for row in rows:
        # Text, not markup: a span name may not colour or link anything.
        table.add_row(*(Text(cell(name, row.get(name))) for name in names))
    # A pipe has no width: wide enough, then, that nothing is folded.
    Console(width=None if sys.stdout.isatty() else 240).print(table)


def cell(name: str, value: Any) -> str:
    """Return a value as people read it: unknown is a dash, money has cents that matter, times lose their zeros."""
    if value is None:
        return "-"
    if name.endswith("usd"):
        return f"{value:,.6f}".rstrip("0").rstrip(".") if value else "0"
    if name.endswith("duration_ns"):
        return f"{value / 1e9:,.3f} s"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int) and not isinstance(value, bool) and not name.endswith("_ns"):
        return f"{value:,}"
    text = str(value)
    if (name == "at" or name.endswith("_at")) and text.endswith("Z"):
        return text[:19].replace("T", " ")
    # Control characters in a name could move the terminal's cursor.
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
