"""A receiver that takes OTLP over HTTP and makes trouble on request."""

import gzip
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tracehold_collector.core.record import Record
from tracehold_collector.forward import Forwarder
from tracehold_collector.forward.backoff import Backoff
from tracehold_collector.store.writer import Writer

START_NS = 1_700_000_000_000_000_000


@dataclass
class Receiver:
    """What a receiver saw, and what it answers next.

    `script` holds (status, headers, body) for the coming requests, or `CUT`; an empty script answers `otherwise`. What
    it answered 2xx is in `taken` too. After `hold`, answers wait for `release`.
    """

    script: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    taken: list = field(default_factory=list)
    otherwise: tuple = (200, {}, b"")
    url: str = ""

    def __post_init__(self):
        self.changed = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()

    def hold(self):
        self.gate.clear()

    def release(self):
        self.gate.set()

    def take(self, path, headers, body):
        with self.changed:
            self.requests.append((path, headers, body))
            self.changed.notify_all()
            answer = self.script.pop(0) if self.script else self.otherwise
            if answer is not CUT and 200 <= answer[0] < 300:
                self.taken.append((path, headers, body))
        self.gate.wait(30)
        return answer

    def wait_for_requests(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, 20), len(self.requests)

    def spans(self):
        """The spans of all requests in order, those answered with trouble included."""
        return [span for request in self.parsed() for span in spans_of(request)]

    def parsed(self):
        return [parse(headers, body) for _, headers, body in self.requests]

    def taken_spans(self):
        """The spans of the requests that were answered 2xx."""
        return [span for _, headers, body in self.taken for span in spans_of(parse(headers, body))]


CUT = None
"""An answer that never comes: the connection is cut after the request was read."""


def parse(headers, body):
    plain = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
    return ExportTraceServiceRequest.FromString(plain)


def spans_of(request):
    return [span for r in request.resource_spans for s in r.scope_spans for span in s.spans]


def partial_success(rejected):
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    return answer.SerializeToString()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        """A client that goes away in the middle is part of these tests."""


@contextmanager
def serving(receiver, port=0):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told = receiver.take(self.path, dict(self.headers), body)
            if told is CUT:
                self.close_connection = True
                return
            status, headers, answer = told
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            """Silent."""

    server = Server(("127.0.0.1", port), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def receiver():
    with serving(Receiver()) as running:
        yield running


@pytest.fixture
def make_record():
    def make(number=1, **fields):
        defaults = {
            "event_id": number.to_bytes(16, "big"),
            "tenant": "default",
            "run_id": "run-1",
            "kind": "tool",
            "type": "tool_call",
            "source": "tracer",
            "trace_id": "0af7651916cd43dd8448eb211c80319c",
            "span_id": f"{number:016x}",
            "parent_span_id": "b7ad6b7169203331",
            "name": f"tool{number}",
            "status": "ok",
            "started_at": START_NS + number,
            "duration_ns": 1_000_000,
        }
        return Record(**{**defaults, **fields})

    return make


@pytest.fixture
def commit(database):
    """Store records, a commit a call, as the collector's writer does; the store is the queue of what is forwarded."""
    writer = Writer(database)
    yield lambda records: writer.submit(records).result(20)
    writer.close()


@pytest.fixture
def forwarder_to(database, tmp_path):
    """Make forwarders that wait for nobody, and start them unless told; all are closed at the end."""
    made = []

    def make(endpoint, *, start=True, **options):
        quick = {"timeout_s": 5.0, "gather_s": 0.0, "save_every_s": 0.0, "backoff": Backoff(0.001, 0.002)}
        made.append(Forwarder(database, tmp_path, endpoint, **{**quick, **options}))
        if start:
            made[-1].start()
        return made[-1]

    yield make
    for forwarder in made:
        forwarder.close(0.0)


@pytest.fixture
def serve_on():
    """`serving`, for tests that start and stop receivers themselves."""
    return serving


@pytest.fixture
def make_receiver():
    return Receiver


@pytest.fixture
def rejecting():
    return partial_success
