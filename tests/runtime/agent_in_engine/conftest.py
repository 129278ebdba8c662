"""Tools, engines and stores for an agent that runs inside the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tracehold.core.retry import RetryPolicy
from tracehold.engine import Engine
from tracehold.events.in_process_bus import InProcessBus
from tracehold.events.sqlite_store import SQLiteEventStore

PATIENCE = 30
"""Seconds after which something that never happens fails a test, instead of hanging it."""


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a test's coroutine; it fails when it hangs."""
    return lambda coroutine: asyncio.run(asyncio.wait_for(coroutine, PATIENCE))


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def engine_on() -> Callable[..., Engine]:
    """Make an engine that loses no time, on a file as a process of its own would open it, or in memory."""

    def make(path: Path | None = None, **options: Any) -> Engine:
        store = SQLiteEventStore(path, poll_s=0.01) if path is not None else None
        retry = RetryPolicy(max_attempts=3, base_delay_s=0.001, max_delay_s=0.002)
        bus = InProcessBus(redeliver_base_s=0.001, redeliver_max_s=0.002)
        return Engine(store, bus, store_retry=retry, **options)

    return make
