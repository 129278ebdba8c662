"""A collector that does as it is told, on a real socket, and what the tests of the exporter share."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import pytest
from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id
from tracehold.observability.exporters.collector import CollectorExporter
from tracehold.observability.exporters.collector.ports import Ports

Item = TypeVar("Item")
DEADLINE_S = 60.0
"""Longer than anything takes; only a failing test waits so long."""


@dataclass(frozen=True)
class Arrival:
    """One request as it came: when (monotonic seconds), with which headers, with which events."""

    at: float
    path: str
    headers: dict[str, str]
    events: list[dict[str, Any]]

    @property
    def ids(self) -> list[str]:
        return [event["event_id"] for event in self.events]


@dataclass(frozen=True)
class Play:
    """What to do with one request."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    store: bool = False
    hang: bool = False
    cut: bool = False
    close: bool = False


class ScriptedCollector:
    """Takes plays in order; without one it stores by event id and answers 200, as the real one does."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.stored: dict[str, dict[str, Any]] = {}
        self.duplicates = 0
        self.connections = 0
        self.refuse: Callable[[dict[str, Any]], bool] = lambda _event: False
        self.break_on: Callable[[list[dict[str, Any]]], Play | None] = lambda _events: None
        self.clock: Callable[[], float] = time.monotonic
        self._plays: deque[Play] = deque()
        self._changed = threading.Condition()
        self._released = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self._open: set[socket.socket] = set()
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def play(self, *plays: Play) -> None:
        self._plays.extend(plays)

    def start(self) -> None:
        """Listen; after a `stop`, on the same port."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with owner._changed:
                    owner.connections += 1
                    owner._open.add(self.connection)

            def finish(self) -> None:
                with owner._changed:
                    owner._open.discard(self.connection)
                super().finish()

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True

            def do_POST(self) -> None:
                owner._serve(self)

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *args: object) -> None:
                pass

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Stop listening and cut what is open, as a killed server would."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        with self._changed:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        server.server_close()

    def release(self) -> None:
        """Let hanging requests end without an answer."""
        self._released.set()

    def wait_for(self, condition: Callable[[ScriptedCollector], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), DEADLINE_S), "the collector never saw it"

    def wait_for_stored(self, count: int) -> None:
        self.wait_for(lambda collector: len(collector.stored) >= count)

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if handler.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        events = [json.loads(line) for line in body.splitlines()]
        with self._changed:
            play = self.break_on(events) or (self._plays.popleft() if self._plays else Play(store=True))
            said = self._store(events) if play.store else {}
            self.arrivals.append(Arrival(self.clock(), handler.path, dict(handler.headers), events))
            self._changed.notify_all()
        if play.hang:
            self._released.wait(DEADLINE_S)
        if play.hang or play.cut:
            if play.cut:
                handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
            handler.close_connection = True
            return
        answer = play.body if play.body is not None else json.dumps(said).encode()
        handler.send_response_only(play.status)
        for name, value in {"Content-Length": str(len(answer)), **play.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(answer)
        if play.close:  # as a server does that is tired of an idle connection: without a word in the headers
            handler.close_connection = True

    def _store(self, events: list[dict[str, Any]]) -> dict[str, Any]:
        rejected, duplicates, accepted = [], 0, 0
        for number, event in enumerate(events, start=1):
            if self.refuse(event):
                rejected.append({"where": f"line {number}", "reason": "refused"})
            elif event["event_id"] in self.stored:
                duplicates += 1
            else:
                self.stored[event["event_id"]] = event
                accepted += 1
        self.duplicates += duplicates
        return {"accepted": accepted, "rejected": rejected, "duplicates": duplicates}


class FakeClock:
    """Time that passes only while somebody sleeps on it. A wait without end is a real one."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, queue: SimpleQueue[Item], timeout_s: float | None, /) -> Item:
        if timeout_s is None:
            return queue.get()
        if queue.empty():
            self.now_s += timeout_s
        return queue.get_nowait()

    def utc(self) -> datetime:
        return datetime.fromtimestamp(self.now_s, tz=UTC)

    def ports(self, random: float = 0.5) -> Ports:
        return Ports(monotonic=self.monotonic, wait=self.wait, random=lambda: random, now=self.utc)


def make_event(**fields: Any) -> dict[str, Any]:
    now = now_ns()
    return {"event_id": new_event_id(now), "run_id": "run-1", "type": "llm_call", "started_at_ns": now, **fields}


@pytest.fixture
def collector() -> Iterator[ScriptedCollector]:
    server = ScriptedCollector()
    yield server
    server.release()
    server.stop()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def spool_dir(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def make_exporter(collector: ScriptedCollector, spool_dir: Path) -> Iterator[Callable[..., CollectorExporter]]:
    made = []

    def make(**settings: Any) -> CollectorExporter:
        defaults = {"url": collector.url, "spool_dir": spool_dir, "handle_sigterm": False, "shutdown_timeout_s": 2.0}
        exporter = CollectorExporter(**{**defaults, **settings})
        made.append(exporter)
        return exporter

    yield make
    collector.release()
    for exporter in made:
        exporter.close()


@pytest.fixture
def event() -> Callable[..., dict[str, Any]]:
    return make_event


@pytest.fixture
def play() -> type[Play]:
    return Play


@pytest.fixture
def new_collector() -> type[ScriptedCollector]:
    return ScriptedCollector


PRELUDE = """
import os, signal, sys, threading, time, multiprocessing
from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id
from tracehold.observability.exporters.collector import CollectorExporter

def make(**settings):
    return CollectorExporter(os.environ["URL"], spool_dir=os.environ["SPOOL"], **settings)

def event(**fields):
    return {"event_id": new_event_id(now_ns()), "run_id": "run-1", "type": "llm_call", **fields}

def say(*words):
    print(*words, flush=True)
"""


class Program:
    """A real process that uses the exporter."""

    def __init__(self, source: str, collector: ScriptedCollector, spool_dir: Path, folder: Path) -> None:
        path = folder / f"program_{time.monotonic_ns()}.py"
        path.write_text(PRELUDE + source)
        environment = {
            **os.environ,
            "URL": collector.url,
            "SPOOL": str(spool_dir),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", str(path)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read_line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; return exit code, output and errors."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, out, err


@pytest.fixture
def program(collector: ScriptedCollector, spool_dir: Path, tmp_path: Path) -> Iterator[Callable[[str], Program]]:
    started = []

    def start(source: str) -> Program:
        started.append(Program(source, collector, spool_dir, tmp_path))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Poll until a condition holds; only a failing test waits to the deadline."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, "the condition never held"
            time.sleep(0.005)

    return wait
