"""Two tenants drive one engine at random; nothing of one is ever seen, listed, hit or counted by the other (TEN-15)."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from engine_parts import Echo, Idle, engine_on, run
from erasing import blobs_in
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.event_stores import STORES
from tracehold.core.errors import RunNotFinished, TenantMismatch
from tracehold.engine import Engine, MemoryScope, TenantScope
from tracehold.events import Event, EventStore

ALIKE = "\u0430"
"""A Cyrillic letter that looks like "a"."""

TENANTS = ("a", "b", ALIKE, "a.b")
OWN = ("x", "y", "a", "b", "../b/x", "b/x", "a/x", f"{ALIKE}/x", "a.b/x", "a/b/x", "/x", "x/", "", "*", "%", "X", "x ")
HOSTILE = (*OWN, "b/../a/x", "a/../b/x", "nobodys", "aaa.erasures", "a\u200b/x", "a\0/x", "\ud800", "a/x:started")
PLAIN = (
    KeyError,  # missing, or somebody else's
    RunNotFinished,  # the tenant's own, and open
    ValueError,  # an id that no event can hold
)


def secret(tenant: str) -> str:
    """Return what only this tenant may read."""
    return f"secret-of-{TENANTS.index(tenant)}."


class Memory:
    """Holds a note of each tenant."""

    def __init__(self) -> None:
        self.held = [MemoryScope(tenant, "ann") for tenant in TENANTS]

    async def forget(self, scope: MemoryScope) -> int:
        kept = [one for one in self.held if not scope.contains(one)]
        gone, self.held = len(self.held) - len(kept), kept
        return gone


class TwoTenants(RuleBasedStateMachine):
    """Each call of a tenant is checked for what it says, and for what it does to everybody else."""

    kind = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.store: EventStore
        self.engine: Engine
        self.idle = Idle(patterns=("test.go",))

    def do(self, call: Awaitable[Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(call, 30))

    @initialize()
    def begin(self) -> None:
        async def enter() -> None:
            path = Path(self.folder.name)
            self.store = STORES[self.kind](path)
            self.engine = engine_on(self.store, blobs=blobs_in(path), claim_threshold=400, memory=(Memory(),))
            await self.engine.__aenter__()
            await self.engine.start(self.idle, {"of": "secret-of-nobody"}, run_id="nobodys")

        self.do(enter())

    def teardown(self) -> None:
        async def leave() -> None:
            await self.engine.__aexit__(None, None, None)
            await self.store.aclose()

        if hasattr(self, "engine"):
            self.do(leave())
        self.loop.close()
        self.folder.cleanup()

    async def others(self, tenant: str) -> dict[str, list[Event]]:
        """Return the logs of everybody but a tenant, payloads restored."""
        index = await self.store.run_index()
        foreign = [info.stream for info in index if info.started.tenant != tenant]
        return {stream: await self.engine.run_events(stream) for stream in foreign}

    def act(self, tenant: str, call: Callable[[TenantScope], Awaitable[Any]]) -> Any:
        """Do something as a tenant; return what it gave, or `None` when it was refused."""

        async def watched() -> Any:
            await self.engine.bus.drain()
            before = await self.others(tenant)
            try:
                answer = await call(self.engine.tenant(tenant))
            except TenantMismatch:
                pytest.fail("a foreign run was told apart from a missing one")
            except PLAIN as error:
                self.check_error(tenant, error)
                answer = None
            await self.engine.bus.drain()
            assert await self.others(tenant) == before
            return answer

        answer = self.do(watched())
        self.check_answer(tenant, answer)
        return answer

    def check_error(self, tenant: str, error: Exception) -> None:
        for other in (*map(secret, TENANTS), "secret-of-nobody"):
            assert other == secret(tenant) or other not in repr(error)

    def check_answer(self, tenant: str, answer: Any) -> None:
        said = repr(answer if not isinstance(answer, list) else [getattr(one, "__dict__", one) for one in answer])
        for other in (*map(secret, TENANTS), "secret-of-nobody"):
            assert other == secret(tenant) or other not in said

    @rule(
        tenant=st.sampled_from(TENANTS),
        own=st.sampled_from(HOSTILE),
        parent=st.none() | st.sampled_from(HOSTILE),
        ends=st.booleans(),
        size=st.sampled_from([1, 500]),
    )
    def start(self, tenant: str, own: str, parent: str | None, ends: bool, size: int) -> None:
        algo = Echo() if ends else self.idle

        async def call(scope: TenantScope) -> Any:
            handle = await scope.start(
                algo, {"said": secret(tenant) * size}, run_id=own, parent=parent, user=f"user {secret(tenant)}"
            )
            assert handle.run_id.startswith(tenant + "/")
            assert (await self.engine.fold_of(handle.run_id)).tenant == tenant
            return handle.run_id

        self.act(tenant, call)

    @rule(tenant=st.sampled_from(TENANTS), own=st.sampled_from(HOSTILE))
    def read(self, tenant: str, own: str) -> None:
        async def call(scope: TenantScope) -> Any:
            handle = await scope.handle(own)
            events = await self.engine.run_events(handle.run_id)
            assert {event.tenant for event in events} == {tenant}
            return events

        self.act(tenant, call)

    @rule(
        tenant=st.sampled_from(TENANTS),
        own=st.sampled_from(HOSTILE),
        aim=st.sampled_from(HOSTILE),
        type_=st.sampled_from(
            [
                "test.go",
                "aaa.run.started",
                "aaa.child.started",
                "aaa.child.completed",
                "aaa.run.erased",
                "aaa.run.cancel",
            ]
        ),
    )
    def signal(self, tenant: str, own: str, aim: str, type_: str) -> None:
        """A signal may claim anything: that another's run is its child, its parent, itself."""
        data = {"child_run_id": aim, "run_id": aim, "parent": aim, "algo": "idle", "tenant": "b", "stream": aim}
        data |= {"said": secret(tenant), "outcome": {"kind": "success", "value": secret(tenant)}, "ledger": {}}

        async def call(scope: TenantScope) -> Any:
            return await (await scope.handle(own)).signal(type_, data)

        self.act(tenant, call)

    @rule(tenant=st.sampled_from(TENANTS), own=st.sampled_from(HOSTILE))
    def cancel(self, tenant: str, own: str) -> None:
        async def call(scope: TenantScope) -> None:
            await (await scope.handle(own)).cancel()

        self.act(tenant, call)

    @rule(tenant=st.sampled_from(TENANTS), own=st.sampled_from(HOSTILE), delete=st.booleans(), force=st.booleans())
    def erase(self, tenant: str, own: str, delete: bool, force: bool) -> None:
        report = self.act(tenant, lambda scope: scope.erase(own, delete=delete, force=force))
        if report is not None:
            assert all(self.do(self.engine.fold_of(stream)).tenant == tenant for stream in report.pending)

    @rule(tenant=st.sampled_from(TENANTS), delete=st.booleans(), everything=st.booleans())
    def purge(self, tenant: str, delete: bool, everything: bool) -> None:
        async def call(scope: TenantScope) -> Any:
            mine = {info.stream for info in await scope.runs()}
            still_open = len(await scope.runs(open_only=True))
            if everything:
                report = await scope.erase_all(delete=delete)
                assert report.memory is not None
                assert report.memory.forgotten["Memory"] <= 1
            else:
                report = await scope.purge(older_than=timedelta(0), delete=delete)
            assert set(report.streams) <= mine
            assert report.skipped_open == still_open
            assert report.failed == {}
            return report

        self.act(tenant, call)

    @rule(tenant=st.sampled_from(TENANTS), user=st.none() | st.just("ann"))
    def forget(self, tenant: str, user: str | None) -> None:
        (memory,) = self.engine.memory
        before = [one for one in memory.held if one.tenant != tenant]
        self.act(tenant, lambda scope: scope.forget_memory(user=user))
        assert memory.held == before

    @invariant()
    def nothing_is_listed_or_stored_across(self) -> None:
        if not hasattr(self, "engine"):
            return

        async def look() -> None:
            for tenant in TENANTS:
                for info in await self.engine.tenant(tenant).runs():
                    assert info.started.tenant == tenant
                    said = await self.engine.run_events(info.stream)
                    assert {event.tenant for event in said} == {tenant}
                    text = repr([event.__dict__ for event in said])
                    assert not any(secret(other) in text for other in TENANTS if other != tenant)

        self.do(look())


