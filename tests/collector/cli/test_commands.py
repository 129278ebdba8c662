"""The verbs, as a user types them."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from support.processes import COMMAND, CollectorProcess, clean_environment, collector
from support.recorded import shipped
from tracehold_collector.cli.app import app
from tracehold_collector.cli.ask import reason_of
from tracehold_collector.cli.render import cell
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner, Result

Serve = Callable[..., CollectorServer]


@pytest.fixture
def tracehold(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command against a running collector."""
    server = serve()
    monkeypatch.setenv("TRACEHOLD_URL", server.url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "240")

    def run(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == status, result.output + repr(result.exception)
        return result

    run.server = server  # type: ignore[attr-defined]
    return run


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def test_ingest_loads_files_and_says_what_became_of_each(tracehold: Any) -> None:
    guard, claude = (
        shipped("aaa-events-v0_2/guard.jsonl"),
        shipped("langfuse-framework-traces/claude-agent-2025-12-22.otlp.json"),
    )
    first, second = rows(tracehold("ingest", str(guard), str(claude), "--json"))
    assert (first["state"], first["accepted"], first["rejected"]) == ("loaded", 16, 0)
    assert (second["state"], second["accepted"], second["duplicates"], second["rejected"]) == ("loaded", 7, 0, 0)
    (again,) = rows(tracehold("ingest", str(guard), "--json"))
    assert (again["accepted"], again["duplicates"]) == (0, 16)


def test_ingest_ends_with_1_when_a_file_could_not_be_read(tracehold: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    (row,) = rows(tracehold("ingest", str(tmp_path / "bad.json"), "--json", status=1))
    assert row["state"] == "fault"
    assert "line 1" in row["why"]


def test_denials_show_rule_and_reason(tracehold: Any) -> None:
    tracehold("ingest", str(shipped("aaa-events-v0_2/guard.jsonl")), str(shipped("aaa-events-v0_2/budget.jsonl")))
    found = rows(tracehold("denials", "--json"))
    assert [(row["decision"], row["rule"], row["reason"]) for row in found] == [
        ("limited", "budget", "steps 3 > 2"),
        ("tripped", "in", "denied_phrase"),
        ("tripped", "res", "denied_phrase"),
    ]
    table = tracehold("denials").stdout
    assert "steps 3 > 2" in table
    assert "2026-10-15 17:27:06" in table


def test_runs_and_spend_are_tables_for_people_and_json_for_pipes(tracehold: Any) -> None:
    tracehold("ingest", str(shipped("langfuse-framework-traces/pydantic-ai-tools-2025-12-04.otlp.json")))
    (run,) = rows(tracehold("runs", "--json"))
    assert (run["llm_calls"], run["tool_calls"], run["input_tokens"], run["output_tokens"]) == (4, 3, 1315, 209)
    assert run["cost_usd"] == pytest.approx(0.00032265)
    assert run["run_id"] in tracehold("runs").stdout
    assert "total 0.000323 USD, days in UTC" in tracehold("spend").stdout


def test_search_finds_events_by_what_they_are_called(tracehold: Any) -> None:
    tracehold("ingest", str(shipped("aaa-events-v0_2/guard.jsonl")), "--json")
    found = rows(tracehold("search", "VERDICT", "--json"))
    assert found
    assert all("verdict" in row["type"] for row in found)
    assert "no event carries 'nowhere-to-be-found'" in tracehold("search", "nowhere-to-be-found").output


def test_an_empty_store_says_how_to_fill_it(tracehold: Any) -> None:
    assert "tracehold demo" in tracehold("runs").stdout
    assert "nothing was stopped" in tracehold("denials").stdout
    assert "no model calls yet" in tracehold("spend").stdout


def test_query_lists_runs_and_refuses(tracehold: Any) -> None:
    names = {row["name"] for row in rows(tracehold("query", "--json"))}
    assert {"runs", "run", "waterfall", "gate_denials", "spend_by_model_day", "latency", "tools"} <= names
    lines = list(csv.reader(io.StringIO(tracehold("query", "tools", "--csv").stdout)))
    assert "calls" in lines[0]
    result = CliRunner().invoke(app, ["query", "tools", "-p", "colour=blue"])
    assert "colour" in str(result.exception)
    result = CliRunner().invoke(app, ["query", "tools", "-p", "colour"])
    assert "name=value" in str(result.exception)


def test_doctor_finds_the_collector_and_the_installation(tracehold: Any, tmp_path: Path) -> None:
    found = {row["check"]: row for row in rows(tracehold("doctor", "--json", "--data-dir", str(tmp_path)))}
    assert found["collector"]["state"] == "ok"
    assert found["extra collector"]["state"] == "ok"
    assert "no store yet" in found["store"]["detail"]


def test_every_verb_teaches_itself(tracehold: Any) -> None:
    for verb in ("up", "collect", "dashboard", "demo", "ingest", "query", "runs", "denials", "spend", "doctor"):
        assert verb in tracehold("--help").stdout
        assert len(tracehold(verb, "--help").stdout) > 200


def test_a_name_cannot_move_the_terminals_cursor() -> None:
    assert cell("name", "a\x1b[2Jb\nc") == "a\ufffd[2Jb\ufffdc"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cost_usd", None, "-"),
        ("cost_usd", 0.00032, "0.00032"),
        ("duration_ns", 1_500_000_000, "1.500 s"),
        ("calls", 12345, "12,345"),
    ],
)
def test_people_read_units_and_dashes(name: str, value: Any, text: str) -> None:
    assert cell(name, value) == text


