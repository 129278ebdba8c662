"""What is written while, or after, a run is erased: it does not bring anything back (ERA-12, DEC-14)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from engine_parts import Echo, Idle, engine_on, fact, run, until
from tracehold.events import Event, EventStore
from tracehold.events.projections import Projection
from tracehold.events.store import StoredSnapshot

PLANTED = "planted-secret-of-ada"


def _collect(state: list[str], event: Event) -> list[str]:
    return [*state, str(event.data.get("value", ""))]


class SlowSnapshots:
    """A store in front of another one, whose snapshots wait until they may be saved."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.entered = asyncio.Event()
        self.release = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def save_snapshot(self, snap: StoredSnapshot) -> None:
        self.entered.set()
        await self.release.wait()
        await self.store.save_snapshot(snap)


@pytest.mark.parametrize("delete", [False, True])
def test_a_snapshot_of_what_was_read_before_an_erasure_is_not_kept(store: EventStore, *, delete: bool) -> None:
    # ERA-05, ERA-12, STO-08, STO-09
    async def main() -> None:
        slow = SlowSnapshots(store)
        async with engine_on(slow) as engine:  # type: ignore[arg-type]  # answers all that a store does
            await engine.run(Echo(), {"t": PLANTED}, run_id="r")
            projection = Projection(list, _collect, name="p", state_type=list[str], every=1)
            looking = asyncio.create_task(engine.project(projection, "r"))
            await slow.entered.wait()
            await engine.erase("r", delete=delete)
            slow.release.set()
            assert PLANTED in str(await looking)
            assert await store.load_snapshot("r", "p") is None
            if delete:
                await engine.run(Echo(), {"t": "fresh"}, run_id="r")
                assert PLANTED not in str(await engine.project(projection, "r"))

    run(main())


def test_a_snapshot_of_a_stream_that_was_deleted_and_begun_anew_is_not_kept(store: EventStore) -> None:  # STO-09
    async def main() -> None:
        await store.append("s", [fact("s", "old")])
        stale = StoredSnapshot("s", "p", 0, 1, "[]", event_id="old")
        await store.delete_stream("s")
        await store.append("s", [fact("s", "new")])
        await store.save_snapshot(stale)
        assert await store.load_snapshot("s", "p") is None
        await store.save_snapshot(StoredSnapshot("s", "p", 0, 1, "[]", event_id="new"))
        assert await store.load_snapshot("s", "p") is not None

    run(main())


def test_what_comes_to_a_deleted_run_late_goes_with_the_next_sweep_of_any_process(store: EventStore) -> None:
    # RET-12, ERA-12, DEC-14
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Echo(), {}, run_id="r", tenant="acme")
            await engine.erase("r", delete=True)
            await store.append("r", [fact("r", text=PLANTED)])
        async with engine_on(store) as other:
            await other.sweep()
            assert await store.read("r") == []
            await other.run(Echo(), {"v": 2}, run_id="r")
            await other.sweep()
            assert (await other.handle("r").result()).value == {"v": 2}  # a new run of that id is nobody's leftover

    run(main())


def test_another_engine_learns_that_a_run_it_knew_was_deleted(store: EventStore) -> None:  # DEC-05, STO-09
    async def main() -> None:
        async with engine_on(store) as first, engine_on(store) as second:
            await first.run(Echo(), {"v": 1}, run_id="r", tenant="acme", meta={"user": "ada"})
            assert (await second.handle("r").result()).value == {"v": 1}
            await second.fold_of("r")
            await first.erase("r", delete=True)
            with pytest.raises(KeyError):
                await second.handle("r").result()
            with pytest.raises(KeyError):
                await second.handle("r").signal("note")
            again = await second.start(Echo(), {"v": 2}, run_id="r")
            assert (await again.result()).value == {"v": 2}
            assert all(not event.meta for event in await store.read("r"))

    run(main())


def test_purging_many_runs_reads_the_notes_of_deletions_once(store: EventStore) -> None:
    async def main() -> None:
        from engine_parts import FaultyStore  # noqa: PLC0415 - this test's alone

        counting = FaultyStore(store)
        async with engine_on(counting) as engine:
            for number in range(20):
                await engine.run(Echo(), {}, run_id=f"r{number}")
            counting.calls.clear()
            report = await engine.purge(older_than=timedelta(0), delete=True)
            assert len(report.erased) == 20
            assert counting.calls["read"] <= 20 * 4

    run(main())


def test_an_engine_entered_again_arms_the_deadlines_of_its_open_runs() -> None:  # BUD-05
    from tracehold.engine import Budget  # noqa: PLC0415 - this test's alone

    async def main() -> None:
        engine = engine_on()
        async with engine:
            await engine.start(Idle(), {}, run_id="r", budget=Budget(deadline_s=0.05))
        async with engine:

            async def ended() -> bool:
                return (await engine.fold_of("r")).completed is not None

            await until(ended)

    run(main())