class TwoTenantsOnSQLite(TwoTenants):
    """The same on a file."""

    kind = "sqlite"


# TEN-15
TestInMemory = TwoTenants.TestCase
# TEN-15
TestOnSQLite = TwoTenantsOnSQLite.TestCase


# TEN-15: a signal that claims another's run as its child or parent ends, feeds and reads nothing of it
@pytest.mark.parametrize("type_", ["aaa.child.started", "aaa.run.started", "aaa.child.completed"])
def test_a_forged_family_reaches_nobody(store: EventStore, type_: str) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            victim = await engine.tenant("b").start(Idle(), {}, run_id="x")
            handle = await engine.tenant("a").start(Idle(), {}, run_id="x")
            before = await engine.stored(victim.run_id)
            await handle.signal(type_, {"child_run_id": "b/x", "parent": "b/x", "algo": "idle"})
            await handle.cancel()
            await engine.sweep()
            assert await engine.stored(victim.run_id) == before
            assert not engine.is_done(victim.run_id)

    run(main())


# TEN-15: a run in one tenant's namespace that is another's stays the other's
def test_a_run_under_another_namespace_is_its_own_tenants_alone(store: EventStore) -> None:
    async def main() -> None:
        async with engine_on(store) as engine:
            await engine.run(Echo(), {"said": "theirs"}, run_id="a/x", tenant="b")
            with pytest.raises(KeyError):
                await engine.tenant("a").handle("x")
            assert (await engine.tenant("a").erase_all()).streams == []
            assert (await (await engine.tenant("b").handle("a/x")).result()).value == {"said": "theirs"}

    run(main())
