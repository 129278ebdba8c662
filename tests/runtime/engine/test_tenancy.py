"""The engine as one tenant sees it (TEN-01 to TEN-14)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from engine_parts import Echo, Idle, Parent, engine_on, run
from erasing import PLANTED, log_of, text_of
from tracehold.core.outcome import OutcomeKind
from tracehold.engine import Budget, Engine, MemoryScope, TenantScope
from tracehold.events import EventStore

NO_AGE = timedelta(0)


# TEN-01, ENG-47
def test_the_engine_gives_a_scope_and_it_can_be_made_directly() -> None:
    engine = Engine()
    for scope in (engine.tenant("a"), TenantScope(engine, "a")):
        assert isinstance(scope, TenantScope)
        assert (scope.engine, scope.tenant) == (engine, "a")


# TEN-02
@pytest.mark.parametrize(
    "name", ["", "/", "a/b", "/a", "a/", " a", "a ", "a\n", "\ta", "a\0b", "\ud800", None, 7, b"a"]
)
def test_a_malformed_name_is_refused(name: Any) -> None:
    engine = Engine()
    with pytest.raises(ValueError, match="tenant"):
        TenantScope(engine, name)
    with pytest.raises(ValueError, match="tenant"):
        engine.tenant(name)


# TEN-02
@pytest.mark.parametrize("name", ["a", "a b", "a.b", "..", "ä", "租户", "a:b", "*", "%", "a\\b"])
def test_any_other_name_is_one(name: str) -> None:
    assert Engine().tenant(name).tenant == name


# TEN-03
def test_an_own_id_gets_the_namespace_once() -> None:
    scope = Engine().tenant("a")
    assert scope.run_id("x") == "a/x"
    assert scope.run_id(scope.run_id("x")) == "a/x"
    assert scope.run_id("b/x") == "a/b/x"
    assert scope.run_id("ab/x") == "a/ab/x"
    with pytest.raises(TypeError):
        scope.run_id(7)  # type: ignore[arg-type]  # what is tested


# TEN-04
def test_two_tenants_may_use_the_same_own_id(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            for name in "ab":
                assert (await engine.tenant(name).run(Echo(), {"of": name}, run_id="x")).value == {"of": name}
            for name in "ab":
                handle = await engine.tenant(name).handle("x")
                assert handle.run_id == f"{name}/x"
                assert (await handle.result()).value == {"of": name}

    run(main())


# TEN-05, TEN-09: nobody can tell a foreign run from one that is not there
def test_a_foreign_run_and_a_missing_one_are_the_same_error(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.tenant("b").run(Echo(), {}, run_id="x")
            await engine.run(Echo(), {}, run_id="nobodys")
            await engine.run(Echo(), {}, run_id="a/taken", tenant="b")
            scope = engine.tenant("a")
            for call in (scope.handle, scope.erase):
                for run_id in ("x", "b/x", "nobodys", "a/taken", "taken", "none", "", "\ud800", "x\0"):
                    with pytest.raises(KeyError) as error:
                        await call(run_id)
                    assert error.value.args == (run_id,)

    run(main())


# TEN-05: started by another process after this one had looked in vain
def test_a_run_that_was_missing_can_be_had_once_it_is_there(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        async with engine_on(shared()) as here, engine_on(shared()) as there:
            with pytest.raises(KeyError):
                await here.tenant("a").handle("x")
            await there.tenant("a").run(Echo(), {"v": 1}, run_id="x")
            handle = await here.tenant("a").handle("x")
            assert (await handle.result()).value == {"v": 1}
            await handle.signal("my.note")
            assert {event.tenant for event in await log_of(here, "a/x")} == {"a"}

    run(main())


# TEN-06
def test_a_start_namespaces_stamps_and_records_the_user(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            scope = engine.tenant("a")
            budget = Budget(max_steps=3)
            handle = await scope.start(Echo(), {"v": 1}, run_id="x", budget=budget, user="ann", meta={"team": "red"})
            await handle.result()
            events = await log_of(engine, "a/x")
            assert handle.run_id == "a/x"
            assert {event.tenant for event in events} == {"a"}
            assert [dict(event.meta) for event in events] == [{"team": "red", "user": "ann"}] * len(events)
            assert events[0].data["budget"]["max_steps"] == 3
            fresh = await scope.start(Echo(), {})
            assert fresh.run_id.startswith("a/")
            assert fresh.run_id != (await scope.start(Echo(), {})).run_id

    run(main())


# TEN-06
def test_a_run_returns_its_outcome(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            outcome = await engine.tenant("a").run(Echo(), {"v": 1}, run_id="x", user="ann")
            assert (outcome.kind, outcome.value) == (OutcomeKind.SUCCESS, {"v": 1})
            assert (await log_of(engine, "a/x"))[0].meta == {"user": "ann"}

    run(main())


# TEN-06: another tenant cannot be named
@pytest.mark.parametrize("tenant", ["b", "a", None])
def test_a_tenant_among_the_keywords_is_refused(store: EventStore, tenant: str | None) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            scope = engine.tenant("a")
            for call in (
                lambda: scope.start(Echo(), {}, tenant=tenant),
                lambda: scope.run(Echo(), {}, tenant=tenant),
                lambda: scope.purge(older_than=NO_AGE, tenant=tenant),
                lambda: scope.erase_all(tenant=tenant),
            ):
                with pytest.raises(TypeError):
                    await call()
            assert await store.run_index() == []

    run(main())


# TEN-07
def test_a_parent_must_be_the_tenants_own(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.tenant("b").start(Idle(), {}, run_id="p")
            await engine.start(Idle(), {}, run_id="nobodys")
            scope = engine.tenant("a")
            own = await scope.start(Idle(), {}, run_id="p")
            for parent in ("b/p", "nobodys", "none"):
                with pytest.raises(KeyError):
                    await scope.start(Echo(), {}, run_id="c", parent=parent)
            assert len(await log_of(engine, "b/p")) == 1
            for n, parent in enumerate(("p", "a/p")):
                await scope.run(Echo(), {}, run_id=f"c{n}", parent=parent)
                assert (await log_of(engine, f"a/c{n}"))[0].data["parent"] == own.run_id

    run(main())


# TEN-07
def test_an_existing_id_must_be_the_tenants_own(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Echo(), {"q": PLANTED}, run_id="a/theirs", tenant="b")
            await engine.run(Echo(), {"q": PLANTED}, run_id="a/nobodys")
            scope = engine.tenant("a")
            for run_id in ("theirs", "nobodys", "a/theirs"):
                with pytest.raises(KeyError) as error:
                    await scope.start(Echo(), {}, run_id=run_id)
                assert error.value.args == (run_id,)
            await scope.run(Echo(), {"v": 1}, run_id="own")
            assert (await scope.run(Echo(), {"v": 2}, run_id="own")).value == {"v": 1}

    run(main())


# TEN-08
def test_only_the_tenants_runs_are_listed(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            for name in "ab":
                await engine.tenant(name).run(Echo(), {}, run_id="done")
                await engine.tenant(name).start(Idle(), {}, run_id="open")
            await engine.start(Idle(), {}, run_id="nobodys")
            await engine.start(Idle(), {}, run_id="a/nobodys")
            scope = engine.tenant("a")
            assert sorted(info.stream for info in await scope.runs()) == ["a/done", "a/open"]
            assert [info.stream for info in await scope.runs(open_only=True)] == ["a/open"]
            assert await engine.tenant("none").runs() == []

    run(main())


# TEN-05, TEN-08: what is listed can be had, also a child that an algorithm named
def test_every_run_that_is_listed_has_a_handle(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            scope = engine.tenant("a")
            handle = await scope.start(Idle(), {}, run_id="p")
            await engine.run(Echo(), {}, run_id="named-by-algorithm", parent=handle.run_id)
            listed = [info.stream for info in await scope.runs()]
            assert sorted(listed) == ["a/p", "named-by-algorithm"]
            for stream in listed:
                assert (await scope.handle(stream)).run_id == stream
            with pytest.raises(KeyError):
                await engine.tenant("b").handle("named-by-algorithm")

    run(main())


# TEN-09
def test_an_own_run_is_erased_and_a_foreign_one_is_not(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            for name in "ab":
                await engine.tenant(name).run(Echo(), {"q": PLANTED}, run_id="x")
            with pytest.raises(KeyError):
                await engine.tenant("a").erase("b/x", delete=True, force=True)
            report = await engine.tenant("a").erase("x", reason="request 17")
            assert (report.stream, report.mode) == ("a/x", "scrub")
            assert (await log_of(engine, "a/x"))[-1].data["reason"] == "request 17"
            assert PLANTED in await text_of(engine, "b/x")

    run(main())


# TEN-10
def test_a_purge_never_touches_another_tenant(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            for name in "ab":
                await engine.tenant(name).run(Echo(), {"q": PLANTED}, run_id="x")
                await engine.tenant(name).start(Idle(), {}, run_id="open")
            await engine.run(Echo(), {"q": PLANTED}, run_id="nobodys")
            report = await engine.tenant("a").purge(older_than=NO_AGE, delete=True, reason="why")
            assert (report.streams, report.skipped_open) == (["a/x"], 1)
            assert PLANTED in await text_of(engine, "b/x")
            assert PLANTED in await text_of(engine, "nobodys")

    run(main())


class Memory:
    """Notes whom it is to forget."""

    def __init__(self) -> None:
        self.asked: list[MemoryScope] = []

    async def forget(self, scope: MemoryScope) -> int:
        self.asked.append(scope)
        return 3


# TEN-11
def test_erasing_all_takes_every_finished_run_and_the_memories(store: EventStore) -> None:
    async def main() -> None:
        memory = Memory()
        async with engine_on(store, memory=(memory,)) as engine:
            scope = engine.tenant("a")
            await scope.run(Parent(Echo()), {"children": {"c": {"q": PLANTED}}}, run_id="x", user=PLANTED)
            await scope.start(Idle(), {"q": PLANTED}, run_id="open")
            await engine.tenant("b").run(Echo(), {"q": PLANTED}, run_id="x")
            report = await scope.erase_all()
            assert sorted(report.streams) == ["a/x", "a/x.c"]
            assert report.skipped_open == 1
            assert report.memory is not None
            assert report.memory.forgotten == {"Memory": 3}
            assert memory.asked == [MemoryScope(tenant="a")]
            assert PLANTED not in await text_of(engine, "a/x", "a/x.c")
            assert PLANTED in await text_of(engine, "a/open")
            assert PLANTED in await text_of(engine, "b/x")

    run(main())


# TEN-11
def test_memories_stay_when_told_so(store: EventStore) -> None:
    async def main() -> None:
        memory = Memory()
        async with engine_on(store, memory=(memory,)) as engine:
            await engine.tenant("a").run(Echo(), {"q": PLANTED}, run_id="x")
            report = await engine.tenant("a").erase_all(memory=False, delete=True, reason="why")
            assert (report.streams, report.memory, memory.asked) == (["a/x"], None, [])
            assert await log_of(engine, "a/x") == []

    run(main())


# TEN-12
def test_cancelling_the_open_runs_and_erasing_again_finishes_the_job(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            scope = engine.tenant("a")
            await scope.run(Echo(), {"q": PLANTED}, run_id="done")
            handle = await scope.start(Idle(), {"q": PLANTED}, run_id="open", user=PLANTED)
            await engine.start(Idle("child"), {"q": PLANTED}, run_id="child", parent=handle.run_id)
            assert (await scope.erase_all()).skipped_open == 2
            for info in await scope.runs(open_only=True):
                await (await scope.handle(info.stream)).cancel()
            report = await scope.erase_all()
            assert (sorted(report.streams), report.skipped_open) == (["a/open", "child"], 0)
            assert PLANTED not in await text_of(engine, "a/done", "a/open", "child")
            assert (await scope.erase_all()).streams == []

    run(main())


# TEN-13
def test_forgetting_covers_the_tenant_or_one_of_its_users_or_agents(store: EventStore) -> None:
    async def main() -> None:
        memory = Memory()
        async with engine_on(store, memory=(memory,)) as engine:
            scope = engine.tenant("a")
            await scope.forget_memory()
            await scope.forget_memory(user="ann")
            await scope.forget_memory(agent="clerk")
            await scope.forget_memory(user="ann", agent="clerk")
            with pytest.raises(TypeError):
                await scope.forget_memory(tenant="b")  # type: ignore[call-arg]  # what is tested
            assert memory.asked == [
                MemoryScope("a"),
                MemoryScope("a", "ann"),
                MemoryScope("a", None, "clerk"),
                MemoryScope("a", "ann", "clerk"),
            ]

    run(main())


# TEN-14
def test_the_tenant_is_on_every_event_of_the_run_its_children_and_later_signals(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            scope = engine.tenant("a")
            inner = Parent(Echo("leaf"), name="inner")
            told = {"children": {"m": {"children": {"l": {}}}}}
            await scope.run(Parent(inner, name="outer"), told, run_id="p", budget=Budget(deadline_s=900))
            handle = await scope.handle("p")
            await handle.signal("my.note", {"v": 1})
            await handle.cancel()
            await scope.erase("p")
            streams = ["a/p", "a/p.m", "a/p.m.l"]
            assert sorted(info.stream for info in await scope.runs()) == streams
            events = [event for stream in streams for event in await log_of(engine, stream)]
            assert len(events) > 12
            assert {event.tenant for event in events} == {"a"}

    run(main())


# TEN-14: also by a process that had looked for the run before it was there
def test_a_signal_of_another_process_carries_the_tenant(shared: Callable[[], EventStore]) -> None:
    async def main() -> None:
        async with engine_on(shared()) as here, engine_on(shared()) as there:
            assert (await here.fold_of("a/x")).algo is None
            await there.tenant("a").start(Idle(), {}, run_id="x", user="ann")
            await here.handle("a/x").signal("my.note")
            note = (await log_of(here, "a/x"))[-1]
            assert (note.type, note.tenant, note.meta) == ("my.note", "a", {"user": "ann"})

    run(main())
