"""What an erased run leaves elsewhere: copies in its family, orphan blobs, what a crash interrupts (ERA-12, ERA-13)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from engine_parts import Echo, FaultyStore, Idle, Parent, engine_on, fact, finished, run
from erasing import PLANTED, Breaking, blobs_in, holding, large, log_of, text_of
from support.event_stores import STORES
from tracehold.core.outcome import OutcomeKind
from tracehold.core.retry import RetryPolicy
from tracehold.engine import Engine, RetentionPolicy
from tracehold.engine.copies import PENDING, QUEUE
from tracehold.events import Event, EventStore
from tracehold.events.blobs import FileBlobStore, InMemoryBlobStore, claim
from tracehold.events.projections import Projection
from tracehold.events.sqlite_store import SQLiteEventStore

ERASED = {"$erased": True}


class Quiet(Parent):
    """Starts its children and ends with nothing of theirs."""

    async def on_event(self, event: Event, ctx: Any, /) -> list[Event] | None:
        ended = await super().on_event(event, ctx)
        return finished(event, "done") if ended else ended


async def _family(engine: Engine, child_input: str = PLANTED, **kw: Any) -> None:
    """Run a parent `p` with one child `p.a`, which echoes its input."""
    await engine.run(Quiet(Echo()), {"children": {"a": {"q": child_input}}}, run_id="p", **kw)


async def _open_parent(engine: Engine, child_input: str = PLANTED) -> None:
    """Start a parent `p` that stays open, and run its child `p.a` until the parent has heard of it."""
    await engine.start(Idle(patterns=("test.go",)), {}, run_id="p", tenant="t")
    await engine.run(Echo(), {"q": child_input}, run_id="p.a", parent="p", tag="a")
    await engine.await_event("p", lambda event: event.type == "aaa.child.completed")


async def _copy(engine: Engine, stream: str, type_: str) -> dict[str, Any]:
    (event,) = [event for event in await log_of(engine, stream) if event.type == type_]
    return event.data


# ERA-13, DEC-14
@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("size", [len(PLANTED), 20_000], ids=["in-log", "in-blob"])
def test_the_parents_copy_of_an_erased_childs_result_goes(
    store: EventStore, tmp_path: Path, delete: bool, size: int
) -> None:
    async def main() -> None:
        async with engine_on(store, blobs=blobs_in(tmp_path)) as engine:
            await _family(engine, PLANTED + "-" * (size - len(PLANTED)))
            before = await _copy(engine, "p", "aaa.child.completed")
            report = await engine.erase("p.a", delete=delete)
            assert report.pending == []
            assert await _copy(engine, "p", "aaa.child.completed") == {
                "child_run_id": "p.a",
                "tag": "a",
                "outcome": {"kind": "success", "value": ERASED},
                "ledger": before["ledger"],
            }
            assert PLANTED not in await text_of(engine, "p.a")
            # The parent's own input is its own: it named the child's, and the parent was not erased.
            assert (await engine.handle("p").result()).value == "done"

    run(main())


# ERA-13, DEC-14
@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("size", [len(PLANTED), 20_000], ids=["in-log", "in-blob"])
def test_the_input_that_an_erased_parent_gave_its_children_goes(
    store: EventStore, tmp_path: Path, delete: bool, size: int
) -> None:
    async def main() -> None:
        async with engine_on(store, blobs=blobs_in(tmp_path)) as engine:
            await _family(engine, PLANTED + "-" * (size - len(PLANTED)))
            before = (await log_of(engine, "p.a"))[0]
            result = await engine.handle("p.a").result()
            assert (await engine.erase("p", delete=delete)).pending == []
            after = (await log_of(engine, "p.a"))[0]
            kept = {key: before.data[key] for key in ("algo", "parent", "run_tag", "budget")}
            assert after == before.with_(data={**kept, "input": ERASED}, blobs=())
            assert await engine.handle("p.a").result() == result  # what the child came to is its own
            assert PLANTED not in await text_of(engine, "p")

    run(main())


# ERA-12: a projection of the parent may have folded the child's result
def test_snapshots_of_the_parent_go_with_the_copy(store: EventStore) -> None:
    said: Projection[list[str]] = Projection(
        list, lambda state, event: [*state, repr(event.data)], name="p", state_type=list[str], every=1
    )

    async def main() -> None:
        async with engine_on(store) as engine:
            await _family(engine)
            await engine.project(said, "p")
            await engine.erase("p.a")
            assert await store.load_snapshot("p", "p") is None

    run(main())


# DEC-14: an open parent goes on by what its children told it
@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("finish", ["erase", "sweep", "purge", "retention", "other"])
def test_a_copy_in_an_open_stream_is_reported_and_goes_once_that_has_ended(
    store: EventStore, delete: bool, finish: str
) -> None:
    policy = RetentionPolicy(timedelta(days=9), interval_s=0.0)

    async def main() -> None:
        async with engine_on(store, retention=(policy,) if finish == "retention" else ()) as engine:
            await _open_parent(engine)
            await engine.run(Echo(), {}, run_id="other")
            report = await engine.erase("p.a", delete=delete)
            assert report.pending == ["p"]
            assert (await _copy(engine, "p", "aaa.child.completed"))["outcome"]["value"] == {"q": PLANTED}
            await engine.sweep()  # it has not ended yet
            assert (await _copy(engine, "p", "aaa.child.completed"))["outcome"]["value"] == {"q": PLANTED}
            await engine.complete("p", OutcomeKind.SUCCESS)
            if finish == "erase" and not delete:
                assert (await engine.erase("p.a")).pending == []
            elif finish in {"erase", "other"}:
                await engine.erase("other")
            elif finish == "sweep":
                await engine.sweep()
            elif finish == "purge":
                await engine.purge(older_than=timedelta(days=9))
            else:
                await engine.apply_retention()
            assert (await _copy(engine, "p", "aaa.child.completed"))["outcome"] == {"kind": "success", "value": ERASED}
            assert PLANTED not in await text_of(engine, "p", "p.a")
            # The note itself is emptied, so that it names nobody any more.
            notes = [event.data for event in await log_of(engine, QUEUE) if event.type == PENDING]
        assert notes == [ERASED]

    run(main())


# DEC-14: erased twice while pending, it is still noted once
def test_a_pending_copy_is_noted_once(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await _open_parent(engine)
            for _ in range(3):
                assert (await engine.erase("p.a")).pending == ["p"]
            assert len(await log_of(engine, QUEUE)) == 1

    run(main())


# DEC-14: any process finishes what another one noted
def test_another_process_finishes_a_pending_copy(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        async with engine_on(shared()) as here:
            await _open_parent(here)
            await here.erase("p.a", delete=True)
            await here.complete("p", OutcomeKind.SUCCESS)
        async with engine_on(shared()) as there:
            await there.sweep()
            assert PLANTED not in await text_of(there, "p")

    run(main())


# DEC-14: an open child still needs its input
def test_the_input_of_an_open_child_waits_for_its_end(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="p")
            await engine.start(Idle(), {"q": PLANTED}, run_id="c", parent="p")
            assert (await engine.erase("p", force=True)).pending == ["c"]
            assert (await log_of(engine, "c"))[0].data["input"] == {"q": PLANTED}
            await engine.complete("c", OutcomeKind.SUCCESS)
            await engine.sweep()
            assert (await log_of(engine, "c"))[0].data["input"] == ERASED

    run(main())


# DEC-14: whoever awaits a child's result may erase it before the parent has heard of it
def test_a_result_that_reaches_the_parent_after_the_erasure_goes_too(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(patterns=("test.go",)), {}, run_id="p")
            await engine.start(Idle(patterns=("test.go",)), {}, run_id="c", parent="p")
            # As the engine writes it, without what follows: the parent has heard nothing yet.
            told = {"kind": "success", "value": PLANTED, "reason": None}
            done = fact("c", "c:completed", "aaa.run.completed").with_(data=told)
            await store.append("c", [done])
            assert (await engine.erase("c")).pending == ["p"]
            late = {"child_run_id": "c", "tag": None, "outcome": told, "ledger": {}}
            await store.append("p", [fact("p", "child-c", "aaa.child.completed").with_(data=late)])
            await store.append("p", [fact("p", "p:completed", "aaa.run.completed", kind="success")])
            await engine.sweep()
            assert PLANTED not in await text_of(engine, "p", "c")

    run(main())


# ERA-10, DEC-14: what only says that it belongs to the family is not touched
def test_a_signal_that_claims_a_child_opens_no_other_run_to_erasure(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Echo(), {"q": PLANTED}, run_id="victim", tenant="b")
            handle = await engine.start(Idle(), {}, run_id="r", tenant="a")
            before = await log_of(engine, "victim")
            await handle.signal("aaa.child.started", {"child_run_id": "victim"})
            await handle.signal("aaa.run.started", {"algo": "idle", "parent": "victim"})
            await engine.complete("r", OutcomeKind.SUCCESS, PLANTED)
            await engine.erase("r")
            assert await log_of(engine, "victim") == before

    run(main())


# ERA-13: three generations
def test_each_generation_loses_its_own_and_no_other(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            inner = Quiet(Echo("leaf"), name="inner")
            outer = Quiet(inner, name="outer")
            await engine.run(outer, {"children": {"m": {"children": {"l": {"q": PLANTED}}}}}, run_id="g")
            await engine.erase("g.m")
            assert PLANTED not in await text_of(engine, "g.m")
            leaf = await log_of(engine, "g.m.l")
            assert leaf[0].data["input"] == ERASED
            assert leaf[-1].data["value"] == {"q": PLANTED}
            assert (await _copy(engine, "g", "aaa.child.completed"))["outcome"]["value"] == ERASED

    run(main())


# ERA-12: written for an append that failed, or that was a repetition
@pytest.mark.parametrize("delete", [False, True])
def test_blobs_that_no_event_points_to_go_too(store: EventStore, tmp_path: Path, delete: bool) -> None:
    async def main() -> None:
        blobs = blobs_in(tmp_path)
        async with engine_on(store, blobs=blobs) as engine:
            await engine.start(Idle(), {}, run_id="r")
            await engine.emit(fact("r", "1", text="small"))
            repeated = await engine.emit(fact("r", "1", text=large()))
            assert repeated is not None
            assert repeated.dup
            failed = fact("r", "2", text=large("failed-" + PLANTED))
            await claim(failed, blobs, 100)
            await engine.complete("r", OutcomeKind.SUCCESS)
            assert len(holding(tmp_path / "blobs")) == 2
            assert (await engine.erase("r", delete=delete)).blobs == 2
            assert holding(tmp_path / "blobs") == []

    run(main())


# ERA-12, DEC-14: late events go with the next erasure
def test_what_comes_late_goes_with_the_next_erase(store: EventStore, tmp_path: Path) -> None:
    async def main() -> None:
        async with engine_on(store, blobs=blobs_in(tmp_path)) as engine:
            await engine.run(Echo(), {}, run_id="r")
            await engine.erase("r", reason="first")
            await engine.emit(fact("r", text=PLANTED))
            await engine.emit(fact("r", text=large()))
            report = await engine.erase("r", reason="second")
            assert report.blobs == 1
            assert PLANTED not in await text_of(engine, "r")
            assert holding(tmp_path / "blobs") == []
            markers = [event for event in await log_of(engine, "r") if event.type == "aaa.run.erased"]
            assert [marker.data["reason"] for marker in markers] == ["first"]

    run(main())


async def _planted_family(engine: Engine) -> None:
    """A finished family, each part of it with payloads in the log and in blobs."""
    idle = Idle(patterns=("test.go",))
    await engine.start(idle, {"p": "parent's own"}, run_id="p")
    await engine.start(idle, {"q": large(), "r": PLANTED}, run_id="c", parent="p", tag="a")
    await engine.start(idle, {"q": PLANTED, "r": large()}, run_id="g", parent="c")
    await engine.complete("g", OutcomeKind.SUCCESS, "grandchild's own")
    await engine.complete("c", OutcomeKind.SUCCESS, {"q": large(), "r": PLANTED}, PLANTED)
    await engine.emit(fact("c", "late", text=PLANTED))
    await engine.complete("p", OutcomeKind.SUCCESS, "done")


# ERA-07, ERA-08, ERA-12, DEC-14: wherever it breaks, a repeat finishes it
@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_erasure_that_breaks_at_any_call_is_finished_by_a_repeat(tmp_path: Path, kind: str, delete: bool) -> None:
    async def attempt(calls: int) -> bool:
        folder = tmp_path / f"{calls}"
        folder.mkdir()
        budget: dict[str, int | None] = {"left": None}
        blobs = FileBlobStore(folder / "blobs")
        store = Breaking(STORES[kind](folder), budget)
        async with engine_on(store, blobs=Breaking(blobs, budget)) as engine:
            await _planted_family(engine)
            other = await engine.run(Echo(), {"q": large()}, run_id="other")
            await engine.bus.drain()
            budget["left"] = calls
            broke = False
            try:
                await engine.erase("c", delete=delete, reason="first")
            except MemoryError:
                broke = True
            budget["left"] = None
            try:
                await engine.erase("c", delete=delete, reason="second")
            except KeyError:
                assert delete  # only the last step was left, and it was done
            said = await text_of(engine, "p", "c", "g", QUEUE)
            assert PLANTED not in said
            assert "parent's own" in said
            assert "grandchild's own" in said
            assert await blobs.of_stream("c") == []
            assert (await engine.run_events("other"))[-1].data["value"] == other.value
            assert len(holding(folder / "blobs")) == 1  # the other run's
        await store.aclose()
        return broke

    async def main() -> None:
        calls = 0
        while await attempt(calls):
            calls += 1
        assert calls > 10

    run(main())


# ERA-12, DEC-08: nothing is left in any file, open or closed, and the chain still verifies
@pytest.mark.parametrize("delete", [False, True])
def test_no_file_holds_an_erased_text(tmp_path: Path, delete: bool) -> None:
    said: Projection[list[str]] = Projection(
        list, lambda state, event: [*state, repr(event.data)], name="p", state_type=list[str], every=1
    )

    async def main() -> None:
        store = SQLiteEventStore(tmp_path / "log.db", poll_s=0.01)
        async with engine_on(store, blobs=blobs_in(tmp_path)) as engine:
            for n in range(30):
                await engine.run(Echo(), {"n": f"kept {n}" * 20}, run_id=f"other-{n}", meta={"user": "kept"})
            await _planted_family(engine)
            for stream in ("p", "c", "g"):
                await engine.project(said, stream)
            await engine.emit(fact("c", text=PLANTED, deep={"er": [large()]}))
            assert holding(tmp_path)
            report = await engine.erase("c", delete=delete)
            assert report.pending == []
            assert holding(tmp_path) == []
            verified = await store.verify_chain()
            assert verified.ok, verified.problems
            assert (await engine.handle("other-7").result()).value == {"n": "kept 7" * 20}
        await store.aclose()

    run(main())
    assert holding(tmp_path) == []


# ERA-12: another connection that reads an old state keeps its bytes; the erasure is retried until they are gone
def test_an_erasure_waits_for_a_reader_of_the_old_state(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteEventStore(tmp_path / "log.db", poll_s=0.01)
        async with engine_on(store, store_retry=RetryPolicy(base_delay_s=0.01, max_delay_s=0.02)) as engine:
            await engine.run(Echo(), {"q": PLANTED}, run_id="r")
            with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM log_events").fetchone()
                erasing = asyncio.ensure_future(engine.erase("r"))
                while PLANTED in await text_of(engine, "r"):
                    pass  # each look lets the erasure get on
                assert not erasing.done()
                reader.execute("ROLLBACK")
                await erasing
            assert holding(tmp_path) == []
        await store.aclose()

    run(main())


# ERA-12: a store of blobs that cannot list them still gives up what the log points to
def test_a_blob_store_without_a_list_loses_what_events_point_to(store: EventStore) -> None:
    class Plain:
        def __init__(self) -> None:
            inner = InMemoryBlobStore()
            self.put, self.get, self.exists, self.delete = inner.put, inner.get, inner.exists, inner.delete

    async def main() -> None:
        blobs = Plain()
        async with engine_on(store, blobs=blobs) as engine:
            await engine.run(Echo(), {"q": large()}, run_id="r")
            (ref,) = (await log_of(engine, "r"))[0].blobs
            assert (await engine.erase("r")).blobs == 1
            assert not await blobs.exists(ref)

    run(main())


class WithoutReplacing:
    """A store of somebody else's, which cannot replace single payloads."""

    def __init__(self, inner: EventStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "replace_data":
            raise AttributeError(name)
        return getattr(self._inner, name)


# ERA-13: removed or reported
def test_a_store_that_cannot_replace_a_copy_has_it_reported(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(WithoutReplacing(store)) as engine:  # type: ignore[arg-type]  # what is tested
            await _family(engine)
            assert (await engine.erase("p.a")).pending == ["p"]
            assert PLANTED not in await text_of(engine, "p.a")
        async with engine_on(store) as engine:
            await engine.sweep()
            assert (await _copy(engine, "p", "aaa.child.completed"))["outcome"]["value"] == ERASED

    run(main())


# DEC-14: a note that cannot be done keeps nobody from erasing something else
def test_a_pending_copy_that_cannot_be_erased_stops_no_other_erasure(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            await _open_parent(engine)
            await engine.erase("p.a")
            await engine.complete("p", OutcomeKind.SUCCESS)
            await engine.run(Echo(), {"q": PLANTED}, run_id="other")
            faulty.fail("read", PermissionError("made to fail"), when=lambda stream, *_: stream == "p")
            await engine.erase("other")
            assert PLANTED not in await text_of(engine, "other")
        async with engine_on(store) as engine:
            await engine.sweep()
            assert PLANTED not in await text_of(engine, "p")

    run(main())
