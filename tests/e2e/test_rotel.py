"""Rotel, an OTLP receiver written by others in Rust, takes what we send and passes it on unchanged.

It ships as a wheel; the test starts its binary between our senders and a receiver of the test. Phoenix, a
whole backend for LLM traces, is asked by hand: `pytest -m external` with PHOENIX_URL set to a running one.
"""

import gzip
import json
import os
import socket
import subprocess
import sysconfig
import threading
import time
import urllib.request
import uuid
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from tracehold.core.ids import run_root_span_id, run_trace_id
from tracehold.observability.exporters.otel import OTelExporter
from tracehold_collector.core.record import Record
from tracehold_collector.forward import Forwarder, to_otlp
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.writer import Writer

pytestmark = pytest.mark.xdist_group("rotel")

RUN = "0198c0de0000700080000000000000aa"
EVENTS = [
    {"type": "run_start", "event_id": "1" * 32, "run_id": RUN, "agent": "support", "step_index": 1},
    {
        "type": "llm_call",
        "event_id": "2" * 32,
        "run_id": RUN,
        "model": "small-1",
        "usage": {"input_tokens": 12},
    },
    {
        "type": "tool_call",
        "event_id": "3" * 32,
        "run_id": RUN,
        "tool": "rm",
        "status": "denied",
        "rule": "no-shell",
    },
    {
        "type": "tool_call",
        "event_id": "4" * 32,
        "run_id": RUN,
        "tool": "get",
        "status": "error",
        "result": "Grüße",
    },
    {"type": "run_end", "event_id": "5" * 32, "run_id": RUN, "agent": "support", "latency_ms": 20},
]


class Sink:
    """Collects the trace requests that arrive at the end of the chain."""

    def __init__(self):
        self.changed = threading.Condition()
        self.requests = []
        self.url = ""

    def add(self, body):
        with self.changed:
            self.requests.append(ExportTraceServiceRequest.FromString(body))
            self.changed.notify_all()

    def wait_for_spans(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.spans()) >= count, 30), len(self.spans())
        return self.spans()

    def spans(self):
        return [s for r in self.requests for g in r.resource_spans for scope in g.scope_spans for s in scope.spans]


@contextmanager
def running_sink():
    sink = Sink()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            # Rotel compresses, also when told not to.
            sink.add(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    sink.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_ports(count):
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


CANNOT_LOAD = 127
"""What the dynamic loader ends a program with when a library of its is missing."""


def rotel_binary():
    found = find_spec("rotel")
    if found is None or found.origin is None:
        pytest.skip("rotel is not installed: pip install 'rotel==0.0.1a15'")
    binary = Path(found.origin).parent / "rotel-agent"
    tried = subprocess.run([str(binary), "--version"], capture_output=True, env=rotel_environment(), check=False)
    if tried.returncode == CANNOT_LOAD:
        pytest.skip("rotel cannot run here: it needs this Python's shared library, which this Python was built without")
    return binary


def rotel_environment():
    """The binary is linked against the shared library of the Python that its wheel is for."""
    return os.environ | {"LD_LIBRARY_PATH": sysconfig.get_config_var("LIBDIR") or ""}


@contextmanager
def running_rotel(folder, sink_url):
    http_port, grpc_port = free_ports(2)
    command = [
        str(rotel_binary()),
        "start",
        f"--otlp-http-endpoint=127.0.0.1:{http_port}",
        f"--otlp-grpc-endpoint=127.0.0.1:{grpc_port}",
        "--exporter=otlp",
        f"--otlp-exporter-endpoint={sink_url}",
        "--otlp-exporter-protocol=http",
        "--batch-timeout=20ms",
        f"--pid-file={folder / 'rotel.pid'}",
        f"--log-file={folder / 'rotel.log'}",
    ]
    with (folder / "rotel.out").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=rotel_environment())
        try:
            wait_until_it_listens(http_port, process, folder / "rotel.out")
            yield f"http://127.0.0.1:{http_port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_it_listens(port, process, output):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, output.read_text("utf-8", "replace")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.02)
    raise AssertionError(output.read_text("utf-8", "replace"))


@pytest.fixture
def rotel(tmp_path):
    """The address of a running Rotel and the sink it exports to."""
    with running_sink() as sink, running_rotel(tmp_path, sink.url) as url:
        yield url, sink


def export_through_sdk(traces_url, *, run_id=RUN):
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(traces_url)))
    exporter = OTelExporter(tracer_provider=provider, conventions="genai")
    for event in EVENTS:
        exporter.export({**event, "run_id": run_id})
    provider.shutdown()


def attributes_of(span):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def record(number, **fields):
    defaults = {
        "event_id": number.to_bytes(16, "big"),
        "tenant": "acme",
        "run_id": RUN,
        "kind": "tool",
        "type": "tool_call",
        "source": "tracer",
        "trace_id": run_trace_id(RUN),
        "span_id": f"{number:016x}",
        "parent_span_id": run_root_span_id(RUN),
        "name": "get",
        "status": "ok",
        "started_at": 1_700_000_000_000_000_000 + number,
        "duration_ns": 1_000_000,
        "service": "shop",
    }
    return Record(**{**defaults, **fields})


