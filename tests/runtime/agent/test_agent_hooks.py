"""Hooks as an agent fires them."""

from __future__ import annotations

from typing import Any

import pytest
from agent_parts import Act, HookLog, agent, asked, of, only, turn, waits
from tracehold import CallableGuardrail, GuardrailTripwireError, LLMError, Scope, SqliteCheckpointStore, Tracer
from tracehold.core.run_context import current_run_id
from tracehold.execution.checkpoints import CheckpointStore
from tracehold.governance.hooks import Hook
from tracehold.tools.base import ToolResponse

ALL = [
    "on_run_start",
    "before_model",
    "after_model",
    "before_tool",
    "after_tool",
    "before_model",
    "after_model",
    "on_run_end",
]


def test_a_finished_run_fires_start_first_and_end_last(store: CheckpointStore) -> None:  # HOOK-07
    log = HookLog()
    scope = Scope(user="u")
    agent(turn(("look", 1)), "seen", tools=[Act("look")], hooks=[log], checkpoint_store=store).run("hi", scope=scope)
    assert log.names() == ALL
    assert log.of("on_run_start") == [("hi", scope)]
    assert log.of("on_run_end") == [("seen", scope)]


def test_the_start_comes_before_the_input_guardrails() -> None:  # HOOK-07
    log = HookLog()
    seen: list[list[str]] = []
    guardrail = CallableGuardrail(lambda _: seen.append(log.names()) or True)
    agent("fine", hooks=[log], input_guardrails=[guardrail]).run("hi")
    assert seen == [["on_run_start"]]


def test_no_end_is_told_of_a_suspension_and_one_of_the_finish_after_it(store: CheckpointStore) -> None:  # HOOK-07
    log = HookLog()
    worker = agent(turn(("pay", 1)), "paid", tools=[Act("pay", confirm=True)], hooks=[log], checkpoint_store=store)
    worker.run("pay")
    assert log.names() == ["on_run_start", "before_model", "after_model", "on_interrupt"]
    log.fired.clear()
    worker.resume(True)
    # A resume is no new run.
    assert log.names() == ["before_tool", "after_tool", "before_model", "after_model", "on_run_end"]


def test_no_end_is_told_of_a_run_that_failed() -> None:  # HOOK-07, HOOK-10
    log = HookLog()
    error = LLMError("no answer")
    with pytest.raises(LLMError) as caught:
        agent(error, hooks=[log]).run("hi")
    assert caught.value is error
    assert log.names() == ["on_run_start", "before_model", "on_error"]
    assert log.of("on_error") == [(error,)]


@pytest.mark.parametrize("stage", ["input", "output"])
def test_a_tripped_guardrail_is_told_with_stage_and_message_and_is_no_error(stage: str) -> None:  # HOOK-08, HOOK-07
    log = HookLog()
    guardrail = {f"{stage}_guardrails": [CallableGuardrail(lambda _: False, message="not that")]}
    with pytest.raises(GuardrailTripwireError):
        agent("answer", hooks=[log], **guardrail).run("hi")
    assert log.of("on_guardrail_trip") == [(stage, "not that")]
    assert log.of("on_error") == log.of("on_run_end") == []


def test_an_interrupt_is_told_with_all_pending_actions_and_its_scope(store: CheckpointStore) -> None:  # HOOK-09
    log = HookLog()
    scope = Scope(session="s")
    worker = agent(
        turn(("pay", 1), ("look", 2), ("pay", 3)), "done",
        tools=[Act("pay", confirm=True), Act("look")], hooks=[log], checkpoint_store=store, scope=scope,
    )  # fmt: skip
    interrupt = worker.run("pay")
    assert log.of("on_interrupt") == [(interrupt.pendings, scope)]  # type: ignore[union-attr]  # it waits
    log.fired.clear()
    assert waits(worker.resume({"c3": True})) == ["c1"]
    ((pendings, _),) = log.of("on_interrupt")
    assert [action.call_id for action in pendings] == ["c1"]