def test_a_reason_is_found_where_each_source_puts_it() -> None:
    assert reason_of({"reason": "a\nb"}) == "a b"
    assert reason_of({"data": {"categories": ["x", "y"]}}) == "x, y"
    assert reason_of({"attributes": {"message": "no"}}) == "no"
    assert reason_of(None) is None


def run_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment() | environment,
        check=False,
    )


def test_no_collector_is_one_plain_message_and_status_1() -> None:
    done = run_command("runs", "--url", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tracehold: no collector answers at http://127.0.0.1:9")
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_named_and_another_offered(tmp_path: Path) -> None:
    with collector(tmp_path / "data") as running:
        done = run_command("collect", "--port", str(running.port), "--data-dir", str(tmp_path / "other"))
    assert done.returncode == 1
    assert f"port {running.port} on 127.0.0.1 is taken" in done.stderr
    assert "try --port" in done.stderr


def test_a_second_collector_on_the_same_store_stops_with_a_plain_message(tmp_path: Path) -> None:  # FR-51
    with collector(tmp_path / "data") as running:
        done = run_command("collect", "--port", "0", "--data-dir", str(tmp_path / "data"))
        assert running.answers()
    assert done.returncode == 1
    assert "open in another process" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_for_all_without_a_key_is_refused() -> None:
    done = run_command("collect", "--host", "0.0.0.0")  # noqa: S104
    assert done.returncode == 1
    assert "openssl rand -hex 24" in done.stderr


def test_a_store_of_a_newer_version_is_left_untouched(tmp_path: Path) -> None:
    with collector(tmp_path / "data"):
        pass
    path = tmp_path / "data" / "tracehold.duckdb"
    with duckdb.connect(str(path)) as store:
        store.execute("INSERT INTO schema_migrations VALUES (9999, 'later', now() AT TIME ZONE 'UTC')")
    done = run_command("collect", "--port", "0", "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "schema version 9999" in done.stderr


def test_sigterm_ends_in_order_and_loses_nothing(tmp_path: Path) -> None:
    running = CollectorProcess(tmp_path / "data").start()
    lines = b"\n".join(json.dumps({"type": "x", "event_id": f"{n:032x}", "run_id": "r"}).encode() for n in range(500))
    answer = httpx.post(
        f"{running.url}/v1/events", content=lines, headers={"Content-Type": "application/x-ndjson"}, trust_env=False
    )
    assert answer.json()["accepted"] == 500
    assert running.stop() == 0
    assert not (tmp_path / "data" / "tracehold.duckdb.wal").exists()


def test_without_its_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': raise ModuleNotFoundError('No module named typer', name='typer')\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from tracehold_collector.entry import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 1
    assert "pip install '.[collector]'" in done.stderr
