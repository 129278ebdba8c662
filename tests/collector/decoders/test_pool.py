"""Decoder processes: the same rows as in this process, and no body or crash takes the collector down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.otlp import chat_spans
from tracehold_collector.core.errors import BadBodyError, StoreError, TooLargeError
from tracehold_collector.core.limits import Limits
from tracehold_collector.core.tenants import Writes
from tracehold_collector.decoders.decoder import Decoder, DecoderSettings, Job
from tracehold_collector.decoders.pool import DecoderPool

SETTINGS = DecoderSettings(b"k" * 32, Limits(max_items=500))
WRITES = Writes("default", ("default",))


@pytest.fixture
def pool() -> Iterator[DecoderPool]:
    opened = DecoderPool(SETTINGS, 1)
    assert opened.wait_ready(60)
    yield opened
    opened.close()


def spans(first: int, count: int) -> Job:
    return Job("traces", "protobuf", chat_spans(first, count).SerializeToString(), None, WRITES)


@dataclass
class Deadly:
    """Ends the process that unpacks it."""

    def __reduce__(self) -> Any:
        return os._exit, (7,)


def test_a_process_decodes_as_this_process_does(pool: DecoderPool) -> None:
    here = Decoder(SETTINGS).decode(spans(0, 50))
    there = pool.decode(spans(0, 50))
    assert there.rows.records() == here.rows.records()
    assert len(there.rows) == 50


def test_what_a_process_refuses_is_refused_here_with_its_place(pool: DecoderPool) -> None:
    with pytest.raises(BadBodyError, match="not an OTLP"):
        pool.decode(Job("traces", "protobuf", b"\xff\xff\xff", None, WRITES))
    with pytest.raises(BadBodyError, match="broken") as refused:
        pool.decode(Job("traces", "protobuf", b"\x1f\x8bnothing", "gzip", WRITES))
    assert refused.value.where == "byte 0"
    with pytest.raises(TooLargeError, match="max_items"):
        pool.decode(spans(0, 501))
    assert len(pool.decode(spans(0, 1)).rows) == 1


def test_a_job_whose_process_was_killed_is_done_by_the_next(pool: DecoderPool) -> None:
    (worker,) = pool._workers
    worker._process.send_signal(signal.SIGKILL)
    worker._process.wait(10)
    assert len(pool.decode(spans(0, 3)).rows) == 3


def test_a_body_that_ends_two_processes_is_refused_and_the_pool_lives(pool: DecoderPool) -> None:
    deadly: Any = Deadly()
    with pytest.raises(BadBodyError, match="ended twice"):
        pool.decode(Job("traces", "protobuf", deadly, None, WRITES))
    assert len(pool.decode(spans(0, 3)).rows) == 3


def test_without_a_process_the_pool_is_not_ready_and_says_so(
    pool: DecoderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def none_left(*_: Any, **__: Any) -> Any:
        tried.set()
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", none_left)
    (worker,) = pool._workers
    worker._process.kill()
    worker._process.wait(10)
    monkeypatch.setattr("tracehold_collector.decoders.pool._WAIT_S", 0.01)
    with pytest.raises(StoreError, match="no decoder was free"):
        pool.decode(spans(0, 3))
    assert tried.wait(10)
    assert not pool.ready  # what comes now is decoded in the collector's own process


def test_who_waits_for_a_process_at_the_end_is_told_to_come_back(pool: DecoderPool) -> None:
    worker = pool._idle.get()
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            pool.decode(spans(0, 1))
        except StoreError as error:
            failed.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    pool.close()
    waiting.join(10)
    assert "stopping" in str(failed[0])
    assert worker is not None
    assert worker._process.poll() is not None


def test_the_processes_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    program = """
import sys, time
from tracehold_collector.core.limits import Limits
from tracehold_collector.decoders.decoder import DecoderSettings
from tracehold_collector.decoders.pool import DecoderPool
pool = DecoderPool(DecoderSettings(b"k" * 32, Limits()), 1)
assert pool.wait_ready(60)
(worker,) = pool._workers
print(worker._process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        watched = os.pidfd_open(child)
        parent.kill()
        parent.wait(10)
        ready = threading.Event()
        watcher = threading.Thread(target=lambda: (_readable(watched), ready.set()), daemon=True)
        watcher.start()
        assert ready.wait(20)
    os.close(watched)


def _readable(descriptor: int) -> None:
    import select  # noqa: PLC0415 - used here only

    select.select([descriptor], [], [])


def test_a_process_does_without_pandas() -> None:
    program = """
import sys
from tracehold_collector.core.lean import without_pandas
from tracehold_collector.decoders import worker
without_pandas()
from tracehold_collector.store.rows import encode
encode([])
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
