"""A crowded queue slows down who sends, and switches no limit off (BUS-07, BUD-02, BUD-05, ENG-42)."""

from __future__ import annotations

import asyncio

from engine_parts import Slow, engine_on, llm, run, types, until
from tracehold.engine import Budget, Engine
from tracehold.events.in_process_bus import InProcessBus


class Listening(Slow):
    """Is still at the first event when others come."""

    def subscriptions(self) -> list[str]:
        return ["*"]


def crowded() -> Engine:
    return engine_on(bus=InProcessBus(queue_size=1))


def test_a_deadline_ends_a_run_whose_queue_is_full() -> None:
    async def main() -> None:
        algo = Listening()
        async with crowded() as engine:
            handle = await engine.start(algo, {}, run_id="r", budget=Budget(deadline_s=0.01))
            assert str((await handle.result()).kind) == "timeout"
            assert types(await engine.stored("r")) == ["aaa.run.started", "aaa.timer.fired", "aaa.run.completed"]
            algo.release.set()

    run(main())


def test_a_budget_ends_a_run_whose_queue_is_full() -> None:
    async def main() -> None:
        algo = Listening()
        async with crowded() as engine:
            handle = await engine.start(algo, {}, run_id="r", budget=Budget(max_steps=1))
            sending = [asyncio.create_task(engine.emit(llm("r"))) for _ in range(2)]
            assert str((await handle.result()).kind) == "budget_exceeded"
            algo.release.set()
            await asyncio.gather(*sending)

    run(main())


def test_cancelling_waits_for_no_queue_and_takes_the_children_along() -> None:
    async def main() -> None:
        algo = Listening()
        async with crowded() as engine:
            starting = [asyncio.create_task(engine.start(algo, {}, run_id="p"))]
            await until(algo.entered.is_set)
            starting += [asyncio.create_task(engine.start(algo, {}, run_id=f"c{n}", parent="p")) for n in range(3)]

            async def all_started() -> bool:
                return len(await engine.store.run_index()) == 4

            await until(all_started)
            await engine.handle("p").cancel("enough")
            assert [info.completed is not None for info in await engine.store.run_index()] == [True] * 4
            algo.release.set()
            await asyncio.gather(*starting)

    run(main())
