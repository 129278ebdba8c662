"""`tracehold export`: a file that is whole or not there."""

from __future__ import annotations

import csv
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.processes import COMMAND, clean_environment, wait_for
from support.records import make_record
from tracehold_collector.export.events import EventExport
from tracehold_collector.serve import CollectorServer


@pytest.fixture
def server(serve: Callable[..., CollectorServer]) -> CollectorServer:
    server = serve()
    server.writer.submit([make_record(n, run=f"run-{n}", content={"said": "hello"}) for n in range(5)]).result(10)
    return server


def run(server: CollectorServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments, "--url", server.url],
        env=clean_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_range_of_time_goes_into_a_file(server: CollectorServer, tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    done = run(
        server, "export", "csv", "--from", "2026-05-28T20:26:40.001", "--to", "2026-05-28T20:26:40.003", "-o", str(file)
    )
    assert (done.returncode, "2 events" in done.stderr) == (0, True)
    with file.open(newline="") as lines:
        assert [row["run_id"] for row in csv.DictReader(lines)] == ["run-1", "run-2"]
    assert "exists" in run(server, "export", "csv", "-o", str(file)).stderr
    assert run(server, "export", "csv", "--run", "run-4", "-o", str(file), "--force").returncode == 0
    assert "run-4" in file.read_text()


def test_standard_output_and_contents(server: CollectorServer, tmp_path: Path) -> None:
    assert "hello" not in run(server, "export", "otlp").stdout
    assert run(server, "export", "otlp", "--with-content").stdout.count("hello") == 5
    file = tmp_path / "out.parquet"
    run(server, "export", "parquet", "--with-content", "-o", str(file))
    assert pq.read_table(file).column("content").to_pylist() == ['{"said":"hello"}'] * 5


def test_an_exported_file_is_ingested_again(server: CollectorServer, tmp_path: Path) -> None:
    file = tmp_path / "out.otlp.jsonl"
    run(server, "export", "otlp", "--with-content", "-o", str(file))
    again = run(server, "ingest", str(file), "--json")
    assert '"accepted": 0, "duplicates": 5' in again.stdout


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_export_that_is_ended_leaves_no_file_of_that_name(
    server: CollectorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    real = EventExport.parts
    monkeypatch.setattr(EventExport, "parts", lambda self: (part for _ in range(10**9) for part in real(self)))
    folder = tmp_path / "files"
    folder.mkdir()
    process = subprocess.Popen(
        [COMMAND, "export", "csv", "-o", str(folder / "out.csv"), "--url", server.url],
        env=clean_environment(), stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_for(lambda: any(path.stat().st_size for path in folder.iterdir()), what="the first bytes")
    process.send_signal(end)
    _, said = process.communicate(timeout=60)
    assert b"Traceback" not in said
    left = [path.name for path in folder.iterdir()]
    if end is signal.SIGINT:
        assert (process.returncode, left) == (130, [])
    else:
        assert [name.endswith(".part") for name in left] == [True]


def test_a_refusal_leaves_no_file(server: CollectorServer, tmp_path: Path) -> None:
    failed = run(server, "export", "csv", "--from", "soon", "-o", str(tmp_path / "out.csv"))
    assert (failed.returncode, "since takes a time" in failed.stderr) == (1, True)
    assert not list(tmp_path.glob("*out.csv*"))
    assert "cannot write into" in run(server, "export", "csv", "-o", str(tmp_path / "no" / "out.csv")).stderr
