"""Runs as an agent makes them: their context, their limits, what is left behind, and how they are called."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from agent_parts import Act, agent, asked, of, only, race, saved, shown, tamper, told, turn, waits
from tracehold import (
    Agent,
    LLMError,
    LLMResponse,
    RunCancelled,
    RunLimitExceeded,
    RunPolicy,
    Scope,
    SessionError,
    SqliteCheckpointStore,
    SqliteSessionStore,
    ToolRegistry,
    Tracer,
    current_run_id,
    tool,
)
from tracehold.core.run_context import current_scope, current_step, current_trace_carrier
from tracehold.execution import reset_run, start_run
from tracehold.governance.hooks import Hook
from tracehold.testing import ScriptedLLM, tool_call_reply

CARRIER = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}


def here() -> tuple[Any, ...]:
    return current_run_id(), current_scope(), current_trace_carrier()


# The run context


def test_tools_hooks_threads_and_the_cancel_callback_see_their_run(tracer: Tracer) -> None:  # EXEC-08, EXEC-09
    seen: dict[str, Any] = {}

    @tool
    def on_a_thread(n: int) -> str:
        """Look around from a worker thread."""
        seen["thread"] = (*here(), current_step() > 0, threading.current_thread() is not threading.main_thread())
        return str(n)

    def cancel() -> bool:
        seen["cancel"] = here()
        return False

    class Watch(Hook):
        def on_run_start(self, *_: Any, **__: Any) -> None:
            seen["start"] = here()

        def before_tool(self, *_: Any) -> None:
            seen["before"] = here()

        def on_run_end(self, *_: Any, **__: Any) -> None:
            seen["end"] = here()

    scope = Scope(user="u")
    worker = agent(
        turn(("on_a_thread", 1), ("look", 2)), "done",
        tools=[on_a_thread, Act("look", lambda _: seen.update(loop=here()))],
        hooks=[Watch()], run_policy=RunPolicy(cancel=cancel), tracer=tracer,
    )  # fmt: skip
    worker.run("hi", scope=scope, run_id="r", trace_carrier=CARRIER)

    want = ("r", scope, CARRIER)
    assert seen.pop("thread") == (*want, True, True)
    assert seen == dict.fromkeys(["start", "before", "end", "cancel", "loop"], want)
    assert here() == (None, None, None)
    assert current_step() == 0


def test_concurrent_runs_do_not_see_each_other() -> None:  # EXEC-08
    together = asyncio.Barrier(3)

    async def look(parameters: dict[str, Any]) -> str:
        await together.wait()
        return f"{current_run_id()} {current_scope().user}"  # type: ignore[union-attr]  # it is set

    async def all_three() -> list[str]:
        workers = [agent(turn(("look", n)), "done", tools=[Act("look", look)], name=f"w{n}") for n in range(3)]
        await race(*(worker.arun("hi", run_id=f"r{n}", scope=Scope(user=f"u{n}")) for n, worker in enumerate(workers)))
        return [told(worker)[f"c{n}"] for n, worker in enumerate(workers)]

    assert asyncio.run(all_three()) == ["r0 u0", "r1 u1", "r2 u2"]


def test_a_run_inside_a_run_joins_it(tracer: Tracer, caplog: pytest.LogCaptureFixture) -> None:  # EXEC-10
    seen: list[Any] = []
    inner = agent(
        turn(("look", 1)), "inside",
        tools=[Act("look", lambda _: seen.append(here()))],
        name="inner", tracer=tracer, run_policy=RunPolicy(max_llm_calls=1),
    )  # fmt: skip

    async def ask(_: Any) -> str:
        return str(await inner.arun("go", scope=Scope(user="other"), run_id="other", trace_carrier={}))

    outer = agent(turn(("ask", 1)), "outside", tools=[Act("ask", ask)], name="outer", tracer=tracer)
    scope = Scope(user="u")
    with caplog.at_level(logging.WARNING, logger="tracehold"):
        assert outer.run("hi", run_id="r", scope=scope, trace_carrier=CARRIER) == "outside"

    assert seen == [("r", scope, CARRIER)]
    assert ["inner RunPolicy is ignored" in record.message for record in caplog.records] == [True]
    assert {event["run_id"] for event in tracer.events} == {"r"}
    assert [event["step_index"] for event in tracer.events] == list(range(1, len(tracer.events) + 1))  # EXEC-11
    assert len(of(tracer, "run_start")) == len(of(tracer, "run_end")) == 1
    span = only(tracer, "span")
    assert (span["kind"], span["name"], span["status"]) == ("agent", "inner", "ok")
    assert {event["agent"] for event in of(tracer, "tool_call") if event["tool"] == "look"} == {"inner"}


def test_an_agent_joins_a_run_that_the_application_began(tracer: Tracer) -> None:  # EXEC-10, POL-10
    worker = agent(turn(("look", 1)), turn(("look", 2)), "x", tools=[Act("look")], tracer=tracer)
    token = start_run("outer", policy=RunPolicy(max_llm_calls=2))
    try:
        with pytest.raises(RunLimitExceeded, match="max_llm_calls"):
            asyncio.run(worker.arun("hi"))
    finally:
        reset_run(token)
    assert {event["run_id"] for event in tracer.events} == {"outer"}


def test_a_resume_continues_run_id_and_steps(store: SqliteCheckpointStore, tracer: Tracer) -> None:  # EXEC-06, EXEC-11
    tools = [Act("look"), Act("pay", confirm=True)]
    worker = agent(
        turn(("look", 1)),
        turn(("pay", 2)),
        turn(("pay", 3)),
        "done",
        tools=tools,
        checkpoint_store=store,
        tracer=tracer,
    )
    worker.run("hi", run_id="r")
    worker.resume(True)
    worker.resume(False)

    steps = [event["step_index"] for event in tracer.events]
    assert {event["run_id"] for event in tracer.events} == {"r"}
    assert steps == sorted(set(steps))
    assert steps[0] == 1
    starts = of(tracer, "run_start")
    assert [event.get("attributes", {}).get("resumed", False) for event in starts] == [False, True, True]
    assert len(of(tracer, "run_suspend")) == 2
    assert only(tracer, "run_end")["status"] == "ok"


def test_limits_count_anew_after_a_resume(store: SqliteCheckpointStore) -> None:  # EXEC-06, POL-09
    pay = Act("pay", confirm=True)
    policy = RunPolicy(max_tool_calls=2, max_llm_calls=1)
    script = [turn(("pay", 1)), turn(("pay", 2)), turn(("pay", 3)), "done"]
    worker = agent(*script, tools=[pay], checkpoint_store=store, run_policy=policy)
    result = worker.run("pay")
    for _ in range(3):
        waits(result)
        result = worker.resume(True)
    assert result == "done"
    assert pay.entered == [1, 2, 3]


def test_limits_count_anew_in_another_run() -> None:  # POL-09
    policy = RunPolicy(max_llm_calls=2, max_tool_calls=1)
    worker = agent(turn(("look", 1)), "a", turn(("look", 2)), "b", tools=[Act("look")], run_policy=policy)
    assert [worker.run("hi"), worker.run("hi")] == ["a", "b"]


def test_the_limit_of_turns_goes_on_counting_after_a_resume(store: SqliteCheckpointStore, tracer: Tracer) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(
        turn(("pay", 1)), turn(("pay", 2)), "x", tools=[pay], checkpoint_store=store, max_turns=2, tracer=tracer
    )
    worker.run("pay")
    worker.resume(True)
    with pytest.raises(RunLimitExceeded, match="raise max_turns"):
        worker.resume(True)
    assert pay.entered == [1, 2]
    assert store.load() is None  # there is nothing to go on with


def test_a_carrier_is_not_stored_and_a_resume_brings_its_own(  # EXEC-12
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:
    seen: list[Any] = []
    pay = Act("pay", lambda _: seen.append(current_trace_carrier()), confirm=True)
    worker = agent(turn(("pay", 1)), turn(("pay", 2)), "done", tools=[pay], checkpoint_store=store, tracer=tracer)
    worker.run("pay", trace_carrier=CARRIER)
    assert "a" * 32 not in str(saved(store))
    other = {"traceparent": f"00-{'c' * 32}-{'d' * 16}-01"}
    worker.resume(True, trace_carrier=other)
    worker.resume(True)
    assert seen == [other, None]
    traces = {event["trace_id"] for event in of(tracer, "run_start")}
    assert traces >= {"a" * 32, "c" * 32}


def test_a_carrier_puts_the_run_below_the_upstream_span(tracer: Tracer) -> None:  # EXEC-12
    agent("hi", tracer=tracer).run("hi", trace_carrier=CARRIER)
    assert {event["trace_id"] for event in tracer.events} == {"a" * 32}
    assert only(tracer, "run_start")["parent_span_id"] == only(tracer, "run_end")["parent_span_id"] == "b" * 16


# Limits and cancellation


def test_the_model_is_asked_max_turns_times(tracer: Tracer) -> None:
    look = Act("look")
    worker = agent(*[turn(("look", n)) for n in range(5)], tools=[look], max_turns=3, tracer=tracer)
    with pytest.raises(RunLimitExceeded, match="raise max_turns") as caught:
        worker.run("hi")
    assert caught.value.rule == "max_turns"
    assert asked(worker) == 3
    assert look.entered == [0, 1, 2]


def test_an_answer_in_the_last_turn_is_an_answer() -> None:
    assert agent(turn(("look", 1)), "seen", tools=[Act("look")], max_turns=2).run("hi") == "seen"
    assert agent("hello", max_turns=1).run("hi") == "hello"


@pytest.mark.parametrize("turns", [0, -1])
def test_a_run_must_have_a_turn(turns: int) -> None:
    with pytest.raises(ValueError, match="max_turns must be at least 1"):
        agent(max_turns=turns)


def test_a_run_that_was_stopped_is_over_and_its_scope_free(store: SqliteCheckpointStore) -> None:
    policy = RunPolicy(max_tool_calls=1)
    worker = agent(
        turn(("look", 1), ("look", 2)), "hello", tools=[Act("look")], run_policy=policy, checkpoint_store=store
    )
    with pytest.raises(RunLimitExceeded):
        worker.run("hi")
    assert worker.run("again") == "hello"


def test_a_resumed_run_that_is_stopped_can_go_on(store: SqliteCheckpointStore) -> None:
    look, pay = Act("look"), Act("pay", confirm=True)
    first = agent(turn(("pay", 1)), tools=[look, pay], checkpoint_store=store)
    first.run("pay")
    limited = agent(
        turn(("look", 2)), tools=[look, pay], checkpoint_store=store, run_policy=RunPolicy(max_tool_calls=1)
    )
    with pytest.raises(RunLimitExceeded):
        limited.resume(True)
    assert (pay.entered, look.entered) == ([1], [])
    # What a person approved has been done and is not lost: a limit counts anew in the next resume.
    worker = agent("done", tools=[look, pay], checkpoint_store=store)
    assert worker.resume() == "done"
    assert (pay.entered, look.entered) == ([1], [2])
    assert told(worker) == {"c1": "pay 1", "c2": "look 2"}


def test_a_resumed_run_whose_model_fails_can_go_on(store: SqliteCheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), LLMError("down"), "done", tools=[pay], checkpoint_store=store)
    worker.run("pay")
    with pytest.raises(LLMError):
        worker.resume(True)
    assert worker.resume() == "done"
    assert pay.entered == [1]


def test_the_cancel_callback_stops_the_run_between_calls(tracer: Tracer) -> None:
    stop = threading.Event()
    worker = agent(
        turn(("look", 1), ("look", 2)), "x",
        tools=[Act("look", lambda _: stop.set())], tracer=tracer, run_policy=RunPolicy(cancel=stop.is_set),
    )  # fmt: skip
    with pytest.raises(RunCancelled):
        worker.run("hi")
    assert [event.get("decision") for event in of(tracer, "tool_call")] == [None, "cancelled"]
    assert only(tracer, "run_end")["status"] == "cancelled"


def test_a_cancelled_task_leaves_a_run_that_can_go_on_and_tells_of_the_call_it_tore(  # EXEC-05
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:
    inside = asyncio.Event()

    async def hang(_: Any) -> None:
        inside.set()
        await asyncio.Event().wait()

    slow = Act("slow", hang)
    worker = agent(
        turn(("slow", 1), ("look", 2)), "done", tools=[slow, Act("look")], checkpoint_store=store, tracer=tracer
    )

    async def cancel_in_the_middle() -> None:
        task = asyncio.create_task(worker.arun("hi"))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_in_the_middle())
    assert [event["status"] for event in of(tracer, "tool_call")] == ["cancelled"]
    assert only(tracer, "run_end")["status"] == "cancelled"
    assert of(tracer, "run_error") == []
    assert here() == (None, None, None)
    with pytest.raises(SessionError, match="was interrupted: resume it"):
        worker.run("again")
    assert worker.resume() == "done"
    assert slow.entered == [1]
    assert "outcome is unknown" in told(worker)["c1"]


# What a crash leaves (EXEC-05)


class Gone(BaseException):
    """The process ends here."""


def dies_at(store: SqliteCheckpointStore, write: int, *, after: bool) -> SqliteCheckpointStore:
    """A store of "another process" that dies before or after its n-th write."""

    class Dies(SqliteCheckpointStore):
        writes = 0

        def replace(self, *args: Any, **options: Any) -> bool:
            self.writes += 1
            if self.writes >= write and not (after and self.writes == write):
                raise Gone
            done = super().replace(*args, **options)
            if after and self.writes == write:
                raise Gone
            return done

    return Dies(store.db_path)


def test_a_finished_run_that_was_not_cleared_is_cleared_and_not_run_again(  # EXEC-05
    store: SqliteCheckpointStore, sessions: SqliteSessionStore, tracer: Tracer
) -> None:
    look = Act("look")
    options: dict[str, Any] = {"tools": [look], "session_store": sessions, "tracer": tracer}
    # Writes of this run: calls, mark, result, messages, completed, cleared.
    with pytest.raises(Gone):
        agent(turn(("look", 1)), "seen", checkpoint_store=dies_at(store, 5, after=True), **options).run("hi")
    assert saved(store)["completed"] is True
    assert sessions.load() == []

    worker = agent("hello", checkpoint_store=store, **options)
    assert worker.pending() is None
    assert worker.run("again") == "hello"

    assert look.entered == [1]
    assert store.load() is None
    # The conversation holds what was said, once, in order.
    assert [message.content for message in sessions.load()] == ["hi", "seen", "again", "hello"]
    assert [message["content"] for message in shown(worker)] == ["hi", "seen", "again"]
    assert [event["status"] for event in of(tracer, "run_end")] == ["error", "ok", "ok"]


@pytest.mark.parametrize("decision", [None, True])
def test_resuming_a_finished_run_gives_its_answer_without_asking_the_model(  # EXEC-05
    store: SqliteCheckpointStore, sessions: SqliteSessionStore, decision: bool | None
) -> None:
    look = Act("look")
    with pytest.raises(Gone):
        agent(
            turn(("look", 1)),
            "seen",
            tools=[look],
            checkpoint_store=dies_at(store, 6, after=False),
            session_store=sessions,
        ).run("hi")
    worker = agent(tools=[look], checkpoint_store=store, session_store=sessions)
    assert worker.resume(decision) == "seen"
    assert (asked(worker), look.entered) == (0, [1])
    assert [message.content for message in sessions.load()] == ["hi", "seen"]  # stored once
    with pytest.raises(SessionError, match="nothing to resume"):
        worker.resume()


def test_of_several_that_find_a_finished_run_one_stores_its_conversation(  # EXEC-05
    store: SqliteCheckpointStore, sessions: SqliteSessionStore
) -> None:
    with pytest.raises(Gone):
        agent(turn(("look", 1)), "seen", tools=[Act("look")], checkpoint_store=dies_at(store, 5, after=True)).run("hi")

    def process() -> Agent:
        return agent(tools=[Act("look")], checkpoint_store=SqliteCheckpointStore(store.db_path), session_store=sessions)

    results = asyncio.run(race(*(process().aresume() for _ in range(4))))
    assert results.count("seen") == 1
    assert [message.content for message in sessions.load()] == ["hi", "seen"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("write", range(1, 11))
def test_wherever_the_process_ends_the_next_one_enters_no_tool_twice(  # EXEC-05, DEC-02
    store: SqliteCheckpointStore, sessions: SqliteSessionStore, write: int, *, after: bool
) -> None:
    entered: list[int] = []
    tools = [Act("look", entered=entered), Act("both", parallel=True, entered=entered)]
    script = {0: turn(("look", 1)), 1: turn(("both", 2), ("both", 3)), 2: "done"}

    def replies(messages: list[dict[str, Any]]) -> Any:
        return script[sum(message["role"] == "assistant" for message in messages)]

    with pytest.raises(Gone):
        agent(
            *[replies] * 3, tools=tools, checkpoint_store=dies_at(store, write, after=after), session_store=sessions
        ).run("hi")
    worker = agent(*[replies] * 3, tools=tools, checkpoint_store=store, session_store=sessions)
    if store.load() is None:
        assert write == 1 or (write == 10 and after)
        return
    assert worker.resume() == "done"

    assert sorted(entered) == sorted(set(entered))
    assert [message.content for message in sessions.load()] == ["hi", "done"]
    assert store.load() is None
    if asked(worker):
        results = told(worker)
        assert list(results) == ["c1", "c2", "c3"]
        for call, (name, n) in zip(results, [("look", 1), ("both", 2), ("both", 3)], strict=True):
            assert results[call] == f"{name} {n}" or "outcome is unknown" in results[call]


def test_a_call_torn_by_a_crash_is_reported_once_with_when_it_began(  # DEC-01
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:
    tools = [Act("look", Gone())]
    with pytest.raises(Gone):
        agent(turn(("look", 1)), tools=tools, checkpoint_store=store).run("hi")
    # A second crash, right after the report: the next process repeats it under the same id.
    with pytest.raises(Gone):
        agent(Gone(), tools=tools, checkpoint_store=dies_at(store, 2, after=False), tracer=tracer).resume()
    assert agent("done", tools=tools, checkpoint_store=store, tracer=tracer).resume() == "done"

    lost = of(tracer, "tool_call")
    assert [(event["error_type"], event["status"]) for event in lost] == [("OutcomeUnknown", "error")] * 2
    assert len({event["event_id"] for event in lost}) == 1
    assert lost[0]["started_at_ns"] < of(tracer, "run_start")[0]["started_at_ns"]
    assert "decision" not in lost[0]


# How it is called


def test_sync_calls_inside_a_running_loop_say_what_to_do(store: SqliteCheckpointStore) -> None:
    worker = agent("hello", checkpoint_store=store)

    async def call_all() -> None:
        for call in (lambda: worker.run("hi"), worker.resume, worker.pending):
            with pytest.raises(RuntimeError, match="an event loop is running here: await arun or aresume"):
                call()

    asyncio.run(call_all())
    assert asked(worker) == 0
    assert worker.run("hi") == "hello"


def test_a_run_may_be_awaited_or_called(store: SqliteCheckpointStore) -> None:
    async def both() -> Any:
        worker = agent(turn(("pay", 1)), "paid", tools=[Act("pay", confirm=True)], checkpoint_store=store)
        waits(await worker.arun("pay"))
        waits(await worker.apending())  # type: ignore[arg-type]  # it is not None
        return await worker.aresume(True)

    assert asyncio.run(both()) == "paid"


def test_runs_of_one_agent_in_different_scopes_are_apart(store: SqliteCheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), turn(("pay", 2)), "a", "b", tools=[pay], checkpoint_store=store)
    scopes = [Scope(session="s1"), Scope(session="s2")]
    assert [waits(worker.run("pay", scope=scope)) for scope in scopes] == [["c1"], ["c2"]]
    assert worker.pending() is None
    assert worker.resume(False, scope=scopes[1]) == "a"
    assert worker.resume(True, scope=scopes[0]) == "b"
    assert pay.entered == [1]


def test_the_agents_own_scope_is_used_unless_a_call_says_otherwise(store: SqliteCheckpointStore) -> None:
    worker = agent(
        turn(("pay", 1)), "done", tools=[Act("pay", confirm=True)], checkpoint_store=store, scope=Scope(user="own")
    )
    waits(worker.run("pay"))
    assert store.load(scope=Scope(user="own")) is not None
    assert worker.pending(scope=Scope(user="other")) is None
    assert worker.resume(True) == "done"


def test_two_runs_at_once_in_one_scope_do_not_mix(store: SqliteCheckpointStore) -> None:
    entered: list[int] = []
    workers = [
        agent(turn(("look", n)), f"done {n}", tools=[Act("look", entered=entered)], checkpoint_store=store)
        for n in range(3)
    ]
    results = asyncio.run(race(*(worker.arun("hi") for worker in workers)))
    finished = [result for result in results if not isinstance(result, SessionError)]
    assert finished == [f"done {n}" for n in entered]
    assert len(finished) >= 1
    assert store.load() is None


def test_a_model_that_says_nothing_gives_an_empty_answer(sessions: SqliteSessionStore) -> None:
    assert agent(LLMResponse(""), session_store=sessions).run("hi") == ""
    assert agent(LLMResponse("", tool_calls=[]), session_store=sessions).run("hi") == ""
    assert [message.content for message in sessions.load()] == ["hi", "", "hi", ""]


def test_the_system_prompt_comes_first_and_the_input_last() -> None:
    worker = agent("hello", prompt="You help.")
    worker.run("hi")
    assert shown(worker) == [{"role": "system", "content": "You help."}, {"role": "user", "content": "hi"}]


def test_tools_are_offered_to_the_model_only_when_there_are_some() -> None:
    worker = agent("hello", tools=[Act("look")])
    worker.run("hi")
    offered = worker.harness.llm.calls[0].tools  # type: ignore[attr-defined]  # scripted
    assert [schema["function"]["name"] for schema in offered] == ["look"]
    bare = agent("hello")
    bare.run("hi")
    assert bare.harness.llm.calls[0].tools is None  # type: ignore[attr-defined]  # scripted


def test_a_failing_tool_is_told_to_the_model_and_the_run_goes_on(tracer: Tracer) -> None:
    worker = agent(turn(("look", 1)), "sorry", tools=[Act("look", ValueError("no such place"))], tracer=tracer)
    assert worker.run("hi") == "sorry"
    assert "no such place" in told(worker)["c1"]
    assert only(tracer, "tool_call")["status"] == "error"


def test_parallel_calls_of_a_turn_run_at_the_same_time_and_answer_in_order() -> None:  # REG-02
    together = asyncio.Barrier(3)

    async def meet(parameters: dict[str, Any]) -> str:
        await asyncio.wait_for(together.wait(), 20)
        return f"met {parameters['n']}"

    worker = agent(turn(("meet", 3), ("meet", 1), ("meet", 2)), "done", tools=[Act("meet", meet, parallel=True)])
    assert worker.run("hi") == "done"
    assert told(worker) == {"c3": "met 3", "c1": "met 1", "c2": "met 2"}
    assert list(told(worker)) == ["c3", "c1", "c2"]


def test_other_calls_of_a_turn_run_one_after_another() -> None:
    inside = 0
    most = 0

    async def count(_: Any) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1

    agent(turn(("one", 1), ("one", 2), ("one", 3)), "done", tools=[Act("one", count)]).run("hi")
    assert most == 1


def test_a_parallel_call_that_stops_the_run_lets_its_neighbours_finish(store: SqliteCheckpointStore) -> None:
    finished: list[int] = []

    async def work(parameters: dict[str, Any]) -> None:
        if parameters["n"] == 1:
            raise RunLimitExceeded("enough", rule="own")
        await asyncio.sleep(0.01)
        finished.append(parameters["n"])

    worker = agent(
        turn(*[("work", n) for n in range(4)]), tools=[Act("work", work, parallel=True)], checkpoint_store=store
    )
    with pytest.raises(RunLimitExceeded, match="enough"):
        worker.run("hi")
    assert sorted(finished) == [0, 2, 3]


def test_state_that_cannot_be_stored_ends_the_run_with_a_clear_error(store: SqliteCheckpointStore) -> None:
    reply = LLMResponse(
        "", tool_calls=turn(("look", 1)).tool_calls, assistant_message={"role": "assistant", "x": object()}
    )
    with pytest.raises(SessionError, match="cannot be suspended"):
        agent(reply, tools=[Act("look")], checkpoint_store=store).run("hi")
    assert store.load() is None


def test_a_checkpoint_that_is_lost_meanwhile_stops_the_run(store: SqliteCheckpointStore) -> None:
    look = Act("look", lambda _: store.clear())
    worker = agent(turn(("look", 1), ("look", 2)), "done", tools=[look], checkpoint_store=store)
    with pytest.raises(SessionError, match="another run or process holds the checkpoint"):
        worker.run("hi")
    assert look.entered == [1]


def test_a_checkpoint_of_a_newer_format_is_refused_and_kept(store: SqliteCheckpointStore) -> None:
    worker = agent(turn(("pay", 1)), tools=[Act("pay", confirm=True)], checkpoint_store=store)
    worker.run("pay")
    tamper(store, lambda state: state.update(v=2))
    with pytest.raises(SessionError, match="format 2"):
        worker.resume(True)
    assert store.load() is not None


def test_options_of_the_harness_reach_it() -> None:
    worker = agent("x", approval_ttl_s=5.0)
    assert worker.harness.approval_ttl_s == 5.0
    with pytest.raises(TypeError):
        agent("x", unheard_of=1)


def test_a_registry_may_be_given_for_tools() -> None:
    registry = ToolRegistry()
    look = Act("look")
    registry.register(look)
    assert Agent("w", ScriptedLLM([tool_call_reply("look", {}), "seen"]), tools=registry).run("hi") == "seen"
    assert look.entered == [None]
