"""Collector and dashboard as one program: they start, and they end, together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest
from support.processes import COMMAND, clean_environment, free_port, wait_for

pytestmark = pytest.mark.timeout(120)


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_dashboard_ends_with_the_collector(tmp_path: Path, ending: signal.Signals) -> None:
    port, dashboard_port = free_port(), free_port()
    arguments = [
        COMMAND,
        "up",
        "--port",
        str(port),
        "--dashboard-port",
        str(dashboard_port),
        "--data-dir",
        str(tmp_path),
    ]
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments, stdout=output, stderr=output, env=clean_environment(), start_new_session=True
        )
    dashboard = f"http://127.0.0.1:{dashboard_port}/_stcore/health"
    wait_for(lambda: "stop with Ctrl-C" in log.read_text() or process.poll() is not None, what="the start")
    assert answers(dashboard), log.read_text()
    # As a terminal does: the whole group gets Ctrl-C.
    os.killpg(process.pid, ending)
    status = process.wait(timeout=60)
    assert status == (-signal.SIGKILL if ending == signal.SIGKILL else 0), log.read_text()
    wait_for(lambda: not answers(dashboard), what="the dashboard's end")
    if ending != signal.SIGKILL:
        assert not (tmp_path / "tracehold.duckdb.wal").exists()


def test_a_taken_dashboard_port_is_named_before_anything_is_opened(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [COMMAND, "up", "--port", "0", "--dashboard-port", str(port), "--data-dir", str(tmp_path / "data")],
            capture_output=True, text=True, env=clean_environment(), timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken" in done.stderr
    assert not (tmp_path / "data").exists()
