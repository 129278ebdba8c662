"""Stores, records and running collectors for the collector's tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.records import make_record
from tracehold_collector.core.record import Record
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer
from tracehold_collector.store.database import FILE_NAME, Database


@pytest.fixture
def record() -> Callable[..., Record]:
    return make_record


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(tmp_path / FILE_NAME)
    yield opened
    opened.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., CollectorServer]]:
    """Start collectors on free ports, without gRPC unless told; all are closed at the end."""
    running: list[CollectorServer] = []

    def start(**flags: Any) -> CollectorServer:
        settings = load_settings(**({"port": 0, "grpc": False, "grpc_port": 0, "data_dir": tmp_path / "data"} | flags))
        server = CollectorServer(settings)
        running.append(server)
        server.start()
        return server

    for name in [name for name in os.environ if name.startswith("TRACEHOLD_") and name != "TRACEHOLD_TRACES"]:
        if name not in {"TRACEHOLD_REQUIRE_BROWSER", "TRACEHOLD_PROFILE", "TRACEHOLD_TLOG_PYTHON"}:
            pytest.fail(f"unset {name}: it would change what these tests start")
    yield start
    for server in running:
        server.close()
