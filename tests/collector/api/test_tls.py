"""TLS on both ports, with a certificate made for the test: right clients get in, plain ones and strangers do not."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
import pytest
import trustme
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from tracehold import CollectorExporter, Tracer
from tracehold.core.errors import ConfigurationError
from tracehold_collector.client import AskError, Client
from tracehold_collector.core.tls import Certificate
from tracehold_collector.serve import CollectorServer

Serve = Callable[..., CollectorServer]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(autouse=True)
def _no_authorities_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> dict[str, Path]:
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(tmp_path / "cert.pem", append=number > 0)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return {name: tmp_path / f"{name}.pem" for name in ("cert", "key", "ca")}


@pytest.fixture
def server(serve: Serve, files: dict[str, Path]) -> CollectorServer:
    return serve(grpc=True, tls_cert=files["cert"], tls_key=files["key"])


def span() -> ReadableSpan:
    made = TracerProvider().get_tracer("test").start_span("chat m1", attributes={"gen_ai.operation.name": "chat"})
    made.end()
    assert isinstance(made, ReadableSpan)
    return made


def runs(server: CollectorServer, ca: Path) -> int:
    context = ssl.create_default_context(cafile=ca)
    answer = httpx.get(f"{server.url}/api/v1/queries/runs", verify=context, trust_env=False, timeout=30)
    return len(answer.json()["rows"])


def test_the_official_exporters_get_in_over_both_ports(server: CollectorServer, files: dict[str, Path]) -> None:
    assert server.url.startswith("https://")
    over_http = HttpExporter(endpoint=f"{server.url}/v1/traces", certificate_file=str(files["ca"]))
    credentials = grpc.ssl_channel_credentials(files["ca"].read_bytes())
    over_grpc = GrpcExporter(endpoint=f"https://127.0.0.1:{server.grpc_port}", credentials=credentials, timeout=20)
    for exporter in (over_http, over_grpc):
        assert exporter.export([span()]) is SpanExportResult.SUCCESS
        exporter.shutdown()
    assert runs(server, files["ca"]) == 2


def test_our_own_clients_trust_what_the_environment_names(
    server: CollectorServer, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files["ca"]))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    tracer = Tracer(exporters=[CollectorExporter(url=server.url)])
    tracer.emit({"type": "tool_call", "tool": "search"})
    assert tracer.force_flush()
    tracer.close()
    with Client(server.url) as client:
        assert len(client.query("runs", {})) == 1


def test_a_plain_request_and_a_client_that_does_not_know_the_authority_are_refused(
    server: CollectorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{server.port}/healthz", trust_env=False, timeout=30)
    with Client(server.url) as client, pytest.raises(AskError, match="no collector answers"):
        client.query("runs", {})
    plain = GrpcExporter(endpoint=f"http://127.0.0.1:{server.grpc_port}", insecure=True, timeout=1)
    assert plain.export([span()]) is SpanExportResult.FAILURE
    plain.shutdown()


@pytest.mark.parametrize("given", [{"tls_cert": "cert"}, {"tls_key": "key"}])
def test_a_certificate_without_its_key_is_refused(serve: Serve, files: dict[str, Path], given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="tls_cert and tls_key go together"):
        serve(**{name: files[file] for name, file in given.items()})


@pytest.mark.parametrize(("cert", "key"), [("key", "key"), ("ca", "key"), ("cert", "cert"), ("notes", "key")])
def test_files_that_do_not_belong_together_are_named_and_not_quoted(
    files: dict[str, Path], tmp_path: Path, cert: str, key: str
) -> None:
    notes = tmp_path / "notes.pem"
    notes.write_text("not a certificate")
    with pytest.raises(ConfigurationError, match="belong together") as caught:
        Certificate.load({**files, "notes": notes}[cert], files[key])
    assert str({**files, "notes": notes}[cert]) in str(caught.value)
    assert "PRIVATE KEY" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the TLS key .*nothing"):
        Certificate.load(files["cert"], tmp_path / "nothing.pem")
    assert "PRIVATE KEY" not in repr(Certificate.load(files["cert"], files["key"]))


def test_a_key_with_a_password_does_not_wait_at_the_terminal(files: dict[str, Path]) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - comes with trustme

    key = serialization.load_pem_private_key(files["key"].read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(os.urandom(8)),
    )
    files["key"].write_bytes(locked)
    with pytest.raises(ConfigurationError, match="without a password"):
        Certificate.load(files["cert"], files["key"])
