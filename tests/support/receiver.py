"""An HTTP server that keeps what it is sent, and answers itself or passes it on to a collector."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

WAIT_S = 60


class Receiver:
    """What came in, by path, uncompressed. `url` is where it listens."""

    def __init__(self, upstream: str | None = None) -> None:
        self.url = ""
        self.bodies: list[tuple[str, bytes]] = []
        self._upstream = upstream
        self._changed = threading.Condition()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str, bytes]:
        """Keep one request; return status, content type and body of the answer."""
        answer = (200, "application/x-protobuf", b"")
        if self._upstream is not None:
            passed = {name: headers[name] for name in ("content-type", "content-encoding") if name in headers}
            reply = httpx.post(self._upstream + path, content=body, headers=passed, trust_env=False, timeout=WAIT_S)
            answer = (reply.status_code, reply.headers["content-type"], reply.content)
        with self._changed:
            self.bodies.append((path, _plain(body, headers.get("content-encoding"))))
            self._changed.notify_all()
        return answer

    def spans(self, path: str = "/v1/traces") -> list[Span]:
        """All spans that came in at `path`."""
        requests = [ExportTraceServiceRequest.FromString(body) for at, body in self.bodies if at == path]
        return [s for r in requests for group in r.resource_spans for scope in group.scope_spans for s in scope.spans]

    def wait_for_spans(self, count: int, path: str = "/v1/traces") -> list[Span]:
        """Wait until `count` spans are there, and return them."""
        with self._changed:
            there = self._changed.wait_for(lambda: len(self.spans(path)) >= count, WAIT_S)
        assert there, f"{len(self.spans(path))} of {count} spans came in"
        return self.spans(path)


def _plain(body: bytes, encoding: str | None) -> bytes:
    return gzip.decompress(body) if encoding == "gzip" else body


@contextlib.contextmanager
def receiver(upstream: str | None = None) -> Iterator[Receiver]:
    """A running receiver, ended with the block; with `upstream` a proxy that looks at what it passes on."""
    kept = Receiver(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, content_type, answer = kept.take(self.path, headers, body)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    kept.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
