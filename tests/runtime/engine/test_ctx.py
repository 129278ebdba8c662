"""The context of an event (CTXT-01 to CTXT-05)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_parts import Counting, Idle, engine_on, fact, finished, llm, run
from tracehold.engine import Budget, Ctx, Ledger
from tracehold.events import Event, EventStore
from tracehold.events.file_blobs import FileBlobStore
from tracehold.events.projections import Projection


# CTXT-01
def test_a_context_exposes_engine_and_run(store: EventStore) -> None:
    async def main() -> None:
        seen: list[Ctx] = []

        class Looking(Idle):
            async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
                seen.append(ctx)
                return finished(event)

        async with engine_on(store) as engine:
            await engine.run(Looking(), {}, run_id="r")
            assert (seen[0].engine, seen[0].run_id) == (engine, "r")
            made = Ctx(engine, "x")
            assert (made.engine, made.run_id) == (engine, "x")

    run(main())


# CTXT-02
def test_history_gives_the_run_s_events_from_a_number_on_with_payloads_restored(
    store: EventStore, tmp_path: Path
) -> None:
    async def main() -> None:
        async with engine_on(store, blobs=FileBlobStore(tmp_path / "blobs"), claim_threshold=64) as engine:
            await engine.start(Idle(), {"text": "y" * 300}, run_id="r")
            await engine.emit(fact("r", "e", text="x" * 300))
            context = Ctx(engine, "r")
            events = await context.history()
            assert [event.id for event in events] == ["r:started", "e"]
            assert events[0].data["input"] == {"text": "y" * 300}
            assert [event.data for event in await context.history(1)] == [{"text": "x" * 300}]
            assert await context.history(2) == []

    run(main())


# CTXT-02
def test_history_in_a_reaction_holds_the_event_it_reacts_to(store: EventStore) -> None:
    async def main() -> None:
        class Looking(Counting):
            async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
                assert event in await ctx.history()
                return await super().on_event(event, ctx)

        async with engine_on(store) as engine:
            assert (await engine.run(Looking(), {"to": 5})).value == 5

    run(main())


# CTXT-03
def test_project_uses_the_latest_snapshot_and_the_tail_only(store: EventStore) -> None:
    async def main() -> None:
        folded: list[int] = []

        def fold(n: int, event: Event) -> int:
            folded.append(event.seq)
            return n + 1

        projection: Projection[int] = Projection(lambda: 0, fold, name="count", state_type=int, every=10)
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="r")
            for n in range(11):
                await engine.emit(fact("r", f"e{n}"))
            context = Ctx(engine, "r")
            assert await context.project(projection) == 12
            await engine.emit(fact("r", "more"))
            folded.clear()
            assert await context.project(projection) == 13
            assert folded == [12]

    run(main())


# CTXT-04
@pytest.mark.parametrize("early", [False, True])
def test_started_returns_input_budget_and_parent(store: EventStore, early: bool) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="p")
            if early:
                await engine.emit(fact("r"))
            await engine.start(Idle(), {"q": 1}, run_id="r", parent="p", budget=Budget(max_steps=4))
            event = await Ctx(engine, "r").started()
            assert (event.data["input"], event.data["parent"], event.data["budget"]["max_steps"]) == ({"q": 1}, "p", 4)

    run(main())


# CTXT-04
@pytest.mark.parametrize("run_id", ["nobody", "stream", None])
def test_started_of_a_run_that_nobody_started_is_a_key_error(store: EventStore, run_id: str | None) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.emit(fact("stream"))
            with pytest.raises(KeyError):
                await Ctx(engine, run_id).started()

    run(main())


# CTXT-05
def test_ledger_returns_the_run_s_current_spend(store: EventStore) -> None:
    async def main() -> None:
        seen: list[Ledger] = []

        class Looking(Idle):
            async def on_event(self, event: Event, ctx: Ctx, /) -> Any:
                seen.append(ctx.ledger())

        async with engine_on(store) as engine:
            await engine.start(Looking(), {}, run_id="r")
            await engine.bus.drain()
            for n in range(2):
                await engine.emit(llm("r", f"e{n}", tokens=5, cost=0.25))
                await engine.bus.drain()
            assert seen == [Ledger(steps=n, tokens=5 * n, cost=0.25 * n) for n in range(3)]

    run(main())


# CTXT-05, ENG-04
def test_ledger_in_an_engine_that_adopted_the_run_counts_what_another_one_stored(
    shared: Callable[[], EventStore],
) -> None:
    async def main() -> None:
        seen: list[int] = []

        class Looking(Idle):
            async def on_event(self, event: Event, ctx: Ctx, /) -> Any:
                seen.append(ctx.ledger().tokens)

        async with engine_on(shared()) as first, engine_on(shared()) as second:
            await first.start(Idle(), {}, run_id="r")
            second.register(Looking())
            for n in range(2):
                await first.emit(llm("r", f"e{n}", tokens=5))
                await second.bus.publish((await second.stored("r"))[-1])  # as a bus of several processes does
                await second.bus.drain()
            assert seen == [5, 10]

    run(main())
