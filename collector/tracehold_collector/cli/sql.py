"""`tracehold sql`: an analyst's own SELECT."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any, Final

import httpx
import typer

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.output import STDOUT, ForceOption, OutputOption, written
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import CollectorError

_PATH: Final = "/api/v1/sql"


class Form(StrEnum):
    """How rows are printed or written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


_ACCEPT: Final = {
    Form.TABLE: "application/json",
    Form.JSON: "application/json",
    Form.CSV: "text/csv",
    Form.PARQUET: "application/vnd.apache.parquet",
}


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(sql)


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="One SELECT; - reads it from standard input. Leave it out to list the tables.")
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="How to print the rows.")] = Form.TABLE,
    max_rows: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Rows at most; more are cut off, and said.")
    ] = 10_000,
    output: OutputOption = STDOUT,
    force: ForceOption = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Run a SELECT of your own over the stored envelopes: runs, events, costs. What was said is not in these tables.

    It reads only, in a process of its own, with limits on time, memory and rows, and sees what your key may see.
    Examples: tracehold sql; tracehold sql "SELECT model, count(*) FROM events GROUP BY model";
    tracehold sql --format parquet -o week.parquet - < week.sql
    """
    if as_json:
        form = Form.JSON
    if output != STDOUT and form in {Form.TABLE, Form.JSON}:
        raise CollectorError("-o writes --format csv or parquet; name one of them")
    with Client(url) as client:
        if statement is None:
            _show_tables(client, as_json=form is Form.JSON)
            return
        text = sys.stdin.read() if statement == "-" else statement
        question = {"sql": text, "max_rows": max_rows}
        if form in {Form.TABLE, Form.JSON}:
            answer = client.ask(_PATH, question, accept=_ACCEPT[form])
            _show(answer.json(), as_json=form is Form.JSON)
        else:
            with written(output, force=force, binary=form is Form.PARQUET) as file:
                answer = client.ask(_PATH, question, accept=_ACCEPT[form])
                file.write(answer.content)
    _warn(answer)


def _show(answer: dict[str, Any], *, as_json: bool) -> None:
    # Two columns may have one name, which a row by name could not hold.
    names: list[str] = []
    for name in answer["columns"]:
        again = names.count(name)
        names.append(f"{name}_{again + 1}" if again or name in names else name)
    show([dict(zip(names, row, strict=True)) for row in answer["rows"]], as_json=as_json, empty="no rows")


def _show_tables(client: Client, *, as_json: bool) -> None:
    told = client.get(_PATH).json()
    rows = [
        {"table": table["name"], "column": column["name"], "type": column["type"]}
        for table in told["tables"]
        for column in table["columns"]
    ]
    if as_json:
        show(rows, as_json=True)
        return
    for table in told["tables"]:
        typer.secho(f"{table['name']}", bold=True, nl=False)
        typer.echo(f": {table['meaning']}")
        typer.echo("  " + ", ".join(f"{column['name']} {column['type']}" for column in table["columns"]) + "\n")
    limits = told["limits"]
    typer.echo(
        f"A statement may take {limits['seconds']:g} s and {limits['memory_bytes'] // 2**20} MiB. Times are UTC "
        "nanoseconds where they do not end in _utc; unknown is NULL, never 0."
    )


def _warn(answer: httpx.Response) -> None:
    cut = answer.headers.get("X-Tracehold-Cut")
    if cut:
        more = "raise --max-rows" if cut == "rows" else "read fewer columns"
        typer.echo(f"there are more rows than these: {more}, or narrow it down", err=True)
