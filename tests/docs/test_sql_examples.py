"""The statements on the page about SQL run, and the tables and limits it names are those there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.processes import CollectorProcess, collector
from tracehold_collector.load.files import read_pieces
from tracehold_collector.sql.desk import MAX_ROWS, SqlOptions
from tracehold_collector.sql.tables import TABLES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "sql.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```sql\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
OF_OTHER_PAGES = [
    statement
    for name in ("sql", "engineers", "owners")
    for statement in re.findall(
        r'^tracehold sql "(.*)"$', (ROOT / "docs" / f"{name}.md").read_text("utf-8"), re.MULTILINE
    )
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """A collector that has taken in the recorded traces of the demo."""
    with collector(tmp_path_factory.mktemp("recorded") / "data") as process:
        for path in (ROOT / "collector/tracehold_collector/demo/recorded").rglob("*.json*"):
            for piece in read_pieces(path):
                headers = {"Content-Type": piece.content_type}
                httpx.post(process.url + piece.path, content=piece.body, headers=headers, trust_env=False)
        yield process


def rows(process: CollectorProcess, statement: str) -> list[Any]:
    answer = httpx.post(f"{process.url}/api/v1/sql", json={"sql": statement}, timeout=60, trust_env=False)
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["rows"]
    return found


@pytest.mark.parametrize("statement", [*EXAMPLES, *OF_OTHER_PAGES])
def test_a_statement_on_a_page_runs(recorded: CollectorProcess, statement: str) -> None:
    found = rows(recorded, statement)
    assert found or "stopped" in statement or "HAVING" in statement or "'error'" in statement


def test_there_are_five_examples_and_some_on_the_pages_of_those_who_ask() -> None:
    assert (len(EXAMPLES), len(OF_OTHER_PAGES)) == (5, 3)


def test_the_page_names_the_tables_and_the_limits() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)) == set(TABLES)
    options = SqlOptions()
    assert f"{options.timeout_s:g} s" in PAGE
    assert f"{options.memory_bytes // 2**20} MiB" in PAGE
    assert f"{options.max_answer_bytes // 2**20} MiB" in PAGE
    assert f"{MAX_ROWS:,} at most" in PAGE
