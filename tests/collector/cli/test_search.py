"""`tracehold search --content`, as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.records import make_record
from tracehold_collector.cli.app import app
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner, Result

HOSTILE = "a\x1b[31mred\x1b[0m [bold]b[/bold] needle\nnext"


@pytest.fixture
def tracehold(serve: Callable[..., CollectorServer], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command against a collector in which 30 events say something."""
    server = serve()
    monkeypatch.setenv("TRACEHOLD_URL", server.url)
    server.writer.submit(
        [make_record(n, content={"input": HOSTILE if n % 2 else "hay"}, name=f"step {n}") for n in range(30)]
    ).result(10)

    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == status, result.output + repr(result.exception)
        return result

    return run


def test_hits_are_printed_and_a_summary_stands_apart(tracehold: Callable[..., Result]) -> None:
    told = tracehold("search", "--content", "NEEDLE")
    assert told.stdout.count("input: ") == 15
    assert told.stderr == "15 found in 30 of 30 events\n"


def test_what_an_agent_said_does_not_steer_the_terminal(tracehold: Callable[..., Result]) -> None:
    told = tracehold("search", "--content", "needle", "-n", "1")
    assert "\x1b[31m" not in told.stdout
    assert "a\N{REPLACEMENT CHARACTER}[31mred" in told.stdout
    assert "[bold]b[/bold] needle next" in told.stdout


def test_json_lines_go_on_with_the_cursor_that_was_told(tracehold: Callable[..., Result]) -> None:
    found: list[Any] = []
    more: list[str] = []
    while True:
        told = tracehold("search", "--content", "needle", "--json", "-n", "4", "--run", "run-1", *more)
        found += [json.loads(line)["name"] for line in told.stdout.splitlines()]
        if "--cursor" not in told.stderr:
            break
        more = ["--cursor", told.stderr.split("--cursor ")[1].strip()]
    assert found == [f"step {n}" for n in range(29, 0, -2)]


def test_without_content_names_are_searched_within_the_same_filters(tracehold: Callable[..., Result]) -> None:
    rows = [
        json.loads(line) for line in tracehold("search", "step 2", "--name", "step 22", "--json").stdout.splitlines()
    ]
    assert [row["name"] for row in rows] == ["step 22"]
    assert "no event carries" in tracehold("search", "step", "--kind", "tool").stdout
