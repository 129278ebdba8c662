"""The collector and the floor, each as a process of its own on a free port of the loopback."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb
import floor_server

HERE = Path(__file__).parent
Process = subprocess.Popen[bytes]


def start_collector(folder: Path, *, audit_log: bool = True) -> tuple[int, Process]:
    """Serve the store in `folder`; return the port and the process once it answers."""
    port = floor_server.free_port()
    program = str(Path(sys.executable).with_name("tracehold"))
    command = [program, "collect", "--port", str(port), "--grpc-port", "0", "--data-dir", str(folder)]
    return port, _start(command, port, more={"TRACEHOLD_AUDIT_LOG": str(audit_log).lower()})


def start_floor(folder: Path) -> tuple[int, Process]:
    """The same for the server that only parses, appends and syncs."""
    port = floor_server.free_port()
    return port, _start([sys.executable, str(HERE / "floor_server.py"), str(port), str(folder / "journal")], port)


def start_mlflow(folder: Path, python: str) -> tuple[int, Process]:
    """The same for MLflow on SQLite with one worker, run by an interpreter that has it."""
    port = floor_server.free_port()
    store = f"sqlite:///{folder / 'mlflow.db'}"
    command = [python, "-m", "mlflow", "server", "--backend-store-uri", store, "--port", str(port), "--workers", "1"]
    return port, _start(command, port, path="/health")


def stop(process: Process) -> None:
    """End it and wait; one that has ended is left alone."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait()


def events_stored(folder: Path) -> int:
    """How many different events a stopped collector's store holds."""
    with duckdb.connect(str(folder / "tracehold.duckdb"), read_only=True) as store:
        (stored,) = store.execute("SELECT count(DISTINCT event_id) FROM events").fetchone() or (0,)
    return int(stored)


def _start(command: list[str], port: int, path: str = "/readyz", *, more: Mapping[str, str] | None = None) -> Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACEHOLD_")} | (
        more or {}
    )
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, start_new_session=True)
    for _ in range(600):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return process
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{command[0]} did not answer on port {port}")
