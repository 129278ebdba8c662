"""`tracehold doctor`: what is here, what is missing, what would not work."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from tracehold.core.errors import TraceholdError
from tracehold.core.extras import install_hint
from tracehold.core.version import __version__

from tracehold_collector.access.file import opened
from tracehold_collector.access.keys import read_keys
from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.accessfile import holds_keys
from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.ports import PortTakenError, bind
from tracehold_collector.core.settings import CollectorSettings, load_settings
from tracehold_collector.forward.endpoint import Endpoint
from tracehold_collector.forward.progress import load_progress, progress_file
from tracehold_collector.store.database import FILE_NAME

_EXTRAS = {
    "collector": ["duckdb", "starlette", "uvicorn", "pyarrow"],
    "dashboard": ["streamlit", "plotly", "pandas"],
    "otel": ["opentelemetry.sdk"],
}
_PINNED = {"duckdb": "1.5.5"}
_LOW_DISK_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    state: Literal["ok", "note", "fault"]
    detail: str


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(doctor)


def doctor(
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the store to look at.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Look at this installation, its settings, the store and the collector. Exits 1 when something is at fault."""
    findings = [*_installation(), *_settings(data_dir), *_collector(url)]
    show(
        [{"state": item.state, "check": item.check, "detail": item.detail} for item in findings],
        as_json=as_json,
    )
    if any(item.state == "fault" for item in findings):
        raise typer.Exit(1)


def _installation() -> Iterator[Finding]:
    yield Finding("tracehold", "ok", f"{__version__} on Python {platform.python_version()}, {platform.system()}")
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        yield Finding("python", "fault", "Tracehold runs on Python 3.11 to 3.13")
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if not _importable(name)]
        detail = f"missing {', '.join(missing)}; {install_hint(extra)}" if missing else "installed"
        yield Finding(f"extra {extra}", "note" if missing else "ok", detail)
    for package, version in _PINNED.items():
        if _importable(package) and importlib.metadata.version(package) != version:
            yield Finding(package, "fault", f"{importlib.metadata.version(package)} is installed, {version} is needed")


def _settings(data_dir: Path | None) -> Iterator[Finding]:
    try:
        settings = load_settings(data_dir=data_dir)
    except TraceholdError as error:
        yield Finding("settings", "fault", str(error))
        return
    yield Finding("settings", "ok", f"{settings.host}:{settings.port}, {_access(settings)}")
    yield _port("port", settings.host, settings.port)
    if settings.grpc:
        yield _port("grpc port", settings.host, settings.grpc_port)
    yield _store(settings.data_dir)
    if settings.forward:
        yield _receiver(settings.forward, settings.data_dir)


def _access(settings: CollectorSettings) -> str:
    if holds_keys(settings.data_dir):
        try:
            with opened(settings.data_dir) as connection:
                count = len(read_keys(connection))
        except StoreError as error:
            return str(error)
        return f"with one of {count} keys, see 'tracehold keys list'" if count > 1 else "with the 1 key that was made"
    return "with the key in TRACEHOLD_API_KEY" if settings.api_key else "without a key, this machine only"


def _port(check: str, host: str, port: int) -> Finding:
    try:
        bind(host, port).close()
    except PortTakenError as error:
        return Finding(check, "note", f"{error.port} is in use (by the collector, if one runs); {error.free} is free")
    except TraceholdError as error:
        return Finding(check, "fault", str(error))
    return Finding(check, "ok", f"{port} is free")


def _store(folder: Path) -> Finding:
    existing = next(parent for parent in [folder, *folder.absolute().parents] if parent.exists())
    free = shutil.disk_usage(existing).free
    store = folder / FILE_NAME
    size = f"{store.stat().st_size / 1e6:,.1f} MB" if store.exists() else "no store yet"
    state: Literal["ok", "note"] = "note" if free < _LOW_DISK_BYTES else "ok"
    return Finding("store", state, f"{store}: {size}; {free / 1e9:,.1f} GB free")


def _receiver(address: str, folder: Path) -> Finding:
    try:
        endpoint = Endpoint(address)
        progress = load_progress(progress_file(folder, endpoint.identity))
    except TraceholdError as error:
        return Finding("forward", "fault", str(error))
    if progress is None:
        return Finding("forward", "ok", f"{endpoint.origin} was not served before: it gets what comes in from now on")
    return Finding(
        "forward", "ok", f"{progress.receiver} took {progress.sent:,} events so far and refused {progress.refused:,}"
    )


def _collector(url: str) -> Iterator[Finding]:
    try:
        with Client(url) as client:
            ready = client.get("/readyz").json()
            client.get("/api/v1/queries")
    except TraceholdError as error:
        yield Finding("collector", "note", str(error))
        return
    yield Finding("collector", "ok", f"ready at {url}")
    if "forward" in ready:
        yield _forwarding(**ready["forward"])


def _forwarding(trouble: str | None, waiting: int | None, behind_s: float | None, **_later: object) -> Finding:
    if waiting is None:
        return Finding("forwarding", "note", "the store does not say how much waits")
    lag = f"{waiting:,} events wait, the oldest for {behind_s:,.0f} s" if waiting else "nothing waits"
    if trouble is None:
        return Finding("forwarding", "ok", lag)
    return Finding(
        "forwarding", "note", f"nothing can be sent just now ({trouble}); {lag}. They are kept, and sent when it can"
    )


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
