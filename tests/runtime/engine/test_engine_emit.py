"""Emitting and ending: validate, redact, claim-check, append, account, deliver (ENG-29 to ENG-42, DEC-06, DEC-13)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from engine_parts import Counting, Echo, FaultyStore, Idle, engine_on, fact, llm, run, types
from tracehold.core.errors import SchemaError, StoreUnavailable, TenantMismatch
from tracehold.core.retry import RetryPolicy
from tracehold.engine import Budget, Engine, Ledger, MemoryReport, MemoryScope, PurgeReport, TenantScope
from tracehold.events import ANY_SEQ, Event, EventStore
from tracehold.events.file_blobs import FileBlobStore
from tracehold.events.projections import Projection
from tracehold.events.schemas import SchemaRegistry

WORDS = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}


def completion(run_id: str, id_: str | None = None, value: Any = None) -> Event:
    return fact(run_id, id_, "aaa.run.completed", kind="success", value=value, reason=None)


# ENG-29, RED-02
def test_emit_validates_redacts_claims_appends_accounts_and_delivers_in_this_order(
    store: EventStore, tmp_path: Path
) -> None:
    async def main() -> None:
        steps: list[str] = []

        class Schemas(SchemaRegistry):
            def validate(self, event: Event) -> Event:
                steps.append("validate")
                return super().validate(event)

        class Mask:
            def redact(self, event: Event) -> Event:
                steps.append("redact")
                return event.with_(data={**event.data, "secret": "***"}) if "secret" in event.data else event

        class Blobs(FileBlobStore):
            async def put(self, data: bytes, media_type: str = "application/octet-stream") -> Any:
                steps.append("claim")
                assert b"hunter2" not in data
                return await super().put(data, media_type)

        class Noting(FaultyStore):
            async def append(self, stream: str, events: Any, expected_seq: int = ANY_SEQ) -> list[Event]:
                steps.append("append")
                return await super().append(stream, events, expected_seq)

        seen: list[Event] = []

        async def deliver(event: Event) -> None:
            steps.append(f"deliver {engine.spent('r').steps}")
            seen.append(event)

        engine = engine_on(
            Noting(store), schemas=Schemas(), redactor=Mask(), blobs=Blobs(tmp_path / "blobs"), claim_threshold=100
        )
        async with engine:
            await engine.start(Idle(patterns=["none"]), {}, run_id="r")
            engine.subscribe("aaa.llm.completed", deliver)
            steps.clear()
            event = llm("r", "e").with_(
                data={"secret": "hunter2" * 50, "text": "x" * 200, "usage": {"total_tokens": 3}}
            )
            stored = await engine.emit(event)
            await engine.bus.drain()
            assert steps == ["validate", "redact", "claim", "append", "deliver 1"]
            assert stored is not None
            assert stored.blobs
            assert seen[0].data["secret"] == "***"
            assert engine.spent("r") == Ledger(steps=1, tokens=3, cost=0.0)

    run(main())


# ENG-30
def test_emit_returns_the_stored_event(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            stored = [await engine.emit(fact("s", f"e{n}", n=n)) for n in range(3)]
            assert [event.seq for event in stored if event] == [0, 1, 2]
            assert await store.read("s") == stored

    run(main())


# ENG-31
def test_a_second_terminal_event_is_dropped(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="r")
            assert await engine.emit(completion("r", "first", 1)) is not None
            assert await engine.emit(completion("r", "second", 2)) is None
            assert await engine.emit(completion("r", "first", 1)) is None
            assert (await engine.handle("r").result()).value == 1
            assert types(await store.read("r")).count("aaa.run.completed") == 1

    run(main())


# ENG-31
def test_racing_completers_in_one_engine_make_one_completion(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="r")
            racing = [engine.emit(completion("r", f"c{n}", n)) for n in range(20)]
            racing += [engine.complete("r", kind, None, "x") for kind in ("failed", "cancelled")]  # type: ignore[misc, arg-type]  # words do
            told = await asyncio.gather(*racing)
            assert len([one for one in told if one is not None]) == 1
            assert types(await store.read("r")).count("aaa.run.completed") == 1

    run(main())


# ENG-31
@pytest.mark.parametrize("same_id", [False, True])
def test_racing_completers_in_two_engines_on_one_file_make_one_completion(
    shared: Callable[[], EventStore], same_id: bool
) -> None:
    async def main() -> None:
        async with engine_on(shared()) as first, engine_on(shared()) as second:
            for n in range(20):
                run_id = f"r{n}"
                await first.start(Idle(), {}, run_id=run_id)
                id_ = f"{run_id}:completed" if same_id else None
                told = await asyncio.gather(
                    *(
                        engine.emit(completion(run_id, id_, k))
                        for k, engine in enumerate((first, second, first, second))
                    )
                )
                (winner,) = [one for one in told if one is not None]
                events = await second.stored(run_id)
                assert types(events) == ["aaa.run.started", "aaa.run.completed"]
                assert events[1].data["value"] == winner.data["value"]
                for engine in (first, second):
                    assert (await engine.handle(run_id).result()).value == winner.data["value"]

    run(main())


# ENG-32
def test_an_event_that_does_not_fit_its_schema_is_neither_stored_nor_delivered(store: EventStore) -> None:
    async def main() -> None:
        schemas, seen = SchemaRegistry(), []
        schemas.register("words/v1", WORDS)

        async def handle(event: Event) -> None:
            seen.append(event)

        async with engine_on(store, schemas=schemas) as engine:
            engine.subscribe("*", handle)
            with pytest.raises(SchemaError):
                await engine.emit(fact("s", text=7).with_(schema_ref="words/v1"))
            await engine.emit(fact("s", "good", text="x").with_(schema_ref="words/v1"))
            await engine.bus.drain()
            assert [event.id for event in seen] == ["good"]
            assert len(await store.read("s")) == 1

    run(main())


# ENG-33
def test_a_repeated_id_comes_back_marked_and_is_not_delivered_again(store: EventStore) -> None:
    async def main() -> None:
        seen: list[Event] = []

        async def handle(event: Event) -> None:
            seen.append(event)

        async with engine_on(store) as engine:
            engine.subscribe("test.*", handle)
            first = await engine.emit(fact("s", "e", n=1))
            again = await engine.emit(fact("s", "e", n=2))
            await engine.bus.drain()
            assert first is not None
            assert again is not None
            assert (first.dup, again.dup) == (False, True)
            assert again.with_(dup=False) == first
            assert len(seen) == 1

    run(main())


# ENG-33
def test_an_append_whose_answer_was_lost_is_delivered_once_it_is_repeated(store: EventStore) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty) as engine:
            await engine.start(idle, {}, run_id="r")
            faulty.lose("append")
            stored = await engine.emit(fact("r", "e"))
            await engine.bus.drain()
            assert stored is not None
            assert not stored.dup
            assert [event.id for event in idle.seen] == ["r:started", "e"]
            assert len(await store.read("r")) == 2

    run(main())


# ENG-33, ENG-34
def test_an_event_that_was_stored_unseen_is_delivered_when_its_id_comes_again(store: EventStore) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty) as engine:
            await engine.start(idle, {}, run_id="r")
            faulty.lose("append")
            faulty.fail("append", times=2)
            with pytest.raises(StoreUnavailable):
                await engine.emit(fact("r", "e"))
            await engine.emit(fact("r", "e"))
            await engine.emit(fact("r", "e"))
            await engine.bus.drain()
            assert [event.id for event in idle.seen] == ["r:started", "e"]

    run(main())


# ENG-33, ENG-22
def test_an_event_that_was_stored_unseen_is_delivered_before_the_next_one(store: EventStore) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty) as engine:
            await engine.start(idle, {}, run_id="r")
            faulty.lose("append")
            faulty.fail("append", times=2)
            with pytest.raises(StoreUnavailable):
                await engine.emit(fact("r", "e"))
            await engine.emit(fact("r", "f"))
            await engine.bus.drain()
            assert [event.id for event in idle.seen] == ["r:started", "e", "f"]

    run(main())


# ENG-34
def test_a_completion_that_an_outage_prevents_marks_nothing_and_works_later(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            handle = await engine.start(Idle(), {}, run_id="r")
            faulty.fail("append", times=None)
            with pytest.raises(StoreUnavailable):
                await engine.complete("r", "success", 1)  # type: ignore[arg-type]  # a word does
            assert not engine.is_done("r")
            assert types(await store.read("r")) == ["aaa.run.started"]
            faulty.mend()
            await engine.complete("r", "success", 2)  # type: ignore[arg-type]  # a word does
            assert engine.is_done("r")
            assert (await handle.result()).value == 2

    run(main())


# ENG-34, ENG-31
@pytest.mark.parametrize("failures", [0, 2])
def test_a_completion_whose_answer_was_lost_ends_the_run_once(store: EventStore, failures: int) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty) as engine:
            await engine.start(Idle("p"), {}, run_id="p")
            handle = await engine.start(idle, {}, run_id="r", parent="p")
            faulty.lose("append")
            faulty.fail("append", times=failures)
            if failures:
                with pytest.raises(StoreUnavailable):
                    await engine.emit(completion("r", "c", 1))
                assert not engine.is_done("r")
            told = await engine.emit(completion("r", "c", 1))
            assert told is not None
            assert not told.dup
            assert (await handle.result()).value == 1
            await engine.bus.drain()
            assert types(idle.seen) == ["aaa.run.started", "aaa.run.completed"]
            assert await store.has("p", "child-r")

    run(main())


# ENG-34, ENG-33
def test_a_completion_stored_unseen_is_heard_of_when_the_log_is_read_on(store: EventStore) -> None:
    async def main() -> None:
        faulty, idle = FaultyStore(store), Idle()
        async with engine_on(faulty) as engine:
            await engine.start(Idle("p"), {}, run_id="p")
            await engine.start(idle, {}, run_id="r", parent="p")
            faulty.lose("append")
            faulty.fail("append", times=2)
            with pytest.raises(StoreUnavailable):
                await engine.emit(completion("r", "c", 1))
            await engine.emit(fact("r", "late"))
            await engine.bus.drain()
            assert engine.is_done("r")
            assert await store.has("p", "child-r")
            assert types(idle.seen) == ["aaa.run.started", "aaa.run.completed"]

    run(main())


# ENG-29, ENG-34
def test_the_rules_of_one_emit_can_be_its_own(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            faulty.fail("append", times=None)
            with pytest.raises(StoreUnavailable):
                await engine.emit(fact("s"), retry=RetryPolicy(max_attempts=1))
            assert faulty.calls["append"] == 1

    run(main())


# ENG-34
def test_a_permanent_error_passes_at_once(store: EventStore) -> None:
    async def main() -> None:
        faulty = FaultyStore(store)
        async with engine_on(faulty) as engine:
            faulty.fail("append", KeyError("a bug"), times=None)
            with pytest.raises(KeyError, match="a bug"):
                await engine.emit(fact("s"))
            assert faulty.calls["append"] == 1

    run(main())


# DEC-06, ENG-35
def test_an_event_of_another_tenant_than_its_run_s_is_refused(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="r", tenant="acme")
            with pytest.raises(TenantMismatch):
                await engine.emit(fact("r").with_(tenant="other"))
            await engine.start(Idle(), {}, run_id="s")
            with pytest.raises(TenantMismatch):
                await engine.emit(fact("s").with_(tenant="acme"))
            own = await engine.emit(fact("r"))
            assert own is not None
            assert own.tenant == "acme"
            assert len(await store.read("r")) == 2

    run(main())


# ENG-36, DEC-13
@pytest.mark.parametrize("cost", ["much", float("nan"), float("inf"), -1, [1], True])
@pytest.mark.parametrize("tokens", ["many", -5, None, {}])
def test_spend_that_cannot_be_read_is_stored_as_unknown_with_the_reason(
    store: EventStore, cost: Any, tokens: Any
) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.start(Idle(), {}, run_id="r", budget=Budget(max_cost=1, max_tokens=10))
            stored = await engine.emit(llm("r", "e", tokens=tokens, cost=cost))
            assert stored is not None
            assert stored.data["cost"] is None
            assert "cost" in stored.data["spend_error"]
            assert engine.spent("r") == Ledger(steps=1)
            await engine.emit(llm("r", "f", tokens=5, cost=0.5))
            assert engine.spent("r") == Ledger(steps=2, tokens=5, cost=0.5)
            projection = Projection(Ledger, Ledger.fold)
            assert await engine.project(projection, "r") == engine.spent("r")
            assert not engine.is_done("r")

    run(main())


# ENG-37
def test_retry_repeats_transient_failures_and_reports_the_last_one() -> None:
    async def main() -> None:
        engine, calls = engine_on(), []

        async def flaky() -> int:
            calls.append(1)
            if len(calls) < 3:
                raise ConnectionResetError
            return 5

        async def broken() -> None:
            raise ConnectionResetError("gone")

        async def bug() -> None:
            calls.append(1)
            raise ZeroDivisionError

        assert await engine.retry(flaky) == 5
        with pytest.raises(StoreUnavailable, match="looking") as caught:
            await engine.retry(broken, "looking", RetryPolicy(max_attempts=1))
        assert isinstance(caught.value.__cause__, ConnectionResetError)
        calls.clear()
        with pytest.raises(ZeroDivisionError):
            await engine.retry(bug)
        assert len(calls) == 1
        assert [*inspect.signature(engine.retry).parameters] == ["fn", "what", "policy"]

    run(main())


# ENG-37
def test_what_an_outage_is_can_be_told() -> None:
    async def main() -> None:
        calls = []

        async def flaky() -> int:
            calls.append(1)
            if len(calls) < 2:
                raise ZeroDivisionError
            return 5

        assert await engine_on(is_transient=lambda error: isinstance(error, ZeroDivisionError)).retry(flaky) == 5

    run(main())


# ENG-38
def test_hydrate_restores_a_claimed_payload_and_nothing_else(store: EventStore, tmp_path: Path) -> None:
    async def main() -> None:
        async with engine_on(store, blobs=FileBlobStore(tmp_path / "blobs"), claim_threshold=100) as engine:
            large, small = {"text": "x" * 500, "cost": 0.5}, fact("s", text="x")
            stored = await engine.emit(fact("s", **large))
            assert stored is not None
            assert "text" not in stored.data
            assert stored.data["cost"] == 0.5
            assert (await engine.hydrate(stored)).data == large
            assert await engine.hydrate(small) is small

    run(main())


# ENG-40
def test_project_returns_a_projection_s_state(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Counting(), {"to": 4}, run_id="r")
            assert await engine.project(Projection(int, lambda n, _event: n + 1), "r") == 6

    run(main())


# ENG-41
def test_complete_ends_a_run_once(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {}, run_id="r")
            await engine.complete("r", "blocked", {"v": 1}, "because")  # type: ignore[arg-type]  # a word does
            await engine.complete("r", "success")  # type: ignore[arg-type]  # a word does
            outcome = await handle.result()
            assert (outcome.kind, outcome.value, outcome.reason) == ("blocked", {"v": 1}, "because")
            assert (await store.read("r"))[-1].id == "r:completed"
            with pytest.raises(KeyError):
                await engine.complete("nobody", "success")  # type: ignore[arg-type]  # a word does
            with pytest.raises(ValueError, match="nonsense"):
                await engine.complete("r", "nonsense")  # type: ignore[arg-type]  # no kind

    run(main())


# ENG-42, HND-06
def test_a_cancel_request_ends_the_run_with_its_reason(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            handle = await engine.start(Idle(), {}, run_id="r")
            await handle.cancel("enough")
            outcome = await handle.result()
            assert (outcome.kind, outcome.reason) == ("cancelled", "enough")
            assert types(await store.read("r")) == ["aaa.run.started", "aaa.run.cancel", "aaa.run.completed"]
            other = await engine.start(Idle(), {})
            await other.cancel()
            assert (await other.result()).reason == "cancelled"

    run(main())


# ENG-43 to ENG-48: ENG-43, ENG-44, ENG-45, ENG-46, ENG-47, ENG-48 (their own prefixes say more)
def test_the_operations_of_other_chapters_are_the_engine_s_own(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Echo(), {"a": 1}, run_id="r")
            await engine.start(Idle(), {}, run_id="open")
            report = await engine.erase("r", reason="asked")
            assert (report.stream, report.mode) == ("r", "scrub")
            assert (await store.read("r"))[-1].type == "aaa.run.erased"
            assert isinstance(await engine.purge(older_than=timedelta(days=1)), PurgeReport)
            assert isinstance(await engine.forget_memory(MemoryScope(tenant="t")), MemoryReport)
            assert isinstance(await engine.apply_retention(), PurgeReport)
            scope = engine.tenant("acme")
            assert isinstance(scope, TenantScope)
            assert scope.tenant == "acme"
            assert [*await engine.recover([Idle()])] == ["open"]
            await engine.sweep()
        defaults = {name: one.default for name, one in inspect.signature(Engine.erase).parameters.items()}
        assert (defaults["delete"], defaults["reason"], defaults["force"]) == (False, "erasure", False)

    run(main())