def test_an_error_is_told_before_it_leaves_and_inside_the_run(tracer: Tracer) -> None:  # HOOK-10, EXEC-09
    seen: list[Any] = []

    class Watch(Hook):
        def on_error(self, error: Exception) -> None:
            seen.append((error, current_run_id(), [event["type"] for event in of(tracer, "run_end")]))

    error = LLMError("no answer")
    with pytest.raises(LLMError):
        agent(error, hooks=[Watch()], tracer=tracer).run("hi", run_id="r")
    assert seen == [(error, "r", [])]
    assert only(tracer, "run_error")["error_type"] == "LLMError"
    assert only(tracer, "run_end")["status"] == "error"


def test_what_a_hook_returns_changes_nothing() -> None:  # HOOK-02
    class Loud(Hook):
        def on_run_start(self, *_: Any, **__: Any) -> Any:
            return "other input"

        def before_model(self, *_: Any) -> Any:
            return [{"role": "user", "content": "other"}]

        def after_model(self, *_: Any) -> Any:
            return "other answer"

        def before_tool(self, *_: Any) -> Any:
            return False

        def after_tool(self, *_: Any) -> Any:
            return ToolResponse.ok("other result")

        def on_run_end(self, *_: Any, **__: Any) -> Any:
            return "other output"

    look = Act("look")
    worker = agent(turn(("look", 1)), "seen", tools=[look], hooks=[Loud()])
    assert worker.run("hi") == "seen"
    assert look.entered == [1]
    last = worker.harness.llm.calls[-1].messages  # type: ignore[attr-defined]  # scripted
    assert [(m["role"], m["content"]) for m in last] == [("user", "hi"), ("assistant", ""), ("tool", "look 1")]


def test_what_a_hook_does_to_its_arguments_does_not_reach_the_tool() -> None:  # HOOK-02
    class Meddles(Hook):
        def before_tool(self, _name: str, parameters: dict[str, Any]) -> None:
            parameters["n"] = 10_000

    look = Act("look")
    agent(turn(("look", 1)), "seen", tools=[look], hooks=[Meddles()]).run("hi")
    assert look.entered == [1]


@pytest.mark.parametrize(
    "method", ["on_run_start", "before_model", "after_model", "before_tool", "after_tool", "on_run_end"]
)
@pytest.mark.parametrize("durable", [False, True])
def test_an_exception_in_a_hook_reaches_the_caller_and_is_told_as_an_error(  # HOOK-03, HOOK-10
    method: str, tracer: Tracer, store: SqliteCheckpointStore, *, durable: bool
) -> None:
    error = ZeroDivisionError(method)

    class Breaks(HookLog):
        pass

    def broken(*_: Any, **__: Any) -> None:
        raise error

    setattr(Breaks, method, broken)
    log = Breaks()
    look = Act("look")
    with pytest.raises(ZeroDivisionError) as caught:
        agent(
            turn(("look", 1)), "seen",
            tools=[look], hooks=[log], tracer=tracer, checkpoint_store=store if durable else None,
        ).run("hi")  # fmt: skip
    assert caught.value is error
    assert log.of("on_error") == [(error,)]
    assert look.entered == ([1] if method in {"after_tool", "on_run_end"} else [])
    assert only(tracer, "run_end")["status"] == "error"
    assert store.load() is None  # the run is over


def test_an_exception_in_on_interrupt_leaves_what_waits_to_be_decided(  # HOOK-03, HOOK-09
    store: CheckpointStore, tracer: Tracer
) -> None:
    class Breaks(HookLog):
        def on_interrupt(self, *_: Any, **__: Any) -> None:
            raise ZeroDivisionError

    pay = Act("pay", confirm=True)
    log = Breaks()
    worker = agent(turn(("pay", 1)), "paid", tools=[pay], hooks=[log], checkpoint_store=store, tracer=tracer)
    with pytest.raises(ZeroDivisionError):
        worker.run("pay")
    assert [type(error) for (error,) in log.of("on_error")] == [ZeroDivisionError]
    assert only(tracer, "run_end")["status"] == "error"
    assert waits(worker.pending()) == ["c1"]  # type: ignore[arg-type]  # it is not None
    assert worker.resume(True) == "paid"


