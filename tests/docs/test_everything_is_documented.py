"""What can be called, set, asked or recorded is on a page."""

from __future__ import annotations

import re
from typing import get_args

import generate_docs as made
import httpx
import pytest
import tracehold
from tracehold import DECISIONS, DENIALS, EVENT_TYPES, TraceExporter
from tracehold.observability.event_types import Kind, Status
from tracehold_collector.core.settings import CollectorSettings
from tracehold_queries import catalogue


def test_every_verb_has_a_section(pages: dict[str, str]) -> None:
    sections = re.findall(r"^## tracehold (\S+)$", pages["docs/cli.md"], flags=re.MULTILINE)
    assert sections == made.verbs()


def test_every_setting_is_in_the_operators_table(pages: dict[str, str]) -> None:
    for name in CollectorSettings.model_fields:
        assert f"| `{name}` | `TRACEHOLD_{name.upper()}` |" in pages["docs/operators.md"]


def test_every_named_query_has_a_section_and_every_column_a_row(pages: dict[str, str]) -> None:
    sections = dict(
        zip(*[iter(re.split(r"^## (\w+)$", pages["docs/queries.md"], flags=re.MULTILINE)[1:])] * 2, strict=True)
    )
    assert list(sections) == list(catalogue())
    for query in catalogue().values():
        assert all(f"| `{column.name}` |" in sections[query.name] for column in query.columns)


@pytest.mark.parametrize("words", [EVENT_TYPES, DECISIONS, get_args(Kind), get_args(Status)])
def test_every_word_of_the_event_format_is_on_its_page(pages: dict[str, str], words: frozenset[str]) -> None:
    missing = [word for word in sorted(words) if f"`{word}`" not in pages["docs/events.md"]]
    assert not missing


def test_the_auditors_page_explains_each_denial_and_each_column(pages: dict[str, str]) -> None:
    page = pages["docs/auditors.md"]
    assert all(f"| `{decision}` |" in page for decision in DENIALS)
    assert all(f"`{column.name}`" in page for column in catalogue()["gate_denials"].columns)


def test_every_exporter_is_in_the_developers_table(pages: dict[str, str]) -> None:
    public = [getattr(tracehold, name) for name in tracehold.__all__]
    exporters = [item for item in public if isinstance(item, type) and issubclass(item, TraceExporter)]
    for exporter in exporters:
        if exporter is not TraceExporter:
            assert f"`{exporter.__name__}" in pages["docs/agent-developers.md"]


def test_every_metric_and_every_open_path_is_on_the_operators_page(running, pages: dict[str, str]) -> None:
    page = pages["docs/operators.md"]
    body = httpx.get(f"{running.url}/metrics", trust_env=False).text
    metrics = set(re.findall(r"^(tracehold_\w+)", body, flags=re.MULTILINE))
    assert len(metrics) >= 9
    assert [name for name in metrics if f"`{name}`" not in page] == []
    assert {"/healthz", "/readyz"} <= set(re.findall(r"`(/\w+)`", page))


def test_the_event_page_shows_examples_that_the_collector_takes(running, pages: dict[str, str]) -> None:
    for lines in re.findall(r"^```json\n(.*?)^```", pages["docs/events.md"], flags=re.MULTILINE | re.DOTALL):
        headers = {"Content-Type": "application/x-ndjson"}
        answer = httpx.post(f"{running.url}/v1/events", content=lines, headers=headers, trust_env=False).json()
        assert answer["rejected_count"] == 0
        assert answer["accepted"] == len(lines.splitlines())


def test_every_decision_page_is_listed_and_says_what_a_decision_page_says(pages: dict[str, str]) -> None:
    decisions = {path: text for path, text in pages.items() if path.startswith("docs/decisions/")}
    assert len(decisions) >= 10
    for path, text in decisions.items():
        assert path.removeprefix("docs/") in pages["docs/index.md"]
        assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == ["Context", "Options", "Decision", "Consequences"]
        assert re.search(r"^- Status: .+\n- Date: \d{4}-\d{2}-\d{2}$", text, flags=re.MULTILINE)
        assert 25 <= len(text.splitlines()) <= 80
