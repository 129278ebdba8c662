"""`tracehold controls`: which control serves which rule, what shows it, and when the rules apply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tracehold_collector.cli.options import JsonOption
from tracehold_collector.cli.render import show
from tracehold_collector.controls.catalogue import Catalogue, load_controls


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(controls)


def controls(
    rule: Annotated[
        str | None, typer.Option(help="Only controls that serve this rule: 'AI Act', 'GDPR', 'PCI', 'NIST AU-9' ...")
    ] = None,
    dates: Annotated[bool, typer.Option("--dates", help="Dates and periods instead, each with its source.")] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            envvar="TRACEHOLD_CONTROLS_FILE",
            help="A TOML file of your own: its entries take the place of those of the same id that ship.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List which control serves which rule, the command or page that shows it, and since when the rule applies.

    A map for whoever prepares an audit, no claim of compliance. Examples: tracehold controls --rule 'PCI DSS 10.4';
    tracehold controls --dates
    """
    catalogue = load_controls(file)
    if dates:
        rows = [
            {"id": one.id, "what": one.what, "value": str(one.value), "source": one.source, "note": one.note}
            for one in catalogue.dates.values()
        ]
        show(rows, as_json=as_json)
    else:
        show(_rows(catalogue, rule), as_json=as_json, empty=f"no control names {rule!r}")
    if not as_json:
        typer.echo(
            f"\nas of {catalogue.as_of}; whether a rule concerns you and what is enough for it is yours to judge"
        )


def _rows(catalogue: Catalogue, rule: str | None) -> list[dict[str, Any]]:
    return [
        {
            "control": control.id,
            "what": control.what,
            "serves": "; ".join(control.serves),
            "shown_by": "; ".join([*control.commands, *([f"page {control.page}"] if control.page else [])]),
            "dates": "; ".join(f"{name}: {catalogue.dates[name].value}" for name in control.dates) or None,
        }
        for control in catalogue.controls.values()
        if rule is None or any(rule.casefold() in served.casefold() for served in control.serves)
    ]
