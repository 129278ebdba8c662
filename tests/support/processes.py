"""Runs the `tracehold` command as a user would: a process of its own, on free ports, killed when asked."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

COMMAND = str(Path(sys.executable).with_name("tracehold"))


def clean_environment() -> dict[str, str]:
    """This process's environment without settings that would change what is started; OTLP/gRPC takes any free port."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRACEHOLD_", "OTEL_"))}
    return kept | {"NO_COLOR": "1", "COLUMNS": "200", "TRACEHOLD_GRPC_PORT": "0"}


def free_port() -> int:
    """A port nobody listens on now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], bool], *, within_s: float = 30.0, what: str = "the condition") -> None:
    """Ask until `condition` holds; fail after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within_s:g} s")
        time.sleep(0.02)


class CollectorProcess:
    """A `tracehold collect` process on a port and folder of its own."""

    def __init__(self, data_dir: Path, port: int | None = None, *flags: str) -> None:
        self.data_dir = data_dir
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.flags = flags
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> CollectorProcess:
        """Start it and wait until it answers."""
        arguments = [
            COMMAND,
            "collect",
            "--port",
            str(self.port),
            "--data-dir",
            str(self.data_dir),
            *self.flags,
        ]
        log = (self.data_dir.parent / f"collector-{self.port}.log").open("ab")
        self.process = subprocess.Popen(
            arguments, stdout=log, stderr=log, env=clean_environment(), start_new_session=True
        )
        log.close()
        wait_for(self.answers, what=f"the collector at {self.url}")
        return self

    def answers(self) -> bool:
        """Say whether it is ready."""
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the collector ended with status {self.process.returncode}: {self.log()[-2000:]}")
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def log(self) -> str:
        """What it wrote."""
        return (self.data_dir.parent / f"collector-{self.port}.log").read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, closed or said."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        if self.process is None:
            return 0
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(number)
        return process.wait(timeout=60)


@contextlib.contextmanager
def collector(data_dir: Path, *flags: str) -> Iterator[CollectorProcess]:
    """A running collector, ended with the block."""
    process = CollectorProcess(data_dir, None, *flags).start()
    try:
        yield process
    finally:
        process.stop()
