"""An agent in the engine under malformed answers, outages, crashes and second processes: it goes on, and pays once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tracehold import tool
from tracehold.agent import engine_agent
from tracehold.agent.engine_agent import EngineAgent
from tracehold.core.retry import RetryPolicy
from tracehold.engine import Engine
from tracehold.events import ANY_SEQ, Event
from tracehold.events.blob_store import InMemoryBlobStore
from tracehold.events.memory_store import InMemoryEventStore
from tracehold.testing import ScriptedLLM, tool_calls_reply

Run = Callable[[Coroutine[Any, Any, Any]], Any]
QUICK = RetryPolicy(max_attempts=2, base_delay_s=0.001, max_delay_s=0.002)


class Till:
    """Counts how often it was asked to pay."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def agent(self, *replies: Any, **options: Any) -> EngineAgent:
        paid = self.paid

        @tool(requires_confirmation=True)
        def refund(order: str) -> str:
            """Pay an order back."""
            paid.append(order)
            return "paid"

        return EngineAgent("till", ScriptedLLM(list(replies)), tools=[refund], **options)


REFUND = tool_calls_reply(("refund", {"order": "A"}, "c-1"))


def types(events: list[Event]) -> list[str]:
    return [event.type.removeprefix("aaa.") for event in events]


async def asked(engine: Engine) -> Event:
    return await engine.await_event("r", lambda event: event.type == "aaa.approval.requested")


@pytest.mark.parametrize("digest", [[], {}, {"a": [1]}, 5, "sha256:of-other-arguments", "x" * 2000])
@pytest.mark.parametrize("blobs", [None, InMemoryBlobStore()], ids=["plain", "claimed"])
def test_an_answer_to_other_arguments_is_none_and_the_right_one_is_heard(
    run: Run, digest: Any, blobs: Any
) -> None:  # DEC-02, ENG-36
    till = Till()

    async def main() -> None:
        async with Engine(blobs=blobs, claim_threshold=500) as engine:
            handle = await engine.start(till.agent(REFUND, "done"), {"task": "x"}, run_id="r")
            request = await asked(engine)
            wrong = {"call_id": "c-1", "digest": digest, "reason": "y" * 1000}
            await handle.signal("aaa.approval.granted", wrong)
            await engine.bus.drain()
            assert till.paid == []
            await handle.signal("aaa.approval.granted", {"call_id": "c-1", "digest": request.data["digest"]})
            assert str((await handle.result()).kind) == "success"
        assert till.paid == ["A"]

    run(main())


class Breakable(InMemoryEventStore):
    """Refuses appends of some types, or ends its engine right after one was stored."""

    def __init__(self) -> None:
        super().__init__()
        self.away: set[str] = set()
        self.met = asyncio.Event()
        self.dies_after: str | None = None
        self.engine: Engine | None = None
        self.died = asyncio.Event()

    async def append(self, stream: str, events: Any, expected_seq: int = ANY_SEQ) -> list[Event]:
        if self.away and events[-1].type in self.away:
            self.met.set()
            raise ConnectionResetError
        stored = await super().append(stream, events, expected_seq)
        if self.engine is not None and events[-1].type == self.dies_after:
            engine, self.engine = self.engine, None
            engine.crashed = engine.log.closed = True
            self.died.set()
            asyncio.get_running_loop().create_task(engine.abort())
        return stored


@pytest.mark.parametrize("what", ["aaa.llm.completed", "aaa.tool.completed", "aaa.approval.requested"])
def test_an_outage_longer_than_the_rules_is_waited_out_and_nothing_is_paid_twice(run: Run, what: str) -> None:
    # ENG-26
    till = Till()

    async def main() -> None:
        store = Breakable()
        store.away = {what}
        agent = till.agent(REFUND, "done")
        async with Engine(store, store_retry=QUICK) as engine:
            handle = await engine.start(agent, {"task": "x"}, run_id="r")
            if what == "aaa.tool.completed":
                await asked(engine)
                await handle.signal("aaa.approval.granted", {"call_id": "c-1"})
            await store.met.wait()
            store.away = set()
            if what != "aaa.tool.completed":
                await asked(engine)
                await handle.signal("aaa.approval.granted", {"call_id": "c-1"})
            outcome = await handle.result()
            assert (str(outcome.kind), outcome.value) == ("success", {"text": "done", "turns": 2})
        assert till.paid == ["A"]

    run(main())


