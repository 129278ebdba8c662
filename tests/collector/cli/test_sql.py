"""`tracehold sql`: a table, JSON lines, files, and errors that point at the place."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.processes import COMMAND, clean_environment
from support.records import make_record
from tracehold_collector.serve import CollectorServer

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(serve: Callable[..., CollectorServer]) -> Run:
    server = serve()
    server.writer.submit([make_record(n, model="m1" if n else "m2") for n in range(3)]).result(10)

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, "sql", *arguments, "--url", server.url],
            input=stdin, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run


def test_rows_are_a_table_and_without_a_statement_the_tables_are_told(run: Run) -> None:
    text = "SELECT model, count(*) AS calls, count(*) AS calls FROM events GROUP BY 1 ORDER BY 1"
    assert [line.split() for line in run(text).stdout.splitlines()][1:] == [["m1", "2", "2"], ["m2", "1", "1"]]
    tables = run().stdout
    assert "events: one row an event" in tables
    assert "started_at BIGINT" in tables
    assert {"table": "runs", "column": "run_id", "type": "VARCHAR"} in map(
        json.loads, run("--json").stdout.splitlines()
    )


def test_json_lines_csv_and_a_statement_from_standard_input(run: Run) -> None:
    rows = run("-", "--json", stdin="SELECT model FROM events ORDER BY 1").stdout.splitlines()
    assert [json.loads(row) for row in rows] == [{"model": "m1"}, {"model": "m1"}, {"model": "m2"}]
    assert run("SELECT 1 AS a, NULL AS b", "--format", "csv").stdout == "a,b\n1,\n"


def test_a_file_is_written_whole_and_never_over_another(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    assert run("SELECT model FROM events", "--format", "parquet", "-o", str(file)).returncode == 0
    assert pq.read_table(file).num_rows == 3
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    again = run("SELECT 1", "--format", "parquet", "-o", str(file))
    assert (again.returncode, "exists" in again.stderr) == (1, True)
    failed = run("SELECT x", "--format", "csv", "-o", str(tmp_path / "failed.csv"))
    assert failed.returncode == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.parquet"]
    assert run("SELECT 1", "--format", "csv", "-o", str(file), "--force").returncode == 0
    assert file.read_text() == "1\n1\n"
    assert "format csv or parquet" in run("SELECT 1", "-o", str(file)).stderr


def test_an_error_points_at_its_place_and_a_cut_answer_is_told(run: Run) -> None:
    failed = run("SELECT modle FROM events")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "LINE 1: SELECT modle FROM events" in failed.stderr
    cut = run("SELECT * FROM range(10)", "--max-rows", "2", "--json")
    assert (len(cut.stdout.splitlines()), "raise --max-rows" in cut.stderr) == (2, True)
