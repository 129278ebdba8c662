"""`tracehold explain`: shows how a file would be read, without a collector."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from tracehold.privacy import Cleaner

from tracehold_collector.cli.options import JsonOption
from tracehold_collector.cli.render import cell
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Rejection
from tracehold_collector.explain import Explanation, explain_file
from tracehold_collector.load import find_files
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.sessions import Form

_KEYED: Final = frozenset({"user_ref", "session_id"})
"""Columns that depend on the secret of a store; none is open here."""

_HIDDEN: Final = frozenset({"event_id", "tenant", "source"})
"""Columns that say nothing about how an item was read."""

_TEXTS: Final = 48


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(explain)


def explain(
    file: Annotated[Path, typer.Argument(help="A file that 'tracehold ingest' takes.", metavar="FILE")],
    span: Annotated[
        str | None,
        typer.Option("--span", help="Only the item with this span id or place, as this command prints it."),
    ] = None,
    form: Annotated[
        Form, typer.Option("--from", help="Whose recorded session the file is; auto recognises it.")
    ] = Form.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Show how a file is read: which attribute fills which column, by whose rule, and what no rule reads.

    Nothing is sent or stored, and no collector is needed. What no rule reads is kept as content all the same. The
    version of the mapping table is printed with each item: a store notes which version read what it holds (query
    unmapped). Exits 1 when the file cannot be read, or holds nothing of that name.
    """
    (path,) = find_files([file], form)
    shown = 0
    for found in _wanted(explain_file(path, _context(), form), span):
        lines = [json.dumps(_row(found), ensure_ascii=False)] if as_json else [*_lines(found), ""]
        for line in lines:
            typer.echo(line.encode("utf-8", "backslashreplace").decode())
        shown += 1
    if not shown:
        raise CollectorError(f"{file} holds no {span}" if span else f"{file} holds no span, log record or event")


def _context() -> NormaliseContext:
    cleaner = Cleaner(mask="[REDACTED]", mask_name=lambda name: f"[REDACTED:{name}]")
    return NormaliseContext("default", Pseudonyms(secrets.token_bytes(32), "default"), cleaner)


def _wanted(found: Iterator[Explanation | Rejection], span: str | None) -> Iterator[Explanation | Rejection]:
    for item in found:
        if span is None or span in {item.where, getattr(getattr(item, "record", None), "span_id", None)}:
            yield item


def _lines(found: Explanation | Rejection) -> Iterator[str]:
    if isinstance(found, Rejection):
        yield f"{found.where}: refused: {found.reason}"
        return
    record = found.record
    yield f"{found.what} {found.where} {cell('name', record.name)}"
    rows = [("column", "value", "attribute", "whose", "rule")]
    for reading in found.readings:
        rows += [
            (name, _shown(name, value), reading.attribute, reading.dialect, reading.rule)
            for name, value in reading.columns.items()
            if name not in _HIDDEN
        ]
    rows += [(name, _shown(name, value), "-", "-", "-") for name, value in found.given.items() if name not in _HIDDEN]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    yield f"  kind: {cell('kind', found.kind)}"
    yield f"  decision: {cell('decision', found.decision)}"
    for name, reason in found.idle.items():
        yield f"  known, but idle: {cell('name', name)}: {cell('reason', reason)}"
    if found.unread:
        yield f"  read by no rule, kept as content: {cell('names', ', '.join(found.unread))}"
    yield f"  mapping: version {found.mapping}"


def _shown(name: str, value: Any) -> str:
    if name in _KEYED and value is not None:
        return "a pseudonym"
    text = cell("" if name.endswith("_at") else name, value)
    return text if len(text) <= _TEXTS else text[: _TEXTS - 1] + "…"


def _row(found: Explanation | Rejection) -> dict[str, Any]:
    if isinstance(found, Rejection):
        return {"where": found.where, "refused": found.reason}
    return {
        "where": found.where,
        "what": found.what,
        "run_id": found.record.run_id,
        "span_id": found.record.span_id,
        "name": found.record.name,
        "readings": [
            {
                "attribute": reading.attribute,
                "dialect": reading.dialect or None,
                "rule": reading.rule,
                "columns": _plain(reading.columns),
            }
            for reading in found.readings
        ],
        "from_the_item_itself": _plain(found.given),
        "idle": found.idle,
        "kept_as_content": found.unread,
        "kind": found.kind,
        "decision": found.decision,
        "mapping_version": found.mapping,
    }


def _plain(columns: dict[str, Any]) -> dict[str, Any]:
    return {
        name: "a pseudonym" if name in _KEYED and value is not None else value
        for name, value in columns.items()
        if name not in _HIDDEN
    }