def test_a_crash_right_after_an_expiry_leaves_nothing_hanging(run: Run) -> None:  # ENG-03, RCV-03
    till = Till()

    async def main() -> None:
        store = Breakable()
        first = Engine(store, store_retry=QUICK)
        store.engine, store.dies_after = first, "aaa.approval.expired"
        async with first:
            await first.start(till.agent(REFUND, approval_ttl_s=0.02), {"task": "x"}, run_id="r")
            await store.died.wait()
        async with Engine(store) as second:
            handles = await second.recover([till.agent("not paid", approval_ttl_s=0.02)])
            assert (await handles["r"].result()).value == {"text": "not paid", "turns": 2}
            (failed,) = [event for event in await store.read("r") if event.type == "aaa.tool.failed"]
            assert "nobody approved it in time" in failed.data["result"]
        assert till.paid == []

    run(main())


def test_a_grant_in_time_counts_although_the_process_comes_back_late(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:  # DEC-02
    till = Till()

    async def main() -> None:
        store = InMemoryEventStore()
        async with Engine(store) as first:
            await first.start(till.agent(REFUND, approval_ttl_s=3600), {"task": "x"}, run_id="r")
            request = await asked(first)
            await first.abort()
        async with Engine(store) as desk:
            await desk.handle("r").signal("aaa.approval.granted", {"call_id": "c-1", "by": "ann"})
        expires = request.data["expires_at_ns"]
        monkeypatch.setattr(engine_agent, "now_ns", lambda: expires + 1)
        async with Engine(store) as second:
            handles = await second.recover([till.agent("done", approval_ttl_s=3600)])
            assert str((await handles["r"].result()).kind) == "success"
        assert till.paid == ["A"]
        assert "approval.expired" not in types(await store.read("r"))

    run(main())


class Connection:
    """One process's way to a shared log; its first append of `aaa.tool.started` may fail for now."""

    def __init__(self, log: InMemoryEventStore, *, flaky: bool, turn: asyncio.Event) -> None:
        self._log = log
        self._flaky = flaky
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, stream: str, events: Any, expected_seq: int = ANY_SEQ) -> list[Event]:
        if events[0].type != "aaa.tool.started":
            return await self._log.append(stream, events, expected_seq)
        if self._flaky:
            self._flaky = False
            await self._turn.wait()
            raise ConnectionResetError
        stored = await self._log.append(stream, events, expected_seq)
        self._turn.set()
        return stored


def test_a_tool_is_entered_once_although_two_processes_recover_at_once(run: Run) -> None:
    ran: list[str] = []

    @tool
    async def pay(order: str) -> str:
        """Pay."""
        ran.append(order)
        await asyncio.sleep(0)
        return "paid"

    def agent(*replies: Any) -> EngineAgent:
        return EngineAgent("till", ScriptedLLM(list(replies)), tools=[pay])

    async def main() -> None:
        log = Breakable()
        first = Engine(log, store_retry=QUICK)
        log.engine, log.dies_after = first, "aaa.tool.requested"
        async with first:
            await first.start(agent(tool_calls_reply(("pay", {"order": "A"}, "c"))), {"task": "x"}, run_id="r")
            await log.died.wait()
        turn = asyncio.Event()
        views: list[Any] = [Connection(log, flaky=flaky, turn=turn) for flaky in (False, True)]
        async with Engine(views[0], store_retry=QUICK) as one, Engine(views[1], store_retry=QUICK) as two:
            await asyncio.gather(one.recover([agent("done")]), two.recover([agent("done")]))
            assert str((await one.handle("r").result()).kind) == "success"
        assert ran == ["A"]

    run(main())


@pytest.mark.parametrize("given", [{}, {"question": "x"}, {"task": ""}, {"task": "  "}])
def test_without_a_task_no_model_is_asked(run: Run, given: dict[str, Any]) -> None:
    async def main() -> None:
        llm = ScriptedLLM(["never"])
        async with Engine() as engine:
            outcome = await engine.run(EngineAgent("till", llm), given)
            assert str(outcome.kind) == "failed"
            assert 'started with {"task": text}' in str(outcome.reason)
        assert llm.calls == []

    run(main())
