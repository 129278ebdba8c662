"""Each example runs as its own process against a real collector and does what its first lines say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import COMMAND, CollectorProcess, clean_environment, collector

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[CollectorProcess]:
    with collector(tmp_path / "data") as process:
        yield process


def run_example(name: str, home: Path, url: str | None = None) -> str:
    environment = clean_environment() | {"HOME": str(home), "XDG_STATE_HOME": str(home)}
    if url is not None:
        environment |= {"TRACEHOLD_URL": url, "OTEL_EXPORTER_OTLP_ENDPOINT": url}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(url: str, *arguments: str) -> list[dict[str, object]]:
    environment = clean_environment()
    done = subprocess.run(
        [COMMAND, *arguments, "--json", "--url", url], env=environment, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_example_has_a_test() -> None:
    text = Path(__file__).read_text("utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in text] == []


def test_the_first_trace_prints_a_timeline_without_the_secret(tmp_path: Path) -> None:  # TRC-03, TRC-21
    printed = run_example("first_trace.py", tmp_path)
    assert [line.partition(" ")[0] for line in printed.splitlines()[:-1] if "run_" in line]
    assert "small-model" in printed
    assert "not-shown" not in printed


def test_the_denied_tool_of_the_collector_example_is_one_denial(running: CollectorProcess, tmp_path: Path) -> None:
    # DEC-01
    assert "recorded run" in run_example("to_the_collector.py", tmp_path, running.url)
    (denial,) = ask(running.url, "denials")
    assert (denial["name"], denial["decision"], denial["rule"]) == ("send_email", "denied", "allow-list/1")
    assert "run_end" in str(denial["next_event"])


def test_a_plain_opentelemetry_program_is_understood(running: CollectorProcess, tmp_path: Path) -> None:
    run_example("opentelemetry_sdk.py", tmp_path, running.url)
    (run,) = ask(running.url, "runs")
    assert (run["agent"], run["llm_calls"], run["tool_calls"], run["input_tokens"]) == ("planner", 1, 1, 120)
    assert run["cost_usd"] is None


def test_a_notebook_gets_a_frame_of_runs(running: CollectorProcess, tmp_path: Path) -> None:
    run_example("to_the_collector.py", tmp_path, running.url)
    printed = run_example("notebook_style.py", tmp_path, running.url)
    assert "support" in printed
    assert "unpriced_calls" in printed
