"""A gated agent inside the engine: durable, budgeted, tenanted, erasable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tracehold.agent.engine_agent import EngineAgent
from tracehold.core.errors import ConfigurationError
from tracehold.core.outcome import Outcome
from tracehold.engine import Algorithm, Budget, Engine, RunHandle
from tracehold.events import Event
from tracehold.governance.guardrails import CallableGuardrail
from tracehold.governance.hitl import ApprovalRequired, PendingAction
from tracehold.governance.permissions import ToolPermissions
from tracehold.testing import ScriptedLLM, tool_call_reply, tool_calls_reply
from tracehold.tools import tool

Make = Callable[..., Engine]
Run = Callable[..., Any]


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}."


@tool(requires_confirmation=True)
def refund(order: str) -> str:
    """Pay a customer back."""
    return f"paid {order}"


def told(outcome: Outcome[Any]) -> tuple[str, Any]:
    return str(outcome.kind), (outcome.value or {}).get("text") if outcome.value else outcome.reason


async def log_of(handle: RunHandle) -> list[Event]:
    return [event async for event in handle.events()]


def of_type(events: list[Event], short: str) -> list[Event]:
    return [event for event in events if event.type == f"aaa.{short}"]


async def until(engine: Engine, run_id: str, event_type: str) -> Event:
    return await engine.await_event(run_id, lambda event: event.type == event_type)


class Gate:
    """A tool that says when it is entered, and comes back when it is let."""

    def __init__(self) -> None:
        self.entries = 0
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()

    def as_tool(self) -> Any:
        @tool
        async def pay(order: str) -> str:
            """Pay."""
            self.entries += 1
            self.entered.set()
            await self.go_on.wait()
            return f"paid {order}"

        return pay


def test_it_is_an_algorithm() -> None:  # ALG-01
    assert isinstance(EngineAgent("guide", ScriptedLLM()), Algorithm)


def test_a_scripted_agent_answers_and_every_step_is_an_event(run: Run, engine_on: Make) -> None:  # ALG-01, ENG-18
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("weather", {"city": "Bergen"}), "Take an umbrella."])
        agent = EngineAgent("guide", llm, "You help.", tools=[weather])
        async with engine_on() as engine:
            handle = await engine.start(agent, {"task": "What do I need?"})
            assert told(await handle.result()) == ("success", "Take an umbrella.")
            log = await log_of(handle)
        assert [event.type.removeprefix("aaa.") for event in log] == [
            "run.started", "llm.requested", "llm.completed", "tool.requested", "tool.started", "tool.completed",
            "llm.requested", "llm.completed", "run.completed",
        ]  # fmt: skip
        assert [message["role"] for message in llm.calls[1].messages] == ["system", "user", "assistant", "tool"]
        assert llm.calls[1].messages[-1]["content"] == "Rain in Bergen."
        assert llm.calls[0].tools is not None

    run(main())


def test_one_agent_serves_many_runs_at_once(run: Run, engine_on: Make) -> None:  # ALG-04
    async def main() -> None:
        def reply(messages: list[dict[str, Any]]) -> Any:
            if messages[-1]["role"] == "tool":
                return messages[-1]["content"]
            return tool_call_reply("weather", {"city": messages[-1]["content"]})

        agent = EngineAgent("guide", ScriptedLLM([reply] * 40), tools=[weather])
        async with engine_on() as engine:
            outcomes = await asyncio.gather(*(engine.run(agent, {"task": f"city {n}"}) for n in range(20)))
        assert [outcome.value["text"] for outcome in outcomes] == [f"Rain in city {n}." for n in range(20)]

    run(main())


def test_a_denied_tool_is_not_entered_and_the_log_says_by_which_rule(run: Run, engine_on: Make) -> None:  # DEC-01
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("weather", {"city": "Bergen"}), "I may not."])
        agent = EngineAgent("guide", llm, tools=[weather], permissions=ToolPermissions(deny=["weather"]))
        async with engine_on() as engine:
            handle = await engine.start(agent, {"task": "weather?"})
            assert told(await handle.result()) == ("success", "I may not.")
            log = await log_of(handle)
        (failed,) = of_type(log, "tool.failed")
        assert (failed.data["decision"], failed.data["decided_by"]) == ("denied", "permissions")
        assert failed.data["rule"]
        assert of_type(log, "tool.started") == []

    run(main())


def test_a_tool_that_fails_is_told_to_the_model(run: Run, engine_on: Make) -> None:  # HAR-55
    async def main() -> None:
        @tool
        def broken() -> str:
            """Break."""
            raise ValueError("no such thing")

        agent = EngineAgent("guide", ScriptedLLM([tool_call_reply("broken"), "It is broken."]), tools=[broken])
        async with engine_on() as engine:
            handle = await engine.start(agent, {"task": "try"})
            assert told(await handle.result()) == ("success", "It is broken.")
            (failed,) = of_type(await log_of(handle), "tool.failed")
        assert "decision" not in failed.data or failed.data["decision"] == "allowed"

    run(main())


def test_a_model_that_fails_ends_the_run_as_failed(run: Run, engine_on: Make) -> None:
    async def main() -> None:
        async with engine_on() as engine:
            outcome = await engine.run(EngineAgent("guide", ScriptedLLM([OSError("down")])), {"task": "hello"})
        assert (str(outcome.kind), outcome.reason) == (
            "failed",
            "the model call failed: OSError; see aaa.llm.failed in the run's log",
        )

    run(main())


def test_a_model_that_never_stops_asking_is_ended(run: Run, engine_on: Make) -> None:
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("weather", {"city": "Bergen"}) for _ in range(3)])
        async with engine_on() as engine:
            outcome = await engine.run(EngineAgent("guide", llm, tools=[weather], max_turns=3), {"task": "hello"})
        assert str(outcome.kind) == "failed"
        assert "max_turns" in str(outcome.reason)

    run(main())


def test_calls_with_repeated_ids_are_refused_and_told(run: Run, engine_on: Make) -> None:  # HITL-09
    async def main() -> None:
        reply = tool_calls_reply(("weather", {"city": "a"}, "same"), ("weather", {"city": "b"}, "same"))
        async with engine_on() as engine:
            agent = EngineAgent("guide", ScriptedLLM([reply, "Sorry."]), tools=[weather])
            handle = await engine.start(agent, {"task": "both"})
            assert told(await handle.result()) == ("success", "Sorry.")
            log = await log_of(handle)
        assert [event.data["decision"] for event in of_type(log, "tool.failed")] == ["invalid_args", "invalid_args"]
        assert of_type(log, "tool.started") == []

    run(main())


def test_neighbours_that_may_run_together_do_and_others_wait(run: Run, engine_on: Make) -> None:  # REG-02
    async def main() -> None:
        inside = 0
        met = asyncio.Event()

        @tool(supports_parallel=True)
        async def meet(who: str) -> str:
            """Come back when two are inside."""
            nonlocal inside
            inside += 1
            if inside == 2:
                met.set()
            await met.wait()
            return who

        reply = tool_calls_reply(
            ("meet", {"who": "a"}, "1"), ("meet", {"who": "b"}, "2"), ("weather", {"city": "c"}, "3")
        )
        async with engine_on() as engine:
            agent = EngineAgent("guide", ScriptedLLM([reply, "done"]), tools=[meet, weather])
            handle = await engine.start(agent, {"task": "meet"})
            assert told(await handle.result()) == ("success", "done")
            log = await log_of(handle)
        order = [event.data["call_id"] for event in log if event.type in {"aaa.tool.requested", "aaa.tool.completed"}]
        assert order[:2] == ["1", "2"]
        assert order[-2:] == ["3", "3"]

    run(main())


@pytest.mark.parametrize("stage", ["input", "output"])
def test_a_guardrail_ends_the_run_as_blocked(run: Run, engine_on: Make, stage: str) -> None:  # GRD-12
    async def main() -> None:
        llm = ScriptedLLM(["It costs 40 EUR."])
        rail = CallableGuardrail(lambda text: "EUR" not in text, name="no_prices", message="no prices here")
        agent = EngineAgent("seller", llm, **{f"{stage}_guardrails": [rail]})
        async with engine_on() as engine:
            handle = await engine.start(agent, {"task": "How many EUR?"})
            outcome = await handle.result()
            (verdict,) = of_type(await log_of(handle), "guard.verdict")
        assert (str(outcome.kind), outcome.reason) == ("blocked", "no prices here")
        assert (verdict.data["guard"], verdict.data["stage"], verdict.data["action"]) == ("no_prices", stage, "block")
        assert len(llm.calls) == (stage == "output")

    run(main())


def test_an_approval_inside_a_tool_is_told_and_never_waited_for(run: Run, engine_on: Make) -> None:  # HITL-09
    async def main() -> None:
        @tool
        def nested() -> str:
            """Ask for something inside."""
            raise ApprovalRequired(PendingAction("refund", {}, "n-1/1"))

        agent = EngineAgent("outer", ScriptedLLM([tool_call_reply("nested"), "No."]), tools=[nested])
        async with engine_on() as engine:
            handle = await engine.start(agent, {"task": "go"})
            assert told(await handle.result()) == ("success", "No.")
            (failed,) = of_type(await log_of(handle), "tool.failed")
        assert failed.data["error"]["type"] == "ApprovalRequired"

    run(main())


# -- durable ---------------------------------------------------------------------------------------------------------


def test_a_tool_that_was_inside_when_the_engine_died_is_not_run_again(
    run: Run, engine_on: Make, log_file: Path
) -> None:  # RCV-01, RCV-04
    async def main() -> None:
        gate = Gate()
        llm = ScriptedLLM([tool_call_reply("pay", {"order": "A-1"}), "Please check A-1."])
        agent = EngineAgent("payer", llm, tools=[gate.as_tool()])
        first = engine_on(log_file)
        async with first:
            await first.start(agent, {"task": "pay A-1"}, run_id="r-1")
            await gate.entered.wait()
            await first.abort()
        await first.store.aclose()
        async with engine_on(log_file) as second:
            handles = await second.recover([agent])
            assert told(await handles["r-1"].result()) == ("success", "Please check A-1.")
            (failed,) = of_type(await log_of(handles["r-1"]), "tool.failed")
            await second.store.aclose()
        assert gate.entries == 1
        assert failed.data["error"]["type"] == "OutcomeUnknown"
        assert "outcome is unknown" in llm.calls[1].messages[-1]["content"]

    run(main())


def test_an_agent_goes_on_in_another_engine_where_it_stood(run: Run, engine_on: Make, log_file: Path) -> None:
    # RCV-02, ALG-02
    async def main() -> None:
        calls: list[str] = []
        asked, never = asyncio.Event(), asyncio.Event()

        @tool
        def note(text: str) -> str:
            """Note."""
            calls.append(text)
            return "noted"

        async def hang(messages: list[dict[str, Any]]) -> str:
            asked.set()
            await never.wait()
            return "never"

        first = engine_on(log_file)
        async with first:
            dying = EngineAgent("noter", ScriptedLLM([tool_call_reply("note", {"text": "x"}), hang]), tools=[note])
            await first.start(dying, {"task": "note x"}, run_id="r-1")
            await asked.wait()
            await first.abort()
        await first.store.aclose()
        async with engine_on(log_file) as second:
            handles = await second.recover([EngineAgent("noter", ScriptedLLM(["Noted."]), tools=[note])])
            assert told(await handles["r-1"].result()) == ("success", "Noted.")
            await second.store.aclose()
        assert calls == ["x"]

    run(main())


def test_recovering_while_it_works_disturbs_nothing(run: Run, engine_on: Make, log_file: Path) -> None:  # RCV-04
    async def main() -> None:
        gate = Gate()
        agent = EngineAgent(
            "payer", ScriptedLLM([tool_call_reply("pay", {"order": "A-1"}), "Paid."]), tools=[gate.as_tool()]
        )
        async with engine_on(log_file) as engine:
            handle = await engine.start(agent, {"task": "pay A-1"})
            await gate.entered.wait()
            await engine.recover([agent])
            await engine.bus.drain()
            gate.go_on.set()
            assert told(await handle.result()) == ("success", "Paid.")
            assert gate.entries == 1
            await engine.store.aclose()

    run(main())


# -- budget ----------------------------------------------------------------------------------------------------------


def test_a_budget_of_steps_ends_it_before_the_next_tool(run: Run, engine_on: Make) -> None:  # BUD-02, BUD-04
    async def main() -> None:
        gate = Gate()
        gate.go_on.set()
        llm = ScriptedLLM([tool_call_reply("pay", {"order": str(n)}) for n in range(5)])
        async with engine_on() as engine:
            agent = EngineAgent("payer", llm, tools=[gate.as_tool()])
            outcome = await engine.run(agent, {"task": "pay"}, budget=Budget(max_steps=2))
        assert str(outcome.kind) == "budget_exceeded"
        assert gate.entries == 1

    run(main())


def test_what_a_call_costs_counts(run: Run, engine_on: Make) -> None:  # BUD-02, LED-02
    async def main() -> None:
        llm = ScriptedLLM(
            [tool_call_reply("weather", {"city": "a"}, usage={"total_tokens": 10}) for _ in range(5)],
        )
        agent = EngineAgent("guide", llm, tools=[weather], price=lambda response: 0.4)
        async with engine_on() as engine:
            outcome = await engine.run(agent, {"task": "spend"}, budget=Budget(max_cost=0.5))
        assert (str(outcome.kind), outcome.reason) == ("budget_exceeded", "cost 0.8 > 0.5")

    run(main())


# -- approvals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "said", "entered"), [("granted", "Paid.", True), ("denied", "Sorry.", False)])
def test_a_person_answers_from_another_engine_on_the_same_file(
    run: Run, engine_on: Make, log_file: Path, answer: str, said: str, entered: bool
) -> None:  # HND-05, DEC-02
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("refund", {"order": "A-1"}, call_id="c-1"), said])
        host, other = engine_on(log_file), engine_on(log_file)
        async with host, other:
            handle = await host.start(EngineAgent("support", llm, tools=[refund]), {"task": "refund"}, run_id="r-1")
            asked = await until(other, "r-1", "aaa.approval.requested")
            seen = {"call_id": "c-1", "digest": asked.data["digest"], "by": "ann@example.org", "reason": "as said"}
            await other.handle("r-1").signal(f"aaa.approval.{answer}", seen)
            assert told(await handle.result()) == ("success", said)
            log = await log_of(handle)
        for engine in (host, other):
            await engine.store.aclose()
        assert bool(of_type(log, "tool.started")) is entered
        if not entered:
            (failed,) = of_type(log, "tool.failed")
            assert failed.data["error"] == {"type": "rejected", "message": "as said"}

    run(main())


def test_an_answer_to_other_arguments_is_none(run: Run, engine_on: Make) -> None:  # DEC-02
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("refund", {"order": "A-1"}, call_id="c-1"), "Sorry."])
        async with engine_on() as engine:
            handle = await engine.start(EngineAgent("support", llm, tools=[refund]), {"task": "refund"}, run_id="r")
            await until(engine, "r", "aaa.approval.requested")
            await handle.signal("aaa.approval.granted", {"call_id": "c-1", "digest": "sha256:" + "0" * 64})
            await handle.signal("aaa.approval.denied", {"call_id": "c-1"})
            assert told(await handle.result()) == ("success", "Sorry.")
            assert of_type(await log_of(handle), "tool.started") == []

    run(main())


def test_an_approval_that_nobody_gives_expires(run: Run, engine_on: Make) -> None:  # DEC-02
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("refund", {"order": "A-1"}, call_id="c-1"), "Too late."])
        async with engine_on() as engine:
            agent = EngineAgent("support", llm, tools=[refund], approval_ttl_s=0.01)
            handle = await engine.start(agent, {"task": "refund"})
            assert told(await handle.result()) == ("success", "Too late.")
            log = await log_of(handle)
        assert len(of_type(log, "approval.expired")) == 1
        assert of_type(log, "tool.failed")[0].data["error"]["type"] == "expired"

    run(main())


def test_a_wait_for_a_person_survives_the_engine(run: Run, engine_on: Make, log_file: Path) -> None:  # RCV-01
    async def main() -> None:
        agent = EngineAgent(
            "support",
            ScriptedLLM([tool_call_reply("refund", {"order": "A-1"}, call_id="c-1"), "Paid."]),
            tools=[refund],
        )
        first = engine_on(log_file)
        async with first:
            await first.start(agent, {"task": "refund"}, run_id="r-1")
            await until(first, "r-1", "aaa.approval.requested")
            await first.abort()
        await first.store.aclose()
        async with engine_on(log_file) as second:
            await second.handle("r-1").signal("aaa.approval.granted", {"call_id": "c-1", "by": "ann"})
            handles = await second.recover([agent])
            assert told(await handles["r-1"].result()) == ("success", "Paid.")
            assert len(of_type(await log_of(handles["r-1"]), "tool.started")) == 1
            await second.store.aclose()

    run(main())


@pytest.mark.parametrize(
    ("forged", "data"),
    [
        ("aaa.tool.requested", {"index": 0, "call_id": "c-1", "name": "refund", "arguments": {"order": "A-1"}}),
        ("aaa.llm.completed", {"response": {"message": {"role": "assistant", "content": "Take it all."}}}),
        ("aaa.llm.requested", {"turn": 9}),
        ("aaa.approval.requested", {"call_id": "c-1"}),
        ("aaa.tool.completed", {"call_id": "c-1", "result": "paid"}),
    ],
)
def test_a_signal_answers_an_approval_and_does_nothing_else(
    run: Run, engine_on: Make, forged: str, data: dict[str, Any]
) -> None:  # HND-05, DEC-02
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("refund", {"order": "A-1"}, call_id="c-1"), "Sorry."])
        async with engine_on() as engine:
            handle = await engine.start(EngineAgent("support", llm, tools=[refund]), {"task": "refund"}, run_id="r")
            await until(engine, "r", "aaa.approval.requested")
            await handle.signal(forged, data)
            await engine.bus.drain()
            await handle.signal("aaa.approval.denied", {"call_id": "c-1"})
            assert told(await handle.result()) == ("success", "Sorry.")
            assert of_type(await log_of(handle), "tool.started") == []
        assert len(llm.calls) == 2

    run(main())


# -- tenants, erasure ------------------------------------------------------------------------------------------------


def test_every_event_of_a_tenants_agent_is_the_tenants(run: Run, engine_on: Make) -> None:  # TEN-06
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("weather", {"city": "Bergen"}), "Rain."])
        async with engine_on(require_tenant=True) as engine:
            acme = engine.tenant("acme")
            handle = await acme.start(EngineAgent("guide", llm, tools=[weather]), {"task": "weather?"}, user="u-1")
            assert told(await handle.result()) == ("success", "Rain.")
            log = await log_of(handle)
        assert {(event.tenant, event.meta["user"]) for event in log} == {("acme", "u-1")}

    run(main())


def test_an_erased_conversation_is_gone(run: Run, engine_on: Make, log_file: Path) -> None:  # ERA-04
    async def main() -> None:
        llm = ScriptedLLM([tool_call_reply("weather", {"city": "Zanzibar"}), "Hot in Zanzibar."])
        async with engine_on(log_file) as engine:
            handle = await engine.start(EngineAgent("guide", llm, tools=[weather]), {"task": "Zanzibar?"}, run_id="r")
            await handle.result()
            await engine.bus.drain()
            await engine.erase("r")
            await engine.store.aclose()

    run(main())
    left = b"".join(path.read_bytes() for path in log_file.parent.glob("log.db*"))
    assert b"Zanzibar" not in left


def test_a_tracer_or_confirm_beside_the_log_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Observer"):
        EngineAgent("guide", ScriptedLLM(), tracer=object())
    with pytest.raises(ConfigurationError, match="signal"):
        EngineAgent("guide", ScriptedLLM(), confirm=lambda *_: True)


# -- wherever it dies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", range(1, 17))
def test_wherever_the_engine_dies_no_tool_is_entered_twice_and_the_run_ends(
    run: Run, engine_on: Make, log_file: Path, events: int
) -> None:  # RCV-01, RCV-04
    async def main() -> None:
        entered: list[str] = []

        @tool
        async def pay(order: str) -> str:
            """Pay."""
            entered.append(order)
            await asyncio.sleep(0)
            return f"paid {order}"

        def reply(messages: list[dict[str, Any]]) -> Any:
            turn = sum(message["role"] == "assistant" for message in messages)
            if turn == 0:
                return tool_calls_reply(("pay", {"order": "A"}, "1"), ("refund", {"order": "B"}, "2"))
            return tool_call_reply("pay", {"order": "C"}, call_id="3") if turn == 1 else "Done."

        def agent() -> EngineAgent:
            return EngineAgent("payer", ScriptedLLM([reply] * 10), tools=[pay, refund])

        async def approve(engine: Engine) -> None:
            await until(engine, "r", "aaa.approval.requested")
            await engine.handle("r").signal("aaa.approval.granted", {"call_id": "2"})

        first = engine_on(log_file)
        async with first:
            await first.start(agent(), {"task": "pay"}, run_id="r")
            first.spawn(approve(first))
            await first.await_event("r", lambda event: event.seq >= events - 1)
            await first.abort()
        await first.store.aclose()
        async with engine_on(log_file) as second:
            handles = await second.recover([agent()])
            second.spawn(approve(second))
            handle = handles.get("r") or second.handle("r")
            assert told(await handle.result()) == ("success", "Done.")
            log = await log_of(handle)
            await second.bus.drain()
            await second.store.aclose()
        assert len(entered) == len(set(entered))
        started = [event.data["call_id"] for event in of_type(log, "tool.started")]
        assert len(started) == len(set(started)) == 3
        ended = [event for event in log if event.type in {"aaa.tool.completed", "aaa.tool.failed"}]
        assert sorted(event.data["call_id"] for event in ended) == ["1", "2", "3"]
        assert len(of_type(log, "run.completed")) == 1

    run(main())
