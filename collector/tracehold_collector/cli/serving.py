"""The verbs that serve: `collect`, `dashboard`, `up`, `demo`."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import httpx
import typer
from tracehold.core.extras import install_hint

from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.ports import PortTakenError, bind
from tracehold_collector.core.settings import CollectorSettings, is_loopback, load_settings

if TYPE_CHECKING:
    from tracehold_collector.serve import CollectorServer

DASHBOARD_PORT = 8501

Host = Annotated[
    str | None,
    typer.Option(
        help="Address to listen on; anything but loopback needs a key, see tracehold keys. [default: 127.0.0.1]"
    ),
]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port for OTLP/HTTP, events and the API. [default: 4318]")
]
Grpc = Annotated[bool | None, typer.Option("--grpc/--no-grpc", help="Take OTLP/gRPC in. [default: grpc]")]
GrpcPort = Annotated[int | None, typer.Option(min=0, max=65535, help="Port for OTLP/gRPC. [default: 4317]")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the store. [default: the platform's user data folder]")]
Forward = Annotated[
    str | None,
    typer.Option(help="OTLP/HTTP endpoint (Jaeger, any backend) that gets a copy of what comes in."),
]
ForwardFrom = Annotated[
    str | None,
    typer.Option(
        help="What to forward: 'start' is all there is, 'now' what comes, or what came in since a time such as "
        "2026-11-30T08:00 (UTC). The same wish works once. [default: where it had got to; at first, now]"
    ),
]
TlsCert = Annotated[
    Path | None, typer.Option(help="PEM file of a certificate chain: both ports then speak TLS only. [default: none]")
]
TlsKey = Annotated[Path | None, typer.Option(help="PEM file of its private key, without a password.")]
Prices = Annotated[
    Path | None, typer.Option(help="Your own prices, a TOML file; see 'tracehold prices check'. [default: none]")
]
BudgetsFile = Annotated[
    Path | None,
    typer.Option("--budgets", help="What may be spent, a TOML file; see 'tracehold budgets'. [default: none]"),
]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error. [default: info]")]
DashboardPort = Annotated[int, typer.Option(min=1, max=65535, help="Port of the dashboard.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(up)
    app.command()(collect)
    app.command()(dashboard)
    app.command()(demo)


def collect(
    host: Host = None,
    port: Port = None,
    grpc: Grpc = None,
    grpc_port: GrpcPort = None,
    data_dir: DataDir = None,
    forward: Forward = None,
    forward_from: ForwardFrom = None,
    prices: Prices = None,
    budgets: BudgetsFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    memory_limit: Annotated[str | None, typer.Option(help="DuckDB's memory budget. [default: 1GB]")] = None,
    decoders: Annotated[
        int | None,
        typer.Option(min=0, max=64, help="Processes that decode what comes in. [default: one a core, at least 2]"),
    ] = None,
    log_level: LogLevel = None,
) -> None:
    """Run the collector: takes in what agents send, stores it once, answers over HTTP."""
    settings = load_settings(
        host=host,
        port=port,
        grpc=grpc,
        grpc_port=grpc_port,
        data_dir=data_dir,
        forward=forward,
        forward_from=forward_from,
        prices=prices,
        budgets=budgets,
        tls_cert=tls_cert,
        tls_key=tls_key,
        memory_limit=memory_limit,
        decoders=decoders,
        log_level=log_level,
    )
    server = _server(settings)
    server.run(on_ready=lambda: _announce(server, None))


def dashboard(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: DashboardPort = DASHBOARD_PORT,
    url: Annotated[
        str, typer.Option("--url", envvar="TRACEHOLD_URL", help="The collector to show.")
    ] = "http://127.0.0.1:4318",
) -> None:
    """Run the dashboard: waterfalls, gate denials and spend in a browser."""
    if not is_loopback(host) and not os.environ.get("TRACEHOLD_API_KEY"):
        raise CollectorError(
            f"refusing to show the dashboard on {host}: it has no login of its own, so anyone who reaches it could "
            "read every trace. Put it behind a proxy with one and set TRACEHOLD_API_KEY, or use --host 127.0.0.1"
        )
    with _dashboard_process(host, port, url) as process:
        typer.echo(f"dashboard  http://{host}:{port}  (shows {url})")
        process.wait()


def up(
    port: Port = None,
    grpc: Grpc = None,
    grpc_port: GrpcPort = None,
    dashboard_port: DashboardPort = DASHBOARD_PORT,
    data_dir: DataDir = None,
    forward: Forward = None,
    forward_from: ForwardFrom = None,
    prices: Prices = None,
    budgets: BudgetsFile = None,
    log_level: LogLevel = None,
) -> None:
    """Run collector and dashboard together on this machine, until Ctrl-C."""
    settings = load_settings(
        port=port,
        grpc=grpc,
        grpc_port=grpc_port,
        data_dir=data_dir,
        forward=forward,
        forward_from=forward_from,
        prices=prices,
        budgets=budgets,
        log_level=log_level or "warning",
    )
    bind("127.0.0.1", dashboard_port, setting="dashboard_port").close()
    server = _server(settings)
    with (
        _stopping_on_terminate(),
        server,
        _dashboard_process("127.0.0.1", dashboard_port, server.url) as process,
    ):
        _announce(server, dashboard_port)
        _wait(process)


def demo(
    port: Port = None,
    grpc_port: GrpcPort = None,
    dashboard_port: DashboardPort = DASHBOARD_PORT,
    data_dir: Annotated[Path, typer.Option(help="Folder of the demo's own store.")] = Path(".demo"),
    load_only: Annotated[
        bool, typer.Option("--load-only", help="Load the runs, print what was stored, and end.")
    ] = False,
) -> None:
    """Show it working: loads recorded runs of real agents, makes two live, and serves them until Ctrl-C."""
    from tracehold_collector import demo as parts  # noqa: PLC0415 - the demo's data is read only here

    wanted = load_settings(port=port, grpc_port=grpc_port, data_dir=data_dir, log_level="warning")
    server = _server_on_free_ports(wanted)
    with _stopping_on_terminate(), server:
        parts.load(server.url)
        if load_only:
            return
        own_port = _free_dashboard_port(dashboard_port)
        with _dashboard_process("127.0.0.1", own_port, server.url) as process:
            _announce(server, own_port)
            _wait(process)


def _server(settings: CollectorSettings) -> CollectorServer:
    # The server takes 0.2 s to import: not in every command.
    from tracehold_collector.serve import CollectorServer, configure_logging  # noqa: PLC0415 - as said

    configure_logging(settings.log_level)
    return CollectorServer(settings)


def _server_on_free_ports(settings: CollectorSettings) -> CollectorServer:
    while True:
        try:
            return _server(settings)
        except PortTakenError as taken:
            typer.echo(f"port {taken.port} is taken by another program; the demo's collector uses {taken.free} instead")
            settings = settings.model_copy(update={taken.setting: taken.free})


def _free_dashboard_port(wanted: int) -> int:
    try:
        bind("127.0.0.1", wanted).close()
    except PortTakenError as taken:
        typer.echo(f"port {taken.port} is taken by another program; the dashboard uses {taken.free} instead")
        return taken.free
    return wanted


def _announce(server: CollectorServer, dashboard_port: int | None) -> None:
    if dashboard_port is not None:
        typer.echo(f"dashboard  http://127.0.0.1:{dashboard_port}")
    typer.echo(f"collector  {server.url}  (OTLP/HTTP at /v1/traces, events at /v1/events, answers at /api/v1/queries)")
    if server.grpc_address is not None:
        typer.echo(f"OTLP/gRPC  {server.grpc_address}")
    typer.echo(f"store      {server.database.path}")
    if server.keys.asks:
        count = len(server.keys.keys)
        typer.echo(f"access     with a key only, also on this machine; {count} made so far, see 'tracehold keys list'")
        if dashboard_port is not None and not os.environ.get("TRACEHOLD_API_KEY"):
            typer.echo("           the dashboard needs one that may read: set TRACEHOLD_API_KEY and start again")
    elif server.gate.keyless:
        typer.echo("access     no key: this machine only, one tenant, every role. 'tracehold keys create' ends that")
    typer.echo("stop with Ctrl-C; nothing that was accepted is lost")


@contextmanager
def _dashboard_process(host: str, port: int, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the dashboard as a child; it ends with this block, and by itself when this process is gone."""
    if importlib.util.find_spec("streamlit") is None:
        raise CollectorError(f"the dashboard needs more packages; {install_hint('dashboard')}")
    launch: Any = importlib.import_module("tracehold_dashboard.launch")
    bind(host, port).close()
    environment = os.environ | {"TRACEHOLD_URL": url}
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own script
        launch.command(host, port, url),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # Ctrl-C in a terminal reaches every process of the session; this one is ended in its turn.
        start_new_session=True,
    )
    try:
        _wait_until_it_answers(process, host, port)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_answers(process: subprocess.Popen[bytes], host: str, port: int) -> None:
    address = "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104 - compared, not bound
    transport = httpx.HTTPTransport(retries=0)
    with httpx.Client(transport=transport, trust_env=False, timeout=2) as client:
        for _ in range(600):
            if process.poll() is not None:
                raise CollectorError(
                    f"the dashboard ended while starting, with status {process.returncode}; its messages stand above"
                )
            try:
                if client.get(f"http://{address}:{port}/_stcore/health").is_success:
                    return
            except httpx.TransportError:
                pass
            try:
                process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
    raise CollectorError(f"the dashboard did not answer on port {port} within a minute")


def _wait(process: subprocess.Popen[bytes]) -> None:
    status = process.wait()
    raise CollectorError(f"the dashboard ended by itself, with status {status}; the collector was stopped with it")


@contextmanager
def _stopping_on_terminate() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C and end quietly, so that every part is closed in order."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\nstopping: requests under way are answered, then the store is closed", err=True)
    finally:
        signal.signal(signal.SIGTERM, previous)
