"""Each recorded file, stored, and the counts that its notes give read back from the named queries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.decoding import decode_file
from support.recorded import shipped
from tracehold.privacy import Cleaner
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer
from tracehold_queries import get

EXPECTED: dict[str, dict[str, Any]] = json.loads((Path(__file__).resolve().parent / "expected.json").read_text())


@pytest.fixture
def store() -> Iterator[tuple[Database, Writer]]:
    database = Database(None)
    writer = Writer(database)
    yield database, writer
    writer.close()
    database.close()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_named_queries_give_the_counts_a_right_reader_finds(name: str, store: tuple[Database, Writer]) -> None:
    database, writer = store
    context = NormaliseContext("default", Pseudonyms(b"k" * 32, "default"), Cleaner(), now_ns=1)
    batch = decode_file(shipped(name), context)
    if batch.records:
        writer.submit(batch.records).result(30)
    expected = EXPECTED[name]
    with database.cursor() as cursor:
        (overview,) = get("overview").rows(cursor)
        tools = get("tools").rows(cursor)
        spend = get("spend_by_model_day").rows(cursor)
        runs = get("runs").rows(cursor, limit=500)
        denials = get("gate_denials").rows(cursor)

    def total(rows: list[dict[str, Any]], column: str) -> Any:
        return sum(row[column] or 0 for row in rows)

    assert overview["events"] == total(runs, "events") == expected["stored"]
    assert overview["llm_calls"] == total(runs, "llm_calls") == total(spend, "calls") == expected["llm_calls"]
    assert total(runs, "tool_calls") == total(tools, "calls") == expected["tool_calls"]
    assert total(spend, "input_tokens") == total(runs, "input_tokens") == expected["input_tokens"]
    assert total(spend, "output_tokens") == total(runs, "output_tokens") == expected["output_tokens"]
    assert total(spend, "reasoning_tokens") == expected["reasoning_tokens"]
    assert total(spend, "cost_usd") == pytest.approx(expected["cost_usd"] or 0)
    assert total(runs, "errors") == expected["errors"]
    assert len(denials) == total(runs, "denials") == expected["denials"]
    assert len(batch.rejected) == expected["rejected"]
