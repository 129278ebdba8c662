"""Pricing as a user meets it: calls priced as they arrive, late at the next start, and when asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.otlp import chat_spans
from support.records import make_record
from tracehold_collector.cli.app import app
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner

Serve = Callable[..., CollectorServer]
PRICES = '[[price]]\nmodel = "m1"\ninput = 2.0\noutput = 2.0\n'
UNPRICED = {"cost_usd": None, "input_tokens": 1_000_000, "output_tokens": 0}


def tracehold(*arguments: str, status: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def spend(server: CollectorServer) -> dict[str, Any]:
    answer = httpx.get(f"{server.url}/api/v1/queries/spend", params={"by": "model"}, timeout=30, trust_env=False).json()
    return {row[0]: dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]}


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


def test_a_span_of_a_known_model_arrives_with_a_price(serve: Serve) -> None:
    server = serve()
    request = chat_spans(0, 1)
    (span,) = request.resource_spans[0].scope_spans[0].spans
    del span.attributes[1:]
    for key, text in {"gen_ai.request.model": "gpt-4o", "gen_ai.provider.name": "openai"}.items():
        span.attributes.add(key=key).value.string_value = text
    for key, count in {"gen_ai.usage.input_tokens": 1_000_000, "gen_ai.usage.output_tokens": 0}.items():
        span.attributes.add(key=key).value.int_value = count
    headers = {"Content-Type": "application/x-protobuf"}
    sent = httpx.post(
        f"{server.url}/v1/traces", content=request.SerializeToString(), headers=headers, timeout=30, trust_env=False
    )
    assert sent.status_code == 200
    row = spend(server)["gpt-4o"]
    assert (row["cost_usd"], row["unpriced_calls"]) == (pytest.approx(2.5), 0)


def test_the_next_start_prices_what_the_last_one_could_not(serve: Serve, prices: Path) -> None:
    first = serve()
    first.writer.submit([make_record(0, **UNPRICED)]).result(10)
    first.close()
    second = serve(prices=prices)
    second.repricer.wait(30)
    assert spend(second)["m1"]["cost_usd"] == pytest.approx(2.0)


def test_prices_are_applied_when_asked_and_missing_ones_listed(
    serve: Serve, prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(prices=prices)
    server.repricer.wait(30)
    monkeypatch.setenv("TRACEHOLD_URL", server.url)
    monkeypatch.setenv("COLUMNS", "200")
    assert "every model call has a cost" in tracehold("prices", "missing").output
    records = [make_record(0, **UNPRICED), make_record(1, **UNPRICED | {"model": "odd"})]
    server.writer.submit(records).result(10)
    missing = [json.loads(line) for line in tracehold("prices", "missing", "--json").output.splitlines()]
    assert [(row["model"], row["reason"], row["calls"]) for row in missing] == [("m1", "price", 1), ("odd", "price", 1)]
    said = tracehold("prices", "apply").output
    assert "1 calls priced that had no cost, 0 priced anew, 1 still without a price" in said
    (again,) = [json.loads(line) for line in tracehold("prices", "apply", "--again", "--json").output.splitlines()]
    assert (again["looked_at"], again["priced"], again["changed"], again["unknown"]) == (2, 0, 0, 1)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[1]", "is a JSON object"),
        (b"{", "is no JSON"),
        (b'{"agian": true}', "agian"),
        (b'{"again": 1}', "true or false"),
        (b'{"since": "yesterday"}', "2026-11-29"),
        (b'{"until": 5}', "2026-11-29"),
        (b'{"a": "' + b"x" * 70_000 + b'"}', "small JSON object"),
        (b'{"since": "9999-01-01"}', "'since' is a time"),  # nanoseconds in 64 bits end in 2262
    ],
)
def test_a_bad_request_is_refused_with_what_is_wrong(serve: Serve, body: bytes, says: str) -> None:
    server = serve()
    answer = httpx.post(f"{server.url}/api/v1/prices/apply", content=body, timeout=30, trust_env=False)
    assert answer.status_code == 400
    assert says in answer.text


def test_a_price_file_is_checked_before_it_is_used(prices: Path) -> None:
    said = tracehold("prices", "check", str(prices), "--model", "m1", "--input", "500000").output
    assert "can be used" in said
    assert "m1: 1.000000 USD by file " in said
    assert "no list knows nothing-known" in str(
        tracehold("prices", "check", str(prices), "--model", "nothing-known", status=1).exception
    )


def test_a_collector_does_not_start_with_a_price_file_it_cannot_use(serve: Serve, prices: Path) -> None:
    prices.write_text("[[price]]\n")
    with pytest.raises(Exception, match=r"price\.0\.model"):
        serve(prices=prices)
