"""`tracehold prices`: which calls have no price, pricing stored calls, and a look at a price file before it is used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from tracehold.core.clock import now_ns

from tracehold_collector.cli.ask import Limit, Since, Until
from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import CollectorError

prices = typer.Typer(
    no_args_is_help=True,
    help="What model calls cost: calls without a price, pricing stored calls, checking a price file.",
)


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(prices, name="prices")


@prices.command()
def missing(
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List models whose calls have no cost, and what is missing: the model's name, the usage, or a price."""
    with Client(url) as client:
        rows = client.query("unpriced", {"since": since, "until": until, "limit": limit})
    show(rows, as_json=as_json, empty="every model call has a cost")


@prices.command()
def apply(
    again: Annotated[
        bool, typer.Option("--again", help="Also calls that a price list priced before, by today's lists.")
    ] = False,
    since: Since = None,
    until: Until = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Price stored calls that have no cost. The figure a call had is kept; a cost that its source told stands.

    The collector uses the price lists it was started with, and does this by itself when it starts. After a change of
    the price file: restart it, or run this with --again. Examples: tracehold prices apply; tracehold prices apply
    --again --since 2026-11-01
    """
    asked = {"again": again, "since": since, "until": until}
    body = orjson.dumps({name: value for name, value in asked.items() if value is not None})
    last: dict[str, Any] = {}
    with Client(url) as client:
        for last in _lines(client, body):
            if not as_json:
                typer.echo(f"\r{last['looked_at']:,} calls looked at", nl=False, err=True)
    if not as_json:
        typer.echo(err=True)
    if not last.get("done"):
        raise CollectorError("the collector stopped half way; what is priced stays priced, run it again")
    del last["done"]
    if as_json:
        show([last], as_json=True)
        return
    typer.echo(
        f"{last['priced']:,} calls priced that had no cost, {last['changed']:,} priced anew, {last['unknown']:,} still "
        f"without a price; all costs together {last['usd']:+,.6f} USD"
    )


@prices.command()
def check(
    file: Annotated[Path, typer.Argument(help="A price file, TOML with tables [[price]].")],
    model: Annotated[str | None, typer.Option(help="Say what a call of this model would cost.")] = None,
    provider: Annotated[str | None, typer.Option(help="The provider of --model.")] = None,
    input_tokens: Annotated[int, typer.Option("--input", min=0, help="Input tokens of that call.")] = 1_000_000,
    output_tokens: Annotated[int, typer.Option("--output", min=0, help="Output tokens of that call.")] = 0,
) -> None:
    """Check a price file, and say what a call would cost by it and the bundled prices. Nothing is changed.

    Example: tracehold prices check prices.toml --model my-llama-70b --input 1000 --output 200
    """
    from tracehold_collector.pricing import PriceBook, load_prices  # noqa: PLC0415 - the price lists take a moment
    from tracehold_collector.pricing.call import Call  # noqa: PLC0415 - as above

    book = PriceBook([load_prices(file)])
    typer.echo(f"{file} can be used; asked in this order: {', then '.join(book.sources)}")
    if model is not None:
        call = Call(model, provider, now_ns(), input_tokens, output_tokens, 0, 0, 0)
        price = book.price(call)
        named = model if provider is None else f"{model} of {provider}"
        if price is None:
            raise CollectorError(f"no list knows {named}: such calls stay without a price")
        typer.echo(f"{named}: {price.usd:,.6f} USD by {price.source}")


def _lines(client: Client, body: bytes) -> Iterator[dict[str, Any]]:
    for line in client.lines("/api/v1/prices/apply", body):
        told: dict[str, Any] = orjson.loads(line)
        if "error" in told:
            raise CollectorError(str(told["error"]))
        yield told
