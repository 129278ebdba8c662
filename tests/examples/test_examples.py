"""Each example runs as its own process against a real collector and does what its first lines say."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.processes import COMMAND, CollectorProcess, clean_environment, collector, free_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[CollectorProcess]:
    with collector(tmp_path / "data") as process:
        yield process


def run_example(
    name: str,
    home: Path,
    url: str | None = None,
    *,
    arguments: Sequence[str] = (),
    database: str | None = None,
    status: int = 0,
) -> str:
    """Return what it printed, or for another status than 0 what it said on the error stream."""
    environment = clean_environment() | {"HOME": str(home), "XDG_STATE_HOME": str(home)}
    if database is not None:
        environment["EXAMPLE_DB"] = database
    if url is not None:
        environment |= {"TRACEHOLD_URL": url, "OTEL_EXPORTER_OTLP_ENDPOINT": url}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


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


def test_a_first_agent_uses_its_tool_and_is_recorded(tmp_path: Path) -> None:
    printed = run_example("first_agent.py", tmp_path)
    assert printed.startswith("Take an umbrella.")
    assert [line.partition("]")[0][1:] for line in printed.splitlines()[1:]] == [
        "run_start", "llm_call", "tool_call", "llm_call", "run_end",
    ]  # fmt: skip


def test_guardrails_stop_a_run_on_its_way_in_and_out(tmp_path: Path) -> None:  # GRD-12, HOOK-08
    printed = run_example("guardrails.py", tmp_path).splitlines()
    assert printed[0] == "We have it in blue."
    assert printed[-2:] == [
        "input_guardrail | short_enough | please ask one short question",
        "output_guardrail | no_prices | prices are given by the shop only",
    ]


def test_an_approval_crosses_processes(tmp_path: Path) -> None:  # DEC-02
    database = str(tmp_path / "approval.db")
    asked = run_example("approval.py", tmp_path, arguments=["ask"], database=database)
    assert "waits: refund" in asked
    assert run_example("approval.py", tmp_path, arguments=["decide", "no"], database=database).startswith("I am sorry")
    with sqlite3.connect(database) as connection:
        events = [json.loads(text) for (text,) in connection.execute("SELECT event FROM traces ORDER BY rowid")]
    assert len({event["run_id"] for event in events}) == 1
    stopped = [event for event in events if event["type"] == "tool_call"]
    assert [event["status"] for event in stopped] == ["rejected"]


def test_both_halves_of_the_approval_run_one_after_the_other(tmp_path: Path) -> None:
    printed = run_example("approval.py", tmp_path, database=str(tmp_path / "approval.db"))
    assert printed.endswith("The money is on its way.\n")


def test_limits_hold_for_calls_issued_together(tmp_path: Path) -> None:  # POL-04
    assert run_example("run_limits.py", tmp_path).splitlines()[1:] == ["ran: 4", "limited: 2"]


def test_a_conversation_is_found_by_its_owner_only(tmp_path: Path) -> None:  # SES-36
    printed = run_example("sessions_with_search.py", tmp_path, database=str(tmp_path / "sessions.db"))
    assert "ada: Grete." in printed.splitlines()
    assert "ada: 4 messages, bob: 2 messages" in printed


def test_sub_agents_stand_below_the_call_that_asked_for_them(tmp_path: Path) -> None:  # EXEC-10
    printed = run_example("sub_agents.py", tmp_path).splitlines()
    assert "    span hotel-agent (hotel-agent)" in printed
    assert "      tool_call hotels (hotel-agent)" in printed


def test_a_durable_agent_dies_inside_a_tool_and_goes_on_in_another_process(tmp_path: Path) -> None:
    # RCV-01, DEC-01
    printed = run_example("durable_agent.py", tmp_path, database=str(tmp_path / "durable.db")).splitlines()
    assert printed.count("booking the Grand ...") == 1
    assert "success | I cannot tell whether the Grand is booked: please ask." in printed
    calls = [line for line in printed if line.startswith("tool_call")]
    assert calls[0].startswith("tool_call | send_email | denied | denied | ")
    assert calls[1].startswith("tool_call | book | error | OutcomeUnknown")
    assert printed[-1].startswith("run_end | travel | ok")


def test_a_model_client_of_ones_own_needs_no_base_class(tmp_path: Path) -> None:  # LLM-03
    printed = run_example("own_model_client.py", tmp_path)
    assert printed.count("5 words.") == 2
    assert "'llm_call': 2" in printed


def test_the_denied_tool_of_the_collector_example_is_one_denial(running: CollectorProcess, tmp_path: Path) -> None:
    # DEC-01
    assert "recorded run" in run_example("to_the_collector.py", tmp_path, running.url)
    (denial,) = ask(running.url, "denials")
    assert (denial["name"], denial["decision"], denial["rule"]) == ("send_email", "denied", "allow-list/1")
    assert "run_end" in str(denial["next_event"])


def test_a_plain_opentelemetry_program_is_understood(running: CollectorProcess, tmp_path: Path) -> None:
    assert run_example("opentelemetry_sdk.py", tmp_path, running.url) == "made 3 spans\n"
    (run,) = ask(running.url, "runs")
    assert (run["agent"], run["llm_calls"], run["tool_calls"], run["input_tokens"]) == ("planner", 1, 1, 120)
    assert run["cost_usd"] > 0  # its spans only count tokens: the model's listed price


def test_a_notebook_without_a_collector_is_told_what_to_start(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    said = run_example("notebook_style.py", tmp_path, url, status=1)
    assert said == f"no collector answers at {url}; start one with `tracehold up`\n"


def test_a_notebook_gets_a_frame_of_runs(running: CollectorProcess, tmp_path: Path) -> None:
    run_example("to_the_collector.py", tmp_path, running.url)
    printed = run_example("notebook_style.py", tmp_path, running.url)
    assert "support" in printed
    assert "unpriced_calls" in printed
