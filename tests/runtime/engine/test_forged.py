"""Events that only look like the engine's own: nobody can take their ids (EVT-07), and so they move nothing."""

from __future__ import annotations

import pytest
from engine_parts import Echo, Idle, engine_on, finished, run, types
from erasing import text_of
from tracehold.engine import Budget, Ctx
from tracehold.events import Event

PLANTED = "planted-secret-of-ada"


@pytest.mark.parametrize("forged", ["aaa.child.completed", "aaa.run.erased", "aaa.child.started"])
def test_a_signal_of_an_engine_type_switches_no_family_rule_off(forged: str) -> None:  # DEC-07, ENG-11, ENG-12
    async def main() -> None:
        async with engine_on() as engine:
            parent = await engine.start(Idle("p"), {}, run_id="p", budget=Budget(max_steps=2))
            await engine.start(Idle("c"), {}, run_id="kid", parent="p")
            await engine.start(Idle("c"), {}, run_id="other", parent="p")
            for child in ("kid", "other"):
                await parent.signal(forged, {"child_run_id": child})
            for _ in range(3):
                await engine.emit(Event(type="aaa.tool.completed", stream="kid"))
            assert (await engine.handle("kid").result()).reason == "parent budget"
            assert "child-kid" in [event.id for event in await engine.stored("p")]
            await parent.result()
            assert (await engine.handle("other").result()).reason == "parent finished"

    run(main())


class Imitating:
    """Returns events of the engine's types with text in them."""

    name = "imitating"

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        if event.causation_id is not None:
            return []
        return [
            event.caused("aaa.run.erased", {"reason": PLANTED}),
            event.caused("aaa.run.started", {"algo": PLANTED, "run_tag": {"x": PLANTED}}),
            *finished(event, PLANTED, kind=PLANTED),
        ]


def test_text_in_look_alikes_does_not_survive_a_scrub(store: object) -> None:  # ERA-04, ERA-12
    async def main() -> None:
        async with engine_on(store) as engine:  # type: ignore[arg-type]  # a store of the fixture
            await (await engine.start(Imitating(), {}, run_id="r")).result()
            await engine.bus.drain()
            await engine.erase("r")
            assert PLANTED not in await text_of(engine, "r")
            assert types(await engine.stored("r"))[-1] == "aaa.run.erased"

    run(main())


def test_a_cancel_and_a_completion_in_one_answer_end_as_cancelled() -> None:  # ENG-42
    class Both(Echo):
        async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
            return [event.caused("aaa.run.cancel", {"reason": "stop"}), *finished(event, 1)]

    async def main() -> None:
        async with engine_on() as engine:
            outcome = await engine.run(Both(), {})
            assert (str(outcome.kind), outcome.reason) == ("cancelled", "stop")

    run(main())


def test_a_parent_with_a_long_id_still_holds_its_children(store: object) -> None:  # BLB-03, DEC-07, ENG-12
    from tracehold.events.blob_store import InMemoryBlobStore  # noqa: PLC0415 - this test's alone

    async def main() -> None:
        parent = "p" * 300
        async with engine_on(store, blobs=InMemoryBlobStore(), claim_threshold=100) as engine:  # type: ignore[arg-type]
            await engine.start(Idle("p"), {}, run_id=parent)
            await engine.start(Idle("c"), {"document": "x" * 2000}, run_id="kid", parent=parent)
            await engine.complete(parent, "success")
            assert (await engine.handle("kid").result()).reason == "parent finished"
        async with engine_on(store, blobs=InMemoryBlobStore()) as other:  # type: ignore[arg-type]
            assert (await other.fold_of("kid")).parent == parent

    run(main())
