"""The port for OTLP/gRPC, as an operator meets it."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import duckdb
from support.otlp_grpc import calling
from support.otlp_requests import request_of
from support.processes import COMMAND, CollectorProcess, clean_environment, collector, wait_for


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment(), check=False)


def test_a_taken_grpc_port_is_named_with_its_own_flag(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run_command("collect", "--port", "0", "--grpc-port", port, "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken" in done.stderr
    assert "try --grpc-port" in done.stderr
    assert not (tmp_path / "data").exists()


def test_one_port_for_http_and_grpc_is_refused_naming_both() -> None:
    done = run_command("collect", "--port", "4400", "--grpc-port", "4400")
    assert done.returncode == 1
    assert "port and grpc_port are both 4400" in done.stderr


def grpc_addresses(running: CollectorProcess, *, starts: int) -> list[str]:
    """The addresses the collector printed, one a start."""
    wait_for(lambda: running.log().count("stop with Ctrl-C") == starts, what="its last line")
    return re.findall(r"OTLP/gRPC  (127\.0\.0\.1:\d+)", running.log())


def test_the_grpc_port_that_was_picked_is_printed_and_nothing_taken_there_is_lost(tmp_path: Path) -> None:
    running = CollectorProcess(tmp_path / "data").start()
    with calling(grpc_addresses(running, starts=1)[-1]) as caller:
        for signal in ("traces", "logs", "metrics"):
            caller.export(signal, request_of(signal, 50).SerializeToString())
        running.kill()
    running.start()
    with calling(grpc_addresses(running, starts=2)[-1]) as caller:
        caller.export("traces", request_of("traces", 60).SerializeToString())
    assert running.stop() == 0
    with duckdb.connect(str(tmp_path / "data" / "tracehold.duckdb"), read_only=True) as store:
        assert store.execute("SELECT count(*), count(DISTINCT event_id) FROM events").fetchone() == (110, 110)


def test_without_grpc_no_address_is_printed(tmp_path: Path) -> None:
    with collector(tmp_path / "data", "--no-grpc") as running:
        assert grpc_addresses(running, starts=1) == []