def test_an_exception_in_on_error_is_the_one_that_leaves(tracer: Tracer) -> None:  # HOOK-03
    class Breaks(Hook):
        def on_error(self, error: Exception) -> None:
            raise ZeroDivisionError from error

    with pytest.raises(ZeroDivisionError) as caught:
        agent(LLMError("no answer"), hooks=[Breaks()], tracer=tracer).run("hi")
    assert isinstance(caught.value.__cause__, LLMError)
    assert len(of(tracer, "run_end")) == 1


def test_an_exception_in_on_guardrail_trip_reaches_the_caller(tracer: Tracer) -> None:  # HOOK-03
    class Breaks(Hook):
        def on_guardrail_trip(self, *_: Any) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        agent("x", hooks=[Breaks()], tracer=tracer, input_guardrails=[CallableGuardrail(lambda _: False)]).run("hi")
    assert only(tracer, "guardrail_trip")["decision"] == "tripped"
    assert only(tracer, "run_end")["status"] == "error"


def test_every_hook_method_may_be_async(store: CheckpointStore) -> None:  # HOOK-11
    fired: list[str] = []

    def told(name: str) -> Any:
        async def method(*_: Any, **__: Any) -> None:
            fired.append(name)

        return method

    names = [*dict.fromkeys(ALL), "on_interrupt", "on_error", "on_guardrail_trip"]
    hook = type("Async", (Hook,), {name: staticmethod(told(name)) for name in names})()
    tools = [Act("look"), Act("pay", confirm=True)]
    worker = agent(
        turn(("look", 1)), turn(("pay", 1)), "x", LLMError("no"), tools=tools, hooks=[hook], checkpoint_store=store
    )
    worker.run("hi")
    worker.resume(False)
    with pytest.raises(LLMError):
        worker.run("again")
    with pytest.raises(GuardrailTripwireError):
        agent(hooks=[hook], input_guardrails=[CallableGuardrail(lambda _: False)]).run("hi")
    assert set(fired) == set(names)


def test_hooks_fire_only_for_calls_that_really_ran(store: CheckpointStore) -> None:  # DEC-01, HOOK-06
    log = HookLog()
    worker = agent(
        turn(("pay", 1), ("nope", 2), ("pay", 3)), "done",
        tools=[Act("pay", confirm=True)], hooks=[log], checkpoint_store=store,
    )  # fmt: skip
    worker.run("pay")
    worker.resume({"c1": True, "c3": False})
    assert [told for told, *_ in log.of("before_tool")] == ["pay"]
    assert [told for told, *_ in log.of("after_tool")] == ["pay"]


def test_the_harness_of_a_durable_agent_marks_a_call_after_the_users_hooks(store: CheckpointStore) -> None:
    """A hook that stops a call must not leave it marked as entered."""

    class Stops(Hook):
        def before_tool(self, *_: Any) -> None:
            raise ZeroDivisionError

    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "paid", tools=[pay], checkpoint_store=store)
    worker.run("pay")
    with pytest.raises(ZeroDivisionError):
        agent("paid", tools=[pay], hooks=[Stops()], checkpoint_store=store).resume(True)
    assert pay.entered == []
    assert worker.resume() == "paid"  # approved, and never entered: it still may
    assert pay.entered == [1]
    assert asked(worker) == 2


def test_a_hook_that_fails_after_a_tool_does_not_lose_its_result(store: CheckpointStore, tracer: Tracer) -> None:
    # HOOK-03: the error leaves the run, and the run that goes on knows what the tool gave back
    class Fails(Hook):
        def after_tool(self, name: str, parameters: dict[str, Any], result: Any) -> None:
            if self.failing:
                raise LookupError("the hook's own")

        failing = True

    hook = Fails()
    pay = Act("pay", confirm=True, does="paid")
    model = [turn(("pay", 1)), "done"]
    worker = agent(*model, tools=[pay], checkpoint_store=store, tracer=tracer, hooks=[hook])
    worker.run("pay")
    with pytest.raises(LookupError):
        worker.resume(True)
    hook.failing = False
    assert worker.resume() == "done"
    assert pay.entered == [1]
    assert [event["status"] for event in of(tracer, "tool_call")] == ["success"]
