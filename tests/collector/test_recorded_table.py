"""The table of recorded traces: what their notes state beside what is read, each difference with its reason."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from typing import Any

import pytest
from support.recorded import shipped
from support.stated import counts, stated
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.load import read_pieces
from tracehold_collector.load.files import SUFFIXES

HERE = Path(__file__).resolve().parent
EXPECTED: dict[str, dict[str, Any]] = json.loads((HERE / "expected.json").read_text())
NOT_READ: dict[str, str] = json.loads((HERE / "not_read.json").read_text())


def differences(row: dict[str, Any]) -> list[str]:
    """The counts that are read otherwise than they are stated."""
    return [key for key, count in row.get("stated", {}).items() if row[key] != pytest.approx(count)]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_count_is_read_as_stated_or_says_why_not(name: str) -> None:
    row = EXPECTED[name]
    assert not differences(row) or row.get("why")


def test_what_is_stated_is_what_the_notes_beside_the_files_say(traces: Path) -> None:
    for name, row in EXPECTED.items():
        folder, _, file = name.partition("/")
        noted = stated(traces / folder / "SOURCE.md").get(file, {})
        # A note above the table may add a count that the table has no column for.
        assert row.get("stated", {}) == row.get("stated", {}) | noted, name


def test_every_recorded_file_is_read_or_is_listed_with_the_reason(traces: Path) -> None:
    names = {path.relative_to(traces).as_posix() for path in traces.rglob("*") if path.is_file()}
    names -= {"SOURCE.md", *EXPECTED}
    unlisted = [name for name in sorted(names) if not any(fnmatch.fnmatch(name, pattern) for pattern in NOT_READ)]
    assert unlisted == []
    assert [pattern for pattern in NOT_READ if not any(fnmatch.fnmatch(name, pattern) for name in names)] == []


def test_what_is_not_read_is_refused_and_not_misread(traces: Path) -> None:
    for path in sorted(traces.rglob("*.json*")):
        name = path.relative_to(traces).as_posix()
        if name in EXPECTED or name == "opentelemetry-proto/logs.otlp.json" or path.suffix not in SUFFIXES:
            continue
        with pytest.raises(BadBodyError, match="is in no format known here"):
            list(read_pieces(path))


def test_every_file_of_the_table_ships_with_the_tests() -> None:
    assert [name for name in EXPECTED if not shipped(name).is_file()] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "7 spans, 1 trace(s); LLM calls 4, tool calls 2; cost 0.00358 USD",
            {"stored": 7, "llm_calls": 4, "tool_calls": 2, "cost_usd": 0.00358},
        ),
        ('x; final_metrics [{"total_prompt_tokens": 2}, {"total_prompt_tokens": 3}]', {"input_tokens": 5}),
        ("schema None", {}),
    ],
)
def test_counts_are_read_out_of_a_note(text: str, found: dict[str, Any]) -> None:
    assert counts(text) == found
