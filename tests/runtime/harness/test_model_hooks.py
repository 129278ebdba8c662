"""Hooks and tracers around a model call: they watch, and what they do is theirs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from harness_parts import MESSAGES, HookLog, Model, in_run, reply, run
from tracehold import Tracer
from tracehold.core.errors import RunLimitExceeded
from tracehold.core.run_context import RunContext
from tracehold.execution import RunPolicy
from tracehold.execution.recording import Place
from tracehold.governance.hooks import Hook
from tracehold.harness import Harness
from tracehold.llm.protocol import LLMResponse


def call(model: Model, policy: RunPolicy | None = None, **options: Any) -> LLMResponse:
    async def once() -> LLMResponse:
        with in_run(policy):
            return await Harness(model, **options).acall_llm(MESSAGES)

    return run(once())


def test_hooks_fire_in_list_order_and_may_be_async() -> None:  # HOOK-04, HOOK-11
    log: list[Any] = []

    class Named(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        def before_model(self, messages: Any) -> None:
            log.append((self.name, "before"))

    class Waiting(Named):
        async def before_model(self, messages: Any) -> None:
            await asyncio.sleep(0)
            log.append((self.name, "before"))

        async def after_model(self, response: Any) -> None:
            await asyncio.sleep(0)
            log.append((self.name, response.content))

    run(Harness(Model("hi"), hooks=[Named("1"), Waiting("2"), Named("3")]).acall_llm(MESSAGES))
    assert log == [("1", "before"), ("2", "before"), ("3", "before"), ("2", "hi")]


def test_a_model_hook_gets_what_is_sent_and_what_came_back() -> None:  # HOOK-05
    hook, answer = HookLog(), reply()
    run(Harness(Model(answer), hooks=[hook]).acall_llm(MESSAGES))
    assert hook.fired == [("before_model", MESSAGES), ("after_model", answer)]
    assert hook.fired[1][1] is answer


def test_what_a_hook_returns_changes_nothing() -> None:  # HOOK-02
    class Pushy(Hook):
        def before_model(self, messages: Any) -> Any:
            return [{"role": "user", "content": "something else"}]

        def after_model(self, response: Any) -> Any:
            return reply("something else")

    model = Model("hi")
    assert run(Harness(model, hooks=[Pushy()]).acall_llm(MESSAGES)).content == "hi"
    assert model.chats[0].messages == MESSAGES


def test_a_hook_that_raises_before_the_call_stops_it_and_nothing_is_counted() -> None:  # HOOK-03
    class Strict(Hook):
        raises = True

        def before_model(self, messages: Any) -> None:
            if self.raises:
                raise PermissionError("no")

    hook, model = Strict(), Model()
    harness = Harness(model, hooks=[hook])

    async def twice() -> None:
        with in_run(RunPolicy(max_llm_calls=1)):
            with pytest.raises(PermissionError):
                await harness.acall_llm(MESSAGES)
            assert model.chats == []
            hook.raises = False
            await harness.acall_llm(MESSAGES)

    run(twice())
    assert len(model.chats) == 1


def test_without_hooks_nothing_is_called_or_built(monkeypatch: pytest.MonkeyPatch) -> None:  # HOOK-12
    def fired(*_: Any, **__: Any) -> None:
        raise AssertionError("a hook machinery was set going")

    for name in ("before_model", "after_model"):
        monkeypatch.setattr(Hook, name, fired)
    assert run(Harness(Model("hi")).acall_llm(MESSAGES)).content == "hi"


def test_without_a_tracer_no_event_is_built_and_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:  # HAR-07
    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("an event was built")

    monkeypatch.setattr(RunContext, "take_step", asked)
    monkeypatch.setattr(Place, "__init__", asked)  # what takes the time
    assert call(Model("hi")).content == "hi"


class BrokenError(Exception):
    pass


def test_a_strict_tracer_raises_and_the_call_still_counts() -> None:  # DEC-11, HAR-18
    class Failing(Tracer().exporters[0].__class__):  # type: ignore[misc]
        def export(self, event: Any) -> None:
            raise BrokenError

    harness = Harness(Model(reply(tokens=3)), tracer=Tracer(exporters=[Failing()], strict=True))

    async def twice() -> None:
        with in_run(RunPolicy(max_llm_calls=1)):
            with pytest.raises(BrokenError):
                await harness.acall_llm(MESSAGES)
            with pytest.raises((RunLimitExceeded, BrokenError)):
                await harness.acall_llm(MESSAGES)
        assert len(harness.llm.chats) == 1

    run(twice())


def test_a_strict_tracer_does_not_hide_the_models_error() -> None:  # DEC-11, HAR-19
    class Failing:
        def emit(self, event: dict[str, Any]) -> None:
            raise BrokenError

    original = LookupError("the model's")
    with pytest.raises(LookupError) as raised:
        call(Model(original), tracer=Failing())
    assert raised.value is original


def test_a_lenient_tracer_never_takes_the_agent_down() -> None:  # DEC-11
    class Failing(Tracer().exporters[0].__class__):  # type: ignore[misc]
        def export(self, event: Any) -> None:
            raise BrokenError

    tracer = Tracer(exporters=[Failing()])
    assert call(Model("hi"), tracer=tracer).content == "hi"
    assert sum(tracer.summary()["dropped"].values()) >= 1