RECEIVED = record(
    7,
    source="otlp",
    status="error",
    content={
        "name": "POST /v1/chat",
        "span_kind": 3,
        "status_message": "no",
        "trace_state": "vendor=1",
        "attributes": {"text": "Grüße", "n": 3, "ratio": 0.5, "yes": True, "tags": ["a", "b"]},
        "events": [{"name": "retry", "time_unix_nano": 1_700_000_000_000_000_010, "attributes": {"n": 1}}],
        "links": [{"trace_id": "ab" * 16, "span_id": "cd" * 8, "attributes": {}}],
        "resource": {"attributes": {"service.name": "till", "host": "h"}},
        "scope": {"name": "app", "version": "1.2"},
    },
)


def test_a_run_from_the_otel_exporter_reaches_another_receiver_as_one_tree(rotel):  # DEC-17
    url, sink = rotel
    export_through_sdk(f"{url}/v1/traces")
    spans = sink.wait_for_spans(len(EVENTS))
    assert {span.trace_id.hex() for span in spans} == {run_trace_id(RUN)}
    assert {span.parent_span_id.hex() for span in spans} == {run_root_span_id(RUN)}
    names = ["chat small-1", "execute_tool get", "gate rm", "invoke_agent support", "run_start"]
    assert sorted(span.name for span in spans) == names


def test_event_and_run_ids_survive_another_receiver(rotel):  # DEC-17
    url, sink = rotel
    export_through_sdk(f"{url}/v1/traces")
    found = {attributes_of(span)["tracehold.event_id"] for span in sink.wait_for_spans(len(EVENTS))}
    assert found == {event["event_id"] for event in EVENTS}


def test_a_denial_and_a_failure_are_told_apart_behind_another_receiver(rotel):  # DEC-01
    url, sink = rotel
    export_through_sdk(f"{url}/v1/traces")
    spans = {span.name: span for span in sink.wait_for_spans(len(EVENTS))}
    denied, failed = spans["gate rm"], spans["execute_tool get"]
    assert (denied.status.code, attributes_of(denied)["tracehold.decision"]) == (0, "denied")
    assert (failed.status.code, attributes_of(failed)["result"]) == (2, "Grüße")


@pytest.fixture
def forward(tmp_path):
    """Store records, forward them to an address, and return how it went."""
    database = Database(tmp_path / FILE_NAME)
    writer = Writer(database)

    def forward_to(url, records):
        writer.submit(records).result(20)
        forwarder = Forwarder(database, tmp_path, url, since="start")
        forwarder.start()
        assert forwarder.close(20) is True
        return forwarder.status()

    yield forward_to
    writer.close()
    database.close()


def test_forwarded_records_reach_another_receiver_byte_for_byte(rotel, forward):
    url, sink = rotel
    records = [
        record(1, kind="run", type="run_end", span_id=run_root_span_id(RUN), parent_span_id=None, agent="support"),
        record(2, kind="llm", type="llm_call", model="small-1", input_tokens=12, content={"output": "hello"}),
        record(3, kind="gate", name="rm", status="blocked", decision="denied", rule="no-shell"),
        RECEIVED,
    ]
    status = forward(url, records)
    arrived = {span.span_id: span.SerializeToString(deterministic=True) for span in sink.wait_for_spans(4)}
    sent = {
        span.span_id: span.SerializeToString(deterministic=True)
        for group in to_otlp(records).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    }
    assert arrived == sent
    assert (status.sent, status.refused) == (4, 0)


def test_resource_and_scope_of_a_forwarded_span_survive_another_receiver(rotel, forward):
    url, sink = rotel
    forward(url, [RECEIVED])
    sink.wait_for_spans(1)
    (group,) = sink.requests[0].resource_spans
    assert {pair.key: pair.value.string_value for pair in group.resource.attributes} == {
        "service.name": "till",
        "host": "h",
    }
    assert (group.scope_spans[0].scope.name, group.scope_spans[0].scope.version) == ("app", "1.2")


@pytest.mark.slow
@pytest.mark.external
def test_phoenix_shows_a_run_of_both_senders(forward):
    """By hand, against a running Arize Phoenix: both ways in give one trace with its spans."""
    url = os.environ.get("PHOENIX_URL")
    if not url:
        pytest.skip("set PHOENIX_URL to a running Phoenix, such as http://127.0.0.1:6006")
    forwarded, exported = uuid.uuid4().hex, uuid.uuid4().hex
    ids = [uuid.uuid4().hex[:16] for _ in range(2)]
    trace_id = run_trace_id(forwarded)
    spans = [record(n, run_id=forwarded, trace_id=trace_id, span_id=own) for n, own in enumerate(ids, 1)]
    assert forward(url, spans).sent == 2
    export_through_sdk(f"{url}/v1/traces", run_id=exported)
    wait_for_phoenix_spans(url, run_trace_id(forwarded), 2)
    wait_for_phoenix_spans(url, run_trace_id(exported), len(EVENTS))


def wait_for_phoenix_spans(url, trace_id, count):
    deadline = time.monotonic() + 30
    found = []
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{url}/v1/projects/default/spans?limit=1000", timeout=10) as answer:  # noqa: S310 - the tester's own server
            spans = json.load(answer)["data"]
        found = [span for span in spans if span["context"]["trace_id"] == trace_id]
        if len(found) >= count:
            return
        threading.Event().wait(0.2)
    raise AssertionError(f"Phoenix shows {len(found)} of {count} spans")
