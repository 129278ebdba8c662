"""Logs that another engine wrote, with the state its own fold gave: ours gives the same (EVT-06, ENG-04, LED-06)."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from engine_parts import Idle, engine_on, run
from tracehold.engine import Ledger
from tracehold.engine.run_fold import RunFold
from tracehold.events import Event, EventStore
from tracehold.events.memory_store import InMemoryEventStore
from tracehold.events.projections import Projection

NAMES = [
    *("approval", "budget", "cancel", "context", "eval_score", "guard", "memory"),
    *("plan", "samples", "session", "stream", "supervisor", "tools"),
]


@pytest.fixture
def logs(traces: Path) -> Path:
    folder = traces / "aaa-events-v0_2"
    if not folder.is_dir():
        pytest.skip(f"no recorded engine logs at {folder}")
    return folder


def read(path: Path) -> dict[str, list[Event]]:
    """Return a file's streams."""
    streams: dict[str, list[Event]] = {}
    for line in path.read_text().splitlines():
        told = json.loads(line)
        fields = {**told["event"], "time": datetime.fromisoformat(told["event"]["time"]), "blobs": ()}
        streams.setdefault(told["stream"], []).append(Event(**fields))
    return streams


def meta(fold: RunFold) -> dict[str, Any]:
    return {"children": fold.children, "completed": fold.completed, "ledger": fold.ledger.model_dump()}


def test_every_log_of_the_folder_is_read(logs: Path) -> None:
    assert sorted(path.stem for path in logs.glob("*.jsonl")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_frozen_log_folds_to_the_state_its_engine_gave(logs: Path, name: str) -> None:  # ENG-04, LED-06
    expected = json.loads((logs / f"{name}.expected.json").read_text())
    streams = read(logs / f"{name}.jsonl")
    assert streams.keys() == expected.keys()
    for stream, events in streams.items():
        fold = RunFold(stream)
        for event in events:
            fold.fold(event)
        assert meta(fold) == expected[stream]["runmeta"]
        assert Projection(Ledger, Ledger.fold).replay(events) == fold.ledger


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_adopts_a_frozen_log_from_a_store_and_has_nothing_to_repair(
    logs: Path, store: EventStore, name: str
) -> None:  # ENG-04, RCV-02, RCV-07
    expected = json.loads((logs / f"{name}.expected.json").read_text())
    streams = read(logs / f"{name}.jsonl")

    async def main() -> None:
        for stream, events in streams.items():
            await store.append(stream, [event.with_(seq=-1) for event in events])
        before = {stream: await store.read(stream) for stream in streams}
        async with engine_on(store) as engine:
            assert await engine.recover([Idle("tool_loop"), Idle("plan_and_execute")]) == {}
            await engine.sweep()
            for stream in streams:
                assert meta(await engine.fold_of(stream)) == expected[stream]["runmeta"]
                outcome = await engine.handle(stream).result()
                assert outcome.kind == expected[stream]["runmeta"]["completed"]["kind"]
        assert {stream: await store.read(stream) for stream in streams} == before
        await store.aclose()

    run(main())


@pytest.mark.parametrize("name", NAMES)
def test_a_frozen_log_cut_anywhere_is_continued_to_one_completion(logs: Path, name: str) -> None:  # ENG-03, RCV-01
    """Whatever a crash left of a log: it is adopted, its runs end once, and a second pass changes nothing."""
    streams = read(logs / f"{name}.jsonl")
    longest = max(len(events) for events in streams.values())

    async def main(cut: int) -> None:
        store = InMemoryEventStore()
        for stream, events in streams.items():
            await store.append(stream, [event.with_(seq=-1) for event in events[:cut]])
        algos = {events[0].data["algo"] for events in streams.values()}
        async with engine_on(store) as engine:
            handles = await engine.recover([Idle(algo) for algo in algos])
            for handle in handles.values():
                await handle.signal("test.go")
            await engine.bus.drain()
            await engine.sweep()
            index = await store.run_index()
            assert all(info.completed is not None for info in index)
            after = {stream: await store.read(stream) for stream in streams}
            for events in after.values():
                assert sum(event.type == "aaa.run.completed" for event in events) == 1
                told = [event.data["child_run_id"] for event in events if event.type == "aaa.child.completed"]
                assert len(told) == len(set(told))
            await engine.sweep()
            assert {stream: await store.read(stream) for stream in streams} == after

    for cut in sorted({1, 2, 3, longest // 2, longest - 1, longest}):
        run(main(max(1, cut)))
