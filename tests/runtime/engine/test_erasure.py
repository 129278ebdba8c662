"""Erasing one run (ERA-01 to ERA-11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_parts import FAST, Counting, Echo, Idle, engine_on, fact, run, types
from erasing import PLANTED, blobs_in, holding, large, log_of, text_of
from tracehold.core.errors import RunNotFinished, TenantMismatch
from tracehold.core.outcome import OutcomeKind
from tracehold.engine import Budget, Engine, ErasureReport
from tracehold.events import Event, EventStore
from tracehold.events.blobs import InMemoryBlobStore
from tracehold.events.projections import Projection


# ERA-01
def test_an_open_run_is_not_erased_and_stays_as_it_is(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {"q": PLANTED}, run_id="r")
            before = await log_of(engine, "r")
            for delete in (False, True):
                with pytest.raises(RunNotFinished, match="force=True"):
                    await engine.erase("r", delete=delete)
            assert await log_of(engine, "r") == before

    run(main())


# ERA-01
@pytest.mark.parametrize("delete", [False, True])
def test_an_open_run_is_erased_by_force(store: EventStore, delete: bool) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {"q": PLANTED}, run_id="r")
            await engine.erase("r", delete=delete, force=True)
            assert PLANTED not in await text_of(engine, "r")

    run(main())


# ERA-01: what goes on is still a run, with its budget and its deadline
def test_a_run_that_was_scrubbed_while_open_can_still_end(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {"q": PLANTED}, run_id="r")
            await engine.erase("r", force=True)
            await handle.signal("test.go", {"v": 1})
            assert (await handle.result()).value == {"v": 1}

    run(main())


# ERA-01: as above, by its deadline
def test_a_run_that_was_scrubbed_while_open_keeps_its_deadline(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {"q": PLANTED}, run_id="r", budget=Budget(deadline_s=0.2))
            await engine.erase("r", force=True)
            assert (await handle.result()).kind == OutcomeKind.TIMEOUT

    run(main())


# ERA-01: the log decides, not what this process remembers
def test_a_run_that_ended_in_another_process_can_be_erased(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        async with engine_on(shared()) as here, engine_on(shared()) as there:
            await here.start(Idle(), {"q": PLANTED}, run_id="r")
            await there.complete("r", OutcomeKind.SUCCESS, PLANTED)
            await here.erase("r")
            assert PLANTED not in await text_of(here, "r")

    run(main())


# ERA-02
def test_an_unknown_run_is_a_key_error(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.emit(fact("no-run", text=PLANTED))
            for run_id in ("nobody", "no-run", ""):
                with pytest.raises(KeyError):
                    await engine.erase(run_id)

    run(main())


# ERA-03, ERA-11
def test_the_default_scrubs_and_says_so(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Counting(), {"to": 2}, run_id="r")
            before = await log_of(engine, "r")
            report = await engine.erase("r")
            assert report == ErasureReport("r", "scrub", events=len(before))
            assert types(await log_of(engine, "r")) == [*types(before), "aaa.run.erased"]

    run(main())


# ERA-03
def test_a_deletion_leaves_nothing_and_the_id_can_be_used_afresh(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Counting(), {"to": 2}, run_id="r")
            count = len(await log_of(engine, "r"))
            assert await engine.erase("r", delete=True) == ErasureReport("r", "delete", events=count)
            assert await log_of(engine, "r") == []
            assert await store.run_index() == []
            with pytest.raises(KeyError):
                await engine.handle("r").result()
            assert (await engine.run(Echo(), {"a": 1}, run_id="r")).value == {"a": 1}

    run(main())


# ERA-04
def test_a_scrubbed_event_keeps_its_envelope_and_loses_what_it_says(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {"q": PLANTED}, run_id="r", tenant="t", tag="tag", meta={"user": PLANTED})
            told = Event(
                type="my.fact",
                id="f",
                source="me",
                subject=PLANTED,
                stream="r",
                trace_id="0" * 31 + "1",
                span_id="0" * 15 + "1",
                causation_id="c",
                correlation_id="k",
                data={"text": PLANTED},
            )
            await engine.emit(told)
            await engine.complete("r", OutcomeKind.SUCCESS, PLANTED, PLANTED)
            before = await log_of(engine, "r")
            await engine.erase("r")
            after = await log_of(engine, "r")
            assert PLANTED not in repr([event.__dict__ for event in after])
            kept = ("id", "type", "source", "time", "stream", "seq", "run_id", "tenant", "trace_id", "span_id")
            for old, new in zip(before, after, strict=False):
                for name in (*kept, "causation_id", "correlation_id", "schema_ref"):
                    assert getattr(new, name) == getattr(old, name)
                assert (new.meta, new.blobs, new.subject) == ({}, (), None)
            budget = before[0].data["budget"]
            assert after[0].data == {
                "$erased": True,
                "algo": "idle",
                "parent": None,
                "run_tag": "tag",
                "budget": budget,
            }
            assert after[1].data == {"$erased": True}
            assert after[2].data == {"$erased": True, "kind": "success"}

    run(main())


# ERA-05
@pytest.mark.parametrize("delete", [False, True])
def test_snapshots_and_blobs_go_as_well(store: EventStore, tmp_path: Path, delete: bool) -> None:
    counted: Projection[list[str]] = Projection(
        list, lambda state, event: [*state, repr(event.data)[:40]], name="p", state_type=list[str], every=1
    )

    async def main() -> None:
        async with engine_on(store, blobs=blobs_in(tmp_path)) as engine:
            await engine.run(Echo(), {"q": large()}, run_id="r")
            await engine.project(counted, "r")
            assert await store.load_snapshot("r", "p") is not None
            assert holding(tmp_path / "blobs")
            report = await engine.erase("r", delete=delete)
            assert report.blobs == 1
            assert await store.load_snapshot("r", "p") is None
            assert holding(tmp_path / "blobs") == []

    run(main())


# ERA-05
def test_copies_waiting_in_the_bus_go_as_well(store: EventStore) -> None:
    async def main() -> None:
        seen: list[str] = []
        entered, release = asyncio.Event(), asyncio.Event()

        async def observer(event: Event) -> None:
            seen.append(event.type)
            entered.set()
            await release.wait()

        async with engine_on(store) as engine:
            engine.subscribe("aaa.run.*", observer)
            await engine.run(Echo(), {"q": PLANTED}, run_id="r")
            await entered.wait()
            await engine.erase("r")
            release.set()
            await engine.bus.drain()
        assert seen == ["aaa.run.started"]

    run(main())


# ERA-06
def test_the_marker_tells_reason_and_counts_and_is_not_delivered(store: EventStore) -> None:
    async def main() -> None:
        seen: list[str] = []

        async def observer(event: Event) -> None:
            seen.append(event.type)

        async with engine_on(store) as engine:
            engine.subscribe("*", observer)
            await engine.run(Echo(), {"q": PLANTED}, run_id="r", tenant="t")
            await engine.erase("r", reason="request 17")
            marker = (await log_of(engine, "r"))[-1]
            assert (marker.id, marker.type, marker.tenant) == ("r:erased", "aaa.run.erased", "t")
            assert marker.data == {"reason": "request 17", "events": 2, "blobs": 0}
            await engine.bus.drain()
        assert "aaa.run.erased" not in seen

    run(main())


# ERA-07, DEC-14
def test_a_second_erase_changes_nothing_and_keeps_the_first_reason(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Echo(), {"q": PLANTED}, run_id="r")
            first = await engine.erase("r", reason="first")
            before = await log_of(engine, "r")
            second = await engine.erase("r", reason="second")
            assert await log_of(engine, "r") == before
            assert before[-1].data["reason"] == "first"
            assert second.events == first.events
            assert second.blobs == 0

    run(main())


# ERA-03, ERA-07
def test_a_scrubbed_run_can_still_be_deleted(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Echo(), {"q": PLANTED}, run_id="r")
            first = await engine.erase("r")
            assert (await engine.erase("r", delete=True)).events == first.events
            assert await log_of(engine, "r") == []

    run(main())


# ERA-07
def test_erasing_one_run_at_the_same_time_is_erasing_it_once(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Echo(), {"q": PLANTED}, run_id="r")
            await asyncio.gather(*(engine.erase("r", reason=str(n)) for n in range(5)))
            assert types(await log_of(engine, "r")).count("aaa.run.erased") == 1

    run(main())


# ERA-09
def test_the_outcome_kind_of_a_scrubbed_run_can_be_read_and_its_value_cannot(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="r")
            await engine.complete("r", OutcomeKind.TIMEOUT, PLANTED, PLANTED)
            await engine.erase("r")
            outcome = await engine.handle("r").result()
            assert (outcome.kind, outcome.value, outcome.reason) == (OutcomeKind.TIMEOUT, None, None)

    run(main())


# ERA-10
@pytest.mark.parametrize("delete", [False, True])
def test_identical_payloads_of_other_runs_stay_readable(store: EventStore, tmp_path: Path, delete: bool) -> None:
    async def main() -> None:
        async with engine_on(store, blobs=blobs_in(tmp_path)) as engine:
            for run_id in ("a", "b"):
                await engine.run(Echo(), {"q": large()}, run_id=run_id)
            before = await engine.run_events("b")
            await engine.erase("a", delete=delete)
            assert await engine.run_events("b") == before
            assert before[0].data["input"] == {"q": large()}

    run(main())


# ERA-10: a blob that the application put itself is one for all runs that point to it
def test_an_applications_own_blob_stays_while_another_run_points_to_it(store: EventStore) -> None:
    async def main() -> None:
        blobs = InMemoryBlobStore()
        async with engine_on(store, blobs=blobs) as engine:
            ref = await blobs.put(PLANTED.encode())
            for run_id in ("a", "b"):
                await engine.start(Idle(), {}, run_id=run_id)
                await engine.emit(fact(run_id).with_(blobs=(ref,)))
                await engine.complete(run_id, OutcomeKind.SUCCESS)
            assert (await engine.erase("a")).blobs == 0
            assert await blobs.get(ref) == PLANTED.encode()
            assert (await engine.erase("b")).blobs == 1
            assert not await blobs.exists(ref)

    run(main())


# ERA-10: a reference is only a claim
def test_pointing_to_another_runs_blob_does_not_erase_it(store: EventStore) -> None:
    async def main() -> None:
        blobs = InMemoryBlobStore()
        async with engine_on(store, blobs=blobs) as engine:
            await engine.run(Echo(), {"q": large()}, run_id="victim")
            (ref,) = (await log_of(engine, "victim"))[0].blobs
            await engine.start(Idle(), {}, run_id="r")
            await engine.emit(fact("r").with_(blobs=(ref,)))
            await engine.complete("r", OutcomeKind.SUCCESS)
            assert (await engine.erase("r")).blobs == 0
            assert (await engine.run_events("victim"))[0].data["input"] == {"q": large()}

    run(main())


# ERA-11: without the store of the blobs none is removed, and the report does not claim it
def test_blobs_out_of_reach_are_not_counted_and_go_once_they_are_in_reach(store: EventStore) -> None:
    async def main() -> None:
        blobs = InMemoryBlobStore()
        async with engine_on(store, blobs=blobs) as engine:
            await engine.run(Echo(), {"q": large()}, run_id="r")
            without = Engine(store, store_retry=FAST)
            assert (await without.erase("r")).blobs == 0
            assert (await engine.erase("r")).blobs == 1
            assert await blobs.of_stream("r") == []

    run(main())


class Provider:
    """Keeps conversation state at a model provider."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.forgotten: list[str] = []

    async def forget_state(self, ids: list[str]) -> int:
        if self.error is not None:
            raise self.error
        self.forgotten += ids
        return len(ids)


