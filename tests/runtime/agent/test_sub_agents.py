"""Agents as tools of agents: inside the outer run, with conversations and states of their own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agent_parts import (
    Act,
    HookLog,
    agent,
    asked,
    denials,
    of,
    only,
    race,
    rows,
    saved,
    shown,
    tamper,
    told,
    turn,
    waits,
)
from tracehold import (
    AgentTool,
    CallableGuardrail,
    Harness,
    Interrupt,
    LLMError,
    LLMResponseError,
    RunCancelled,
    RunLimitExceeded,
    RunPolicy,
    Scope,
    SessionError,
    SqliteCheckpointStore,
    SqliteSessionStore,
    ToolRegistry,
    Tracer,
)
from tracehold.governance.canonical import action_digest
from tracehold.testing import ScriptedLLM, tool_call_reply, tool_calls_reply


def hand(tool: str, task: str, call_id: str) -> tuple[str, dict[str, Any], str]:
    return tool, {"task": task}, call_id


def handing(*calls: tuple[str, str, str]) -> Any:
    return tool_calls_reply(*[hand(*call) for call in calls])


def test_a_sub_agent_answers_as_a_tool() -> None:
    inner = agent("42", name="helper", prompt="You count.")
    outer = agent(handing(("helper", "count", "h")), "it is 42", tools=[AgentTool(inner)])
    assert outer.run("how many?") == "it is 42"
    assert told(outer) == {"h": "42"}
    assert [m["content"] for m in shown(inner)] == ["You count.", "count"]


def test_name_and_description_may_be_given() -> None:
    inner = agent(name="helper")
    assert AgentTool(inner).name == "helper"
    tool = AgentTool(inner, name="counts", description="Counts things.")
    assert (tool.name, tool.description, tool.origin) == ("counts", "Counts things.", "agent:helper")


def test_all_levels_are_one_run_told_apart_by_agent(tracer: Tracer) -> None:  # EXEC-10
    third = agent(turn(("look", 1)), "c", name="third", tools=[Act("look")], tracer=tracer)
    second = agent(handing(("third", "go", "t")), "b", name="second", tools=[AgentTool(third)], tracer=tracer)
    first = agent(handing(("second", "go", "s")), "a", name="first", tools=[AgentTool(second)], tracer=tracer)
    assert first.run("go", run_id="r") == "a"

    assert {event["run_id"] for event in tracer.events} == {"r"}
    assert len(of(tracer, "run_start")) == len(of(tracer, "run_end")) == 1
    steps = [event["step_index"] for event in tracer.events]
    assert sorted(steps) == list(range(1, len(steps) + 1))
    spans = {event["name"]: event for event in of(tracer, "span")}
    by_tool = {event["tool"]: event for event in of(tracer, "tool_call")}
    assert {name: span["status"] for name, span in spans.items()} == {"second": "ok", "third": "ok"}
    # run > call of second > second > call of third > third > look
    assert by_tool["second"]["parent_span_id"] == only(tracer, "run_end")["span_id"]
    assert spans["second"]["parent_span_id"] == by_tool["second"]["span_id"]
    assert by_tool["third"]["parent_span_id"] == spans["second"]["span_id"]
    assert spans["third"]["parent_span_id"] == by_tool["third"]["span_id"]
    assert by_tool["look"]["parent_span_id"] == spans["third"]["span_id"]
    assert {tool: event["agent"] for tool, event in by_tool.items()} == {
        "second": "first",
        "third": "second",
        "look": "third",
    }


def test_limits_count_against_the_outermost_run(tracer: Tracer) -> None:  # POL-10
    third = agent(*[turn(("look", n)) for n in range(9)], name="third", tools=[Act("look")], tracer=tracer, max_turns=9)
    second = agent(handing(("third", "go", "t")), "b", name="second", tools=[AgentTool(third)], tracer=tracer)
    first = agent(
        handing(("second", "go", "s")), "a",
        name="first", tools=[AgentTool(second)], tracer=tracer, run_policy=RunPolicy(max_llm_calls=5),
    )  # fmt: skip
    with pytest.raises(RunLimitExceeded, match="5 model calls made"):
        first.run("go")
    assert (asked(first), asked(second), asked(third)) == (1, 1, 3)
    # One call was stopped, on one level; the spans and the run around it say so without being denials.
    assert [decision for decision, _ in denials(tracer)] == ["limited"]
    assert {event["status"] for event in of(tracer, "span", "run_end")} == {"limited"}


def test_an_inner_policy_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:  # POL-10, EXEC-10
    inner = agent(turn(("look", 1)), "42", name="helper", tools=[Act("look")], run_policy=RunPolicy(max_llm_calls=1))
    outer = agent(handing(("helper", "count", "h")), "done", tools=[AgentTool(inner)])
    assert outer.run("go") == "done"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_sub_agent_out_of_turns_is_told_to_the_caller(tracer: Tracer) -> None:
    inner = agent(turn(("look", 1)), name="helper", tools=[Act("look")], max_turns=1, tracer=tracer)
    outer = agent(handing(("helper", "count", "h")), "sorry", tools=[AgentTool(inner)], tracer=tracer)
    assert outer.run("go") == "sorry"
    assert told(outer) == {"h": "helper used up its turns before it had an answer"}
    assert [decision for decision, _ in denials(tracer)] == ["limited"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_sub_agent_that_fails_is_told_to_the_caller(  # DEC-01
    store: SqliteCheckpointStore, tracer: Tracer, *, durable: bool
) -> None:
    kept = store if durable else None
    inner = agent(
        turn(("look", 1)), LLMError("down"), name="helper", tools=[Act("look")], tracer=tracer, checkpoint_store=kept
    )
    outer = agent(
        handing(("helper", "count", "h")), "sorry", tools=[AgentTool(inner)], tracer=tracer, checkpoint_store=kept
    )
    assert outer.run("go") == "sorry"
    assert "down" in told(outer)["h"]
    assert only(tracer, "span")["status"] == "error"
    assert len(of(tracer, "run_error")) == 1
    assert only(tracer, "run_end")["status"] == "ok"
    assert rows(store) == 0


def test_a_guardrail_of_a_sub_agent_stops_only_the_sub_agent(tracer: Tracer) -> None:  # GRD-12
    inner = agent(
        "x", name="helper", input_guardrails=[CallableGuardrail(lambda _: False, message="no")], tracer=tracer
    )
    outer = agent(handing(("helper", "count", "h")), "sorry", tools=[AgentTool(inner)], tracer=tracer)
    assert outer.run("go") == "sorry"
    assert asked(inner) == 0
    assert only(tracer, "guardrail_trip")["agent"] == "helper"
    assert only(tracer, "run_end")["status"] == "ok"


def test_the_cancel_callback_reaches_sub_agents(tracer: Tracer) -> None:
    stop: list[int] = []
    inner = agent(turn(("look", 1)), "x", name="helper", tools=[Act("look", lambda _: stop.append(1))], tracer=tracer)
    outer = agent(
        handing(("helper", "go", "h")),
        "x",
        tools=[AgentTool(inner)],
        tracer=tracer,
        run_policy=RunPolicy(cancel=lambda: bool(stop)),
    )
    with pytest.raises(RunCancelled):
        outer.run("go")
    assert asked(inner) == 1
    assert [decision for decision, _ in denials(tracer)] == ["cancelled"]
    assert {event["status"] for event in of(tracer, "span", "run_end")} == {"cancelled"}


def test_conversations_are_apart_from_the_callers(sessions: SqliteSessionStore) -> None:
    inner = agent("1", "2", name="helper", session_store=sessions)
    outer = agent(
        handing(("helper", "first", "h")), "a", handing(("helper", "second", "h")), "b",
        handing(("helper", "other", "h")), "c",
        name="boss", tools=[AgentTool(inner)], session_store=sessions,
    )  # fmt: skip
    one, two = Scope(user="u", session="1"), Scope(user="u", session="2")
    outer.run("hi", scope=one)
    outer.run("again", scope=one)
    assert [m.content for m in sessions.load(scope=one)] == ["hi", "a", "again", "b"]
    assert [m.content for m in sessions.load(scope=one.with_(agent="helper"))] == ["first", "1", "second", "2"]
    assert [m["content"] for m in shown(inner)] == ["first", "1", "second"]
    inner.harness.llm._replies = iter(["3"])  # type: ignore[attr-defined]  # scripted
    outer.run("elsewhere", scope=two)
    assert [m["content"] for m in shown(inner)] == ["other"]


# Approvals inside


def two_levels(store: SqliteCheckpointStore, pay: Act, tracer: Tracer | None = None) -> Any:
    """The outer agent, once for each "process"; its third level pays. Inner call ids repeat on purpose."""

    def replies(*script: Any) -> Any:
        # By the number of replies already in the conversation, so that any process goes on where the last one was.
        return [lambda messages: script[sum(m["role"] == "assistant" for m in messages)]] * 20

    options: dict[str, Any] = {"checkpoint_store": store, "tracer": tracer}
    third = agent(
        *replies(turn(("pay", 1, "call_0")), turn(("pay", 1, "call_0")), "c"), name="third", tools=[pay], **options
    )
    second = agent(
        *replies(handing(("third", "go", "call_0")), "b"), name="second", tools=[AgentTool(third)], **options
    )
    return agent(*replies(handing(("second", "go", "call_0")), "a"), name="first", tools=[AgentTool(second)], **options)


def test_an_action_two_levels_down_suspends_the_whole_and_is_resumed_by_another_process(  # DEC-02, HITL-07
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:
    pay = Act("pay", confirm=True)
    deep = "call_0/call_0/call_0"
    result = two_levels(store, pay, tracer).run("go", run_id="r")
    assert waits(result) == [deep]
    assert result.pending.tool_name == "pay"
    assert two_levels(store, pay).pending() == result

    assert waits(two_levels(store, pay, tracer).resume({deep: True}, approver="ann", reason="fine")) == [deep]
    assert pay.entered == [1]
    assert two_levels(store, pay, tracer).resume({deep: False}, approver="bob", reason="once is enough") == "a"
    assert pay.entered == [1]
    assert rows(store) == 0

    assert {event["run_id"] for event in tracer.events} == {"r"}
    decided = [(event["decision"], event["decided_by"], event["agent"]) for event in of(tracer, "approval_decision")]
    assert decided == [("allowed", "ann", "third"), ("rejected", "bob", "third")]
    ran = [event for event in of(tracer, "tool_call") if event["tool"] == "pay"]
    assert [(event["decision"], event["decided_by"]) for event in ran] == [("allowed", "ann"), ("rejected", "bob")]
    assert ran[1]["reason"] == "once is enough"


def test_an_approval_inside_is_not_used_for_the_next_request_of_the_same_id(  # DEC-02
    store: SqliteCheckpointStore,
) -> None:
    """The inner model asks for the very same call again, under the same id; another decision makes the call go on."""
    pay = Act("pay", confirm=True)

    def process() -> Any:
        def replies(*script: Any) -> Any:
            return [lambda messages: script[sum(m["role"] == "assistant" for m in messages)]] * 20

        kept = SqliteCheckpointStore(store.db_path)
        inner = agent(
            *replies(*[turn(("pay", 1, "call_0"))] * 3, "x"), name="helper", tools=[pay], checkpoint_store=kept
        )
        script = replies(
            tool_calls_reply(hand("helper", "go", "h"), ("other", {"n": 2}, "o"), ("other", {"n": 3}, "p")), "done"
        )
        return agent(*script, tools=[AgentTool(inner), Act("other", confirm=True)], checkpoint_store=kept)

    assert waits(process().run("go")) == ["h/call_0", "o", "p"]
    assert sorted(waits(process().resume({"h/call_0": True}))) == ["h/call_0", "o", "p"]
    assert pay.entered == [1]
    # The second request of the same call waits for a decision of its own, whatever else is decided.
    assert sorted(waits(process().resume({"o": True}))) == ["h/call_0", "p"]
    assert pay.entered == [1]
    assert sorted(waits(process().resume({"h/call_0": False}))) == ["h/call_0", "p"]
    assert process().resume(False) == "done"
    assert pay.entered == [1]


class Gone(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("write", range(1, 11))
def test_an_approval_inside_is_used_once_wherever_the_process_ends(
    store: SqliteCheckpointStore, write: int
) -> None:  # DEC-02
    """Both levels ask twice for the same call under the same id: the first yes must not answer the second question."""
    pay = Act("pay", confirm=True)
    deep = "call_0/call_0/call_0"
    two_levels(store, pay).run("go")

    class Dies(SqliteCheckpointStore):
        writes = 0

        def replace(self, *args: Any, **options: Any) -> bool:
            done = super().replace(*args, **options)
            self.writes += 1
            if self.writes >= write:
                raise Gone
            return done

    with pytest.raises(Gone):
        two_levels(Dies(store.db_path), pay).resume({deep: True})

    after = two_levels(store, pay)
    result = after.pending() or after.resume()
    assert waits(result) == [deep]
    assert len(pay.entered) <= 1
    entered_before = list(pay.entered)
    # A no now must hold.
    result = two_levels(store, pay).resume(False)
    assert pay.entered == entered_before
    if isinstance(result, Interrupt):
        assert two_levels(store, pay).resume(False) == "a"
    assert pay.entered == entered_before
    assert rows(store) == 0


def test_nothing_is_left_of_the_decisions_that_were_handed_on(store: SqliteCheckpointStore) -> None:  # DEC-02
    deep = "call_0/call_0/call_0"
    two_levels(store, Act("pay", confirm=True)).run("go")
    two_levels(store, Act("pay", confirm=True)).resume({deep: True})
    for place in [None, *inner_rows(store)]:
        assert saved(store, place)["decisions"] == {}
        assert saved(store, place)["meta"].get("rulings", {}) == {}


def test_what_was_approved_inside_before_a_crash_is_carried_out_after_it(
    store: SqliteCheckpointStore,
) -> None:  # DEC-02
    """The process ends when the inner run has taken its decision over, and another action of it still waits."""

    class Dies(SqliteCheckpointStore):
        writes = 0

        def replace(self, *args: Any, **options: Any) -> bool:
            done = super().replace(*args, **options)
            self.writes += 1
            if self.writes == 3:  # outer claim, outer mark, inner claim
                raise Gone
            return done

    pay = Act("pay", confirm=True)
    parallel(store, pay).run("go")
    with pytest.raises(Gone):
        parallel(Dies(store.db_path), pay).resume({"a/x": True})
    assert pay.entered == []
    assert sorted(waits(parallel(store, pay).resume())) == ["a/y", "b/x", "b/y"]
    assert pay.entered == [10]


def test_a_sub_agent_may_itself_need_approval(store: SqliteCheckpointStore, tracer: Tracer) -> None:  # DEC-02
    pay = Act("pay", confirm=True)

    def process(*script: Any) -> Any:
        inner = agent(*script, name="helper", tools=[pay], checkpoint_store=store, tracer=tracer)
        helper = AgentTool(inner)
        helper.requires_confirmation = True
        outer = [handing(("helper", "go", "h")), "out"]
        return agent(
            *[lambda messages: outer[sum(m["role"] == "assistant" for m in messages)]] * 9,
            tools=[helper], checkpoint_store=store, tracer=tracer,
        )  # fmt: skip

    assert waits(process().run("go")) == ["h"]
    assert waits(process(turn(("pay", 1, "x"))).resume(True, approver="ann")) == ["h/x"]
    assert waits(process(turn(("pay", 2, "x"))).resume(True, approver="bob")) == ["h/x"]
    assert process("in").resume(False, approver="cleo") == "out"
    assert pay.entered == [1]
    said = [(event["call_id"], event["decision"], event["decided_by"]) for event in of(tracer, "approval_decision")]
    assert said == [("h", "allowed", "ann"), ("x", "allowed", "bob"), ("x", "rejected", "cleo")]
    assert rows(store) == 0


def test_a_sub_agent_that_is_refused_is_not_begun(store: SqliteCheckpointStore, tracer: Tracer) -> None:
    inner = agent(name="helper", checkpoint_store=store)
    helper = AgentTool(inner)
    helper.requires_confirmation = True
    outer = agent(handing(("helper", "go", "h")), "out", tools=[helper], checkpoint_store=store, tracer=tracer)
    outer.run("go")
    assert outer.resume(False, reason="not needed") == "out"
    assert asked(inner) == 0
    assert told(outer) == {"h": "helper was not run: not needed"}


def parallel(store: SqliteCheckpointStore, pay: Act, tracer: Tracer | None = None, **options: Any) -> Any:
    """Two calls of one sub-agent at the same time, and one plain call; each sub-agent asks for two payments."""

    def inner_script(messages: list[dict[str, Any]]) -> Any:
        task = next(m["content"] for m in messages if m["role"] == "user")
        done = sum(m["role"] == "assistant" for m in messages)
        first = 10 * int(task)
        return f"paid {task}" if done else turn(("pay", first, "x"), ("pay", first + 1, "y"))

    def outer_script(messages: list[dict[str, Any]]) -> Any:
        done = sum(m["role"] == "assistant" for m in messages)
        if done:
            return "done"
        return tool_calls_reply(hand("helper", "1", "a"), ("look", {"n": 5}, "l"), hand("helper", "2", "b"))

    kept = store if type(store) is not SqliteCheckpointStore else SqliteCheckpointStore(store.db_path)
    inner = agent(*[inner_script] * 9, name="helper", tools=[pay], tracer=tracer, checkpoint_store=kept, **options)
    return agent(
        *[outer_script] * 9,
        name="boss",
        tools=[AgentTool(inner), Act("look", parallel=True)],
        tracer=tracer,
        checkpoint_store=kept,
    )


def test_parallel_sub_agents_each_suspend_and_are_decided_apart(
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:  # HITL-07
    pay = Act("pay", confirm=True)
    log = HookLog()
    assert waits(parallel(store, pay, tracer, hooks=[log]).run("go")) == ["a/x", "a/y", "b/x", "b/y"]
    assert [len(pendings) for pendings, _ in log.of("on_interrupt")] == [2, 2]  # HOOK-09

    assert waits(parallel(store, pay).resume({"a/y": True})) == ["b/x", "b/y", "a/x"]
    assert pay.entered == [11]
    assert sorted(waits(parallel(store, pay).resume({"b/x": False, "a/x": True}))) == ["b/y"]
    assert pay.entered == [11, 10]
    worker = parallel(store, pay)
    assert worker.resume(True) == "done"
    assert pay.entered == [11, 10, 21]
    assert told(worker) == {"a": "paid 1", "l": "look 5", "b": "paid 2"}
    assert list(told(worker)) == ["a", "l", "b"]
    assert rows(store) == 0


def test_one_boolean_decides_for_all_sub_agents(store: SqliteCheckpointStore) -> None:  # HITL-07
    pay = Act("pay", confirm=True)
    parallel(store, pay).run("go")
    assert parallel(store, pay).resume(True) == "done"
    assert sorted(pay.entered) == [10, 11, 20, 21]


def test_sub_agents_whose_models_use_one_call_id_do_not_meet(store: SqliteCheckpointStore) -> None:
    """Two sub-agents at work at the same time each hand on to the same third, both under the id "call_0"."""
    entered: list[Any] = []

    def third_script(messages: list[dict[str, Any]]) -> Any:
        task = next(m["content"] for m in messages if m["role"] == "user")
        return f"did {task}" if messages[-1]["role"] == "tool" else turn(("pay", int(task), "call_0"))

    def second_script(messages: list[dict[str, Any]]) -> Any:
        task = next(m["content"] for m in messages if m["role"] == "user")
        return messages[-1]["content"] if messages[-1]["role"] == "tool" else handing(("third", task, "call_0"))

    third = agent(
        *[third_script] * 9, name="third", tools=[Act("pay", confirm=True, entered=entered)], checkpoint_store=store
    )
    second = agent(*[second_script] * 9, name="second", tools=[AgentTool(third)], checkpoint_store=store)
    first = agent(
        handing(("second", "1", "a"), ("second", "2", "b")), "done", tools=[AgentTool(second)], checkpoint_store=store
    )

    result = first.run("go")
    assert waits(result) == ["a/call_0/call_0", "b/call_0/call_0"]
    assert [action.arguments for action in result.pendings] == [{"n": 1}, {"n": 2}]  # type: ignore[union-attr]  # it waits
    assert first.resume(True) == "done"
    assert sorted(entered) == [1, 2]
    assert told(first) == {"a": "did 1", "b": "did 2"}
    assert rows(store) == 0


def test_a_call_id_that_comes_again_in_a_later_turn_is_a_new_task(store: SqliteCheckpointStore) -> None:
    inner = agent("first", "second", name="helper", checkpoint_store=store)
    outer = agent(
        handing(("helper", "1", "call_0")),
        handing(("helper", "2", "call_0")),
        "done",
        tools=[AgentTool(inner)],
        checkpoint_store=store,
    )
    assert outer.run("go") == "done"
    assert [m["content"] for m in shown(outer) if m["role"] == "tool"] == ["first", "second"]


def test_the_state_of_a_call_that_was_given_up_is_not_found_by_a_later_run(store: SqliteCheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    inner = agent(turn(("pay", 1)), "second answer", name="helper", tools=[pay], checkpoint_store=store)
    reply = tool_calls_reply(hand("helper", "1", "call_0"), ("look", {"n": 1}, "l"))
    outer = agent(
        reply, handing(("helper", "2", "call_0")), "done",
        tools=[AgentTool(inner), Act("look", RunLimitExceeded("enough"))], checkpoint_store=store,
    )  # fmt: skip
    with pytest.raises(RunLimitExceeded, match="enough"):
        outer.run("go")
    assert rows(store) == 0  # the run is over, and so is what waited inside
    assert outer.run("again") == "done"
    assert told(outer)["call_0"] == "second answer"


def test_what_waits_levels_below_goes_with_the_run_that_failed(store: SqliteCheckpointStore) -> None:
    third = agent(turn(("pay", 1)), name="third", tools=[Act("pay", confirm=True)], checkpoint_store=store)
    second = agent(handing(("third", "go", "t")), name="second", tools=[AgentTool(third)], checkpoint_store=store)
    reply = tool_calls_reply(hand("second", "go", "s"), ("look", {"n": 1}, "l"))
    tools = [AgentTool(second), Act("look", RunLimitExceeded("enough"))]
    with pytest.raises(RunLimitExceeded, match="enough"):
        agent(reply, tools=tools, checkpoint_store=store).run("go")
    assert rows(store) == 0


def test_ids_that_could_stand_for_an_action_inside_are_refused(store: SqliteCheckpointStore) -> None:  # HITL-09
    pay = Act("pay", confirm=True)
    inner = agent(turn(("pay", 1, "x")), name="helper", tools=[pay], checkpoint_store=store)
    reply = tool_calls_reply(hand("helper", "go", "a"), ("pay", {"n": 2}, "a/x"))
    outer = agent(reply, tools=[AgentTool(inner), pay], checkpoint_store=store)
    with pytest.raises(LLMResponseError, match="could tell them apart"):
        outer.run("go")
    assert pay.entered == []


def test_repeated_ids_of_sub_agents_are_refused(store: SqliteCheckpointStore) -> None:  # HITL-09
    inner = agent("x", "y", name="helper", checkpoint_store=store)
    outer = agent(handing(("helper", "1", "a"), ("helper", "2", "a")), tools=[AgentTool(inner)], checkpoint_store=store)
    with pytest.raises(LLMResponseError, match="repeated call id"):
        outer.run("go")


def test_an_outer_agent_that_cannot_wait_says_what_it_lacks_and_leaves_nothing(
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:
    pay = Act("pay", confirm=True)
    inner = agent(turn(("pay", 1)), name="helper", tools=[pay], checkpoint_store=store)
    outer = agent(handing(("helper", "go", "h")), tools=[AgentTool(inner)], tracer=tracer)
    with pytest.raises(SessionError, match="the outer agent has no checkpoint_store to wait with: give it one"):
        outer.run("go")
    assert pay.entered == []
    assert rows(store) == 0
    assert only(tracer, "run_end")["status"] == "error"


def test_the_inner_part_of_a_run_cannot_be_resumed_apart_from_it(store: SqliteCheckpointStore) -> None:  # HOOK-09
    pay, log = Act("pay", confirm=True), HookLog()
    inner = agent(turn(("pay", 1)), "in", name="helper", tools=[pay], checkpoint_store=store, hooks=[log])
    outer = agent(handing(("helper", "go", "h")), "out", tools=[AgentTool(inner)], checkpoint_store=store)
    outer.run("go")
    ((_, place),) = log.of("on_interrupt")
    assert waits(inner.pending(scope=place)) == ["c1"]  # type: ignore[arg-type]  # it is not None
    with pytest.raises(SessionError, match="part of another agent's run: resume that one"):
        inner.resume(True, scope=place)
    assert outer.resume(True) == "out"
    assert pay.entered == [1]


def test_an_inner_agent_without_a_store_is_not_begun_again_after_a_crash(
    store: SqliteCheckpointStore,
) -> None:  # EXEC-05
    """Nobody knows how far it was, and its tools must not run twice."""
    look = Act("look")
    inner = agent(turn(("look", 1)), Gone(), name="helper", tools=[look])
    script = [handing(("helper", "go", "h")), "out"]
    with pytest.raises(Gone):
        agent(script[0], tools=[AgentTool(inner)], checkpoint_store=store).run("go")
    outer = agent(script[1], tools=[AgentTool(inner)], checkpoint_store=store)
    assert outer.resume() == "out"
    assert look.entered == [1]
    assert "outcome is unknown" in told(outer)["h"]


@pytest.mark.parametrize("lost", ["another file", "no store"])
def test_a_sub_agent_whose_state_is_lost_does_not_start_over(  # FR-59
    store: SqliteCheckpointStore, tmp_path: Path, lost: str
) -> None:
    entered: list[Any] = []
    tools = [Act("look", entered=entered), Act("pay", confirm=True, entered=entered)]

    def process(kept: SqliteCheckpointStore | None, *script: Any) -> Any:
        inner = agent(*script, name="helper", tools=tools, checkpoint_store=kept)
        outer = [handing(("helper", "go", "h")), "out"]
        return agent(
            *[lambda messages: outer[sum(m["role"] == "assistant" for m in messages)]] * 9,
            tools=[AgentTool(inner)], checkpoint_store=store,
        )  # fmt: skip

    process(store, turn(("look", 1)), turn(("pay", 2))).run("go")
    other = SqliteCheckpointStore(tmp_path / "other.db") if lost == "another file" else None
    worker = process(other, turn(("look", 1)), "started over")
    assert worker.resume(True) == "out"
    assert entered == [1]
    assert "helper had begun is gone from its checkpoint_store: not run again" in told(worker)["h"]


def test_an_inner_agent_without_a_store_asks_its_own_confirm_callback(store: SqliteCheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    inner = agent(turn(("pay", 1)), "paid", name="helper", tools=[pay], confirm=lambda *_: True)
    outer = agent(handing(("helper", "go", "h")), "done", tools=[AgentTool(inner)], checkpoint_store=store)
    assert outer.run("go") == "done"
    assert pay.entered == [1]


def inner_rows(store: SqliteCheckpointStore) -> list[Scope]:
    with store._database.reading() as connection:
        found = connection.execute(
            "SELECT base, user, agent, session, app FROM run_checkpoints WHERE session <> ''"
        ).fetchall()
    return [Scope(*row) for row in found]


@pytest.mark.parametrize("where", ["inner call", "inner pending", "outer pending", "outer pending and digest"])
def test_arguments_changed_in_the_checkpoint_of_either_level_suspend_again(  # DEC-02
    store: SqliteCheckpointStore, tracer: Tracer, where: str
) -> None:
    pay = Act("pay", confirm=True)

    def process(*script: Any) -> Any:
        inner = agent(*script, name="helper", tools=[pay], checkpoint_store=store, tracer=tracer)
        return agent(
            handing(("helper", "go", "h")), "done", tools=[AgentTool(inner)], checkpoint_store=store, tracer=tracer
        )

    process(turn(("pay", 10, "x"))).run("go")
    (place,) = inner_rows(store)
    if where == "inner call":
        tamper(store, lambda state: state["meta"]["calls"][0]["arguments"].update(n=10_000), place)
    elif where == "inner pending":
        tamper(store, lambda state: state["pending"][0]["arguments"].update(n=10_000), place)
    else:  # the approver is shown something harmless
        harmless = action_digest("pay", {"n": 1})
        tamper(store, lambda state: state["pending"][0]["arguments"].update(n=1))
        if where.endswith("digest"):
            tamper(store, lambda state: state["pending"][0].update(digest=harmless))
    tracer.clear()

    worker = process("paid")
    again = worker.resume({"h/x": True})
    assert waits(again) == ["h/x"]
    assert pay.entered == []
    assert [event["reason"] for event in of(tracer, "approval_request")] == [
        "the approval was for other arguments; this call waits again"
    ]
    (place,) = inner_rows(store)
    truth = saved(store, place)["meta"]["calls"][0]["arguments"]
    assert again.pending.arguments == truth
    worker.harness.llm._replies = iter(["done"])
    assert worker.resume({"h/x": True}, seen={"h/x": again.pending.digest}) == "done"
    assert pay.entered == [truth["n"]]


def test_an_approval_inside_that_came_too_late_is_refused(
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:  # DEC-02
    pay = Act("pay", confirm=True)
    inner = agent(
        turn(("pay", 1)), "no", name="helper", tools=[pay], checkpoint_store=store, tracer=tracer, approval_ttl_s=1e-9
    )
    outer = agent(
        handing(("helper", "go", "h")), "done", tools=[AgentTool(inner)], checkpoint_store=store, tracer=tracer
    )
    outer.run("go")
    assert outer.resume(True) == "done"
    assert pay.entered == []
    assert ("expired", "pay") in denials(tracer)


def test_two_processes_that_resume_at_once_run_the_inner_tool_once(
    db: Path, store: SqliteCheckpointStore
) -> None:  # DEC-02
    entered: list[int] = []

    def process() -> Any:
        return parallel(store, Act("pay", confirm=True, entered=entered))

    process().run("go")
    results = asyncio.run(race(*(process().aresume(True) for _ in range(3))))
    assert sorted(entered) == [10, 11, 20, 21]
    assert results.count("done") == 1


def test_a_renamed_sub_agent_does_not_start_over(store: SqliteCheckpointStore) -> None:  # FR-59
    entered: list[Any] = []
    tools = [Act("look", entered=entered), Act("pay", confirm=True, entered=entered)]

    def process(name: str, *script: Any) -> Any:
        inner = agent(*script, name=name, tools=tools, checkpoint_store=store)
        return agent(
            handing(("counts", "go", "h")), "done", tools=[AgentTool(inner, name="counts")], checkpoint_store=store
        )

    process("old-name", turn(("look", 1)), turn(("pay", 2))).run("go")
    worker = process("new-name", "started over")
    worker.harness.llm._replies = iter(["done"])
    assert worker.resume(True) == "done"
    assert entered == [1]
    assert "begun by agent 'old-name', not by 'new-name'" in told(worker)["h"]
    assert rows(store) == 0


@pytest.mark.parametrize("write", range(1, 24))
@pytest.mark.parametrize("after", [False, True])
def test_wherever_the_process_ends_no_tool_of_any_level_runs_twice(  # EXEC-05
    store: SqliteCheckpointStore, sessions: SqliteSessionStore, write: int, *, after: bool
) -> None:
    entered: list[Any] = []

    def process(kept: SqliteCheckpointStore) -> Any:
        def script(*replies: Any) -> Any:
            # What this agent is asked now comes after what its conversation holds.
            def reply(messages: list[dict[str, Any]]) -> Any:
                since = max(index for index, m in enumerate(messages) if m["role"] == "user")
                return replies[sum(m["role"] == "assistant" for m in messages[since:])]

            return [reply] * 20

        both: dict[str, Any] = {"checkpoint_store": kept, "session_store": sessions}
        inner = agent(
            *script(turn(("look", 1)), turn(("look", 2)), "in"),
            name="helper",
            tools=[Act("look", entered=entered)],
            **both,
        )
        outer = script(handing(("helper", "one", "h")), turn(("look", 3)), "out")
        return agent(*outer, name="boss", tools=[AgentTool(inner), Act("look", entered=entered)], **both)

    class Dies(SqliteCheckpointStore):
        writes = 0

        def _write(self, change: Any) -> Any:
            self.writes += 1
            if self.writes >= write and not (after and self.writes == write):
                raise Gone
            done = change()
            if after and self.writes == write:
                raise Gone
            return done

        def replace(self, *args: Any, **options: Any) -> bool:
            return bool(self._write(lambda: SqliteCheckpointStore.replace(self, *args, **options)))

        def clear(self, *args: Any, **options: Any) -> None:
            self._write(lambda: SqliteCheckpointStore.clear(self, *args, **options))

    try:
        assert process(Dies(store.db_path)).run("hi", scope=Scope(session="s")) == "out"
    except Gone:
        if store.load(scope=Scope(session="s")) is not None:
            assert process(store).resume(scope=Scope(session="s")) == "out"
        else:
            return  # before its first write, or after its last
    assert sorted(entered) == sorted(set(entered))
    assert rows(store) == 0
    assert [m.content for m in sessions.load(scope=Scope(session="s"))] == ["hi", "out"]
    assert [m.content for m in sessions.load(scope=Scope(session="s", agent="helper"))] == ["one", "in"]


def test_a_limit_that_stops_a_resumed_run_does_not_make_a_sub_agent_start_over(store: SqliteCheckpointStore) -> None:
    pay, look = Act("pay", confirm=True), Act("look")

    def process(policy: RunPolicy | None = None) -> Any:
        def inner_script(messages: list[dict[str, Any]]) -> Any:
            return [turn(("look", 1)), "in"][sum(m["role"] == "assistant" for m in messages)]

        def outer_script(messages: list[dict[str, Any]]) -> Any:
            return [turn(("pay", 9)), handing(("helper", "go", "h")), "out"][
                sum(m["role"] == "assistant" for m in messages)
            ]

        inner = agent(*[inner_script] * 9, name="helper", tools=[look], checkpoint_store=store)
        return agent(*[outer_script] * 9, tools=[AgentTool(inner), pay], checkpoint_store=store, run_policy=policy)

    process().run("go")
    with pytest.raises(RunLimitExceeded):
        process(RunPolicy(max_llm_calls=2)).resume(True)
    assert look.entered == [1]
    assert process().resume() == "out"
    assert (look.entered, pay.entered) == ([1], [9])
    assert rows(store) == 0


def test_a_cancelled_task_leaves_both_levels_to_go_on(store: SqliteCheckpointStore, tracer: Tracer) -> None:
    inside = asyncio.Event()

    async def hang(_: Any) -> None:
        inside.set()
        await asyncio.Event().wait()

    slow, look = Act("slow", hang), Act("look")
    inner = agent(
        turn(("look", 1)),
        turn(("slow", 2)),
        "in",
        name="helper",
        tools=[slow, look],
        checkpoint_store=store,
        tracer=tracer,
    )
    outer = agent(
        handing(("helper", "go", "h")), "out", tools=[AgentTool(inner)], checkpoint_store=store, tracer=tracer
    )

    async def cancel_in_the_middle() -> None:
        task = asyncio.create_task(outer.arun("hi"))
        await asyncio.wait_for(inside.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_in_the_middle())
    assert {event["status"] for event in of(tracer, "span", "run_end")} == {"cancelled"}
    assert outer.resume() == "out"
    assert (look.entered, slow.entered) == ([1], [2])
    assert "outcome is unknown" in told(inner)["c2"]


# By hand


def test_a_tool_that_hands_work_to_a_sub_agent_itself_gets_each_answer(store: SqliteCheckpointStore) -> None:
    inner = agent("one", "two", name="helper", checkpoint_store=store)
    helper = AgentTool(inner)

    async def both(_: Any) -> str:
        return " ".join([str(await helper.arun({"task": task})) for task in ("1", "2")])

    outer = agent(turn(("both", 1)), "done", tools=[Act("both", both)], checkpoint_store=store)
    assert outer.run("go") == "done"
    assert told(outer) == {"c1": "one two"}
    assert rows(store) == 0


def test_an_agent_tool_works_in_a_bare_harness() -> None:
    registry = ToolRegistry()
    registry.register(AgentTool(agent("42", "43", name="helper")))
    harness = Harness(ScriptedLLM(), tool_registry=registry)
    assert str(asyncio.run(harness.aexec_tool("helper", {"task": "count"}))) == "42"
    assert registry.execute_tool("helper", {"task": "count"}).text == "43"


def test_arguments_of_a_sub_agent_are_checked(tracer: Tracer) -> None:
    inner = agent("x", name="helper")
    outer = agent(tool_call_reply("helper", {"tusk": "count"}), "sorry", tools=[AgentTool(inner)], tracer=tracer)
    assert outer.run("go") == "sorry"
    assert denials(tracer) == [("invalid_args", "helper")]
    assert asked(inner) == 0


def test_the_state_of_a_sub_agent_is_kept_under_the_outer_call_whatever_its_id(store: SqliteCheckpointStore) -> None:
    pay = Act("pay", confirm=True)
    odd = "half \ud83e / nul \0 " + "x" * 5000
    inner = agent(turn(("pay", 1)), "in", name="helper", tools=[pay], checkpoint_store=store)
    outer = agent(handing(("helper", "go", odd)), "out", tools=[AgentTool(inner)], checkpoint_store=store)
    assert waits(outer.run("go")) == [odd + "/c1"]
    (place,) = inner_rows(store)
    assert len(json.dumps(place.session)) < 200
    assert outer.resume(True) == "out"
    assert pay.entered == [1]
