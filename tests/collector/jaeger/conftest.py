"""A collector that holds Jaeger's own fixtures, and one way to ask it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.recorded import shipped
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer

FIXTURES = shipped("jaeger-fixtures")
HERE = Path(__file__).resolve().parent

Ask = Callable[..., httpx.Response]


def asker(server: CollectorServer) -> Ask:
    """Ask a collector: `ask("/api/traces", service="x")`."""

    def ask(path: str, params: dict[str, Any] | None = None, **more: Any) -> httpx.Response:
        # Empty parameters would take away those that stand in the path.
        given = {**(params or {}), **more} or None
        return httpx.get(server.url + path, params=given, trust_env=False, timeout=30)

    return ask


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorServer]:
    """A collector that took in every fixture of Jaeger's by OTLP."""
    settings = load_settings(port=0, grpc=False, data_dir=tmp_path_factory.mktemp("jaeger"))
    with CollectorServer(settings) as server:
        for file in sorted(FIXTURES.glob("*.otlp.json")):
            headers = {"Content-Type": "application/json"}
            answer = httpx.post(server.url + "/v1/traces", content=file.read_bytes(), headers=headers, trust_env=False)
            assert answer.status_code == 200, file.name
        yield server


@pytest.fixture(scope="module")
def ask(jaeger: CollectorServer) -> Ask:
    return asker(jaeger)


@pytest.fixture
def asking() -> Callable[[CollectorServer], Ask]:
    """For collectors that a test fills itself."""
    return asker


@pytest.fixture(scope="session")
def schemas() -> dict[str, Any]:
    """What readers of each API rely on, frozen as JSON Schemas."""
    found: dict[str, Any] = json.loads((HERE / "answers.schema.json").read_text("utf-8"))
    return found