# ERA-11
def test_conversation_state_at_a_provider_is_removed_and_counted(store: EventStore) -> None:
    async def main() -> None:
        provider = Provider(ValueError("made to fail"))
        async with engine_on(store, memory=(provider, object())) as engine:
            await engine.start(Idle(), {}, run_id="r")
            for n, state in enumerate(("s1", "s2", "s1", 7)):
                await engine.emit(fact("r", str(n), "aaa.llm.completed", state_id=state, text=PLANTED))
            await engine.complete("r", OutcomeKind.SUCCESS)
            with pytest.raises(ValueError, match="made to fail"):
                await engine.erase("r")
            provider.error = None  # the ids are still there: a repeat finishes
            assert (await engine.erase("r")).provider_state == 2
            assert provider.forgotten == ["s1", "s2"]

    run(main())


# DEC-06
def test_an_event_of_another_tenant_is_refused_and_nothing_is_stored(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="a", tenant="t")
            await engine.start(Idle(), {}, run_id="b")
            count = [len(await log_of(engine, stream)) for stream in "ab"]
            for stream, tenant in (("a", "other"), ("b", "t"), ("a", "T")):
                with pytest.raises(TenantMismatch):
                    await engine.emit(fact(stream).with_(tenant=tenant))
            assert [len(await log_of(engine, stream)) for stream in "ab"] == count

    run(main())
