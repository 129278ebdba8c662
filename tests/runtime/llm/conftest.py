"""A provider on a local port: a real HTTP server that answers as a test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tracehold.llm import AnthropicClient, OpenAIClient

EXCHANGES = Path(__file__).resolve().parents[2] / "data" / "llm"
KEY = "sk-made-up-secret"


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    arrived_at: float


@dataclass
class Answer:
    """What the provider sends: a status, headers, and a body in pieces, each flushed on its own."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    cut: bool = False
    """Close the connection instead of ending the body."""
    hold: threading.Event | None = None
    """Wait for it before the body's end (or before everything, when there are no pieces)."""
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when the client turned out to have left while `hold` was awaited."""


class Provider:
    """The server: queue answers, then look at `requests`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.connections: set[int] = set()
        self._answers: list[Answer] = []
        self._lock = threading.Lock()

    def stored(self, name: str, **changes: Any) -> Answer:
        """Queue an exchange from `tests/data/llm`."""
        stored = json.loads((EXCHANGES / f"{name}.json").read_text("utf-8"))["answer"]
        headers, status = stored.get("headers", {}), stored.get("status", 200)
        if "events" not in stored:
            return self.json(stored["json"], status=status, headers=headers, **changes)
        return self.events(stored["events"], named=name.startswith("anthropic"), headers=headers, **changes)

    def json(self, value: object, **changes: Any) -> Answer:
        changes["headers"] = {"content-type": "application/json", **changes.get("headers", {})}
        return self.queue(Answer(pieces=[json.dumps(value, ensure_ascii=False).encode()], **changes))

    def events(
        self, events: list[Any], *, named: bool = False, keep: int | None = None, split: bool = False, **changes: Any
    ) -> Answer:
        """Queue a stream; `keep` sends only so many events, `split` a byte at a time."""
        pieces = []
        for event in events[:keep]:
            head = f"event: {event['type']}\n" if named else ""
            pieces.append(f"{head}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
        if not named and keep is None:
            pieces.append(b"data: [DONE]\n\n")
        if split:
            pieces = [bytes([byte]) for byte in b"".join(pieces)]
        changes["headers"] = {"content-type": "text/event-stream", **changes.get("headers", {})}
        return self.queue(Answer(pieces=pieces, **changes))

    def raw(self, body: bytes, content_type: str) -> Answer:
        return self.queue(Answer(headers={"content-type": content_type}, pieces=[body] if body else []))

    def silence(self, hold: threading.Event) -> Answer:
        """Queue an answer that does not begin before `hold` is set."""
        return self.queue(Answer(hold=hold))

    def queue(self, answer: Answer) -> Answer:
        self._answers.append(answer)
        return answer

    def take(self, request: Request, connection: int) -> Answer:
        with self._lock:
            self.requests.append(request)
            self.connections.add(connection)
            return self._answers.pop(0) if self._answers else Answer(599, {"x-should-retry": "false"})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: Provider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.provider.take(Request(self.path, headers, body, time.monotonic()), self.client_address[1])
        try:
            self._send(answer)
        except OSError:
            answer.gone.set()
            self.close_connection = True

    def _send(self, answer: Answer) -> None:
        if answer.hold is not None and not answer.pieces:
            answer.hold.wait()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in answer.pieces:
            self._chunk(piece)
        if answer.hold is not None:
            self._watch(answer, answer.hold)
        if answer.cut:
            self.close_connection = True
        else:
            self._chunk(b"")

    def _watch(self, answer: Answer, hold: threading.Event) -> None:
        self.connection.settimeout(0.02)
        while not hold.is_set():
            try:
                if not self.connection.recv(1):
                    raise ConnectionResetError
            except TimeoutError:
                continue
        self.connection.settimeout(None)

    def _chunk(self, piece: bytes) -> None:
        self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.flush()

    def log_message(self, *_arguments: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that left in mid-answer is what some tests are about


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider that answers what the test queued; no variable of this machine reaches the clients."""
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Server(("127.0.0.1", 0), Handler)
    handler = type("BoundHandler", (Handler,), {"provider": Provider(f"http://127.0.0.1:{server.server_port}")})
    server.RequestHandlerClass = handler
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield handler.provider
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def openai_client(provider: Provider) -> Callable[..., OpenAIClient]:
    """Makes clients of the local provider that try once."""

    def make(**options: Any) -> OpenAIClient:
        given = {"api_key": KEY, "base_url": f"{provider.url}/v1", "max_retries": 0, "timeout": 20} | options
        return OpenAIClient("small", **given)

    return make


@pytest.fixture
def anthropic_client(provider: Provider) -> Callable[..., AnthropicClient]:
    """Makes clients of the local provider that try once."""

    def make(**options: Any) -> AnthropicClient:
        return AnthropicClient(
            "small", **{"api_key": KEY, "base_url": provider.url, "max_retries": 0, "timeout": 20} | options
        )

    return make


@pytest.fixture(params=["openai", "anthropic"])
def either(request: pytest.FixtureRequest) -> tuple[str, Callable[..., Any]]:
    """Both clients in turn, as the name of their exchanges and a maker: what holds for one must hold for the other."""
    return request.param, request.getfixturevalue(f"{request.param}_client")
