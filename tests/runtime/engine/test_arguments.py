"""What cannot be meant is refused where it is given, in words that say what to give instead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from engine_parts import Echo, Idle, engine_on, fact, run
from tracehold import Agent, standard_redactor
from tracehold.engine import Budget, Engine, RetentionPolicy
from tracehold.events.memory_store import InMemoryEventStore
from tracehold.testing import ScriptedLLM


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"store": "runs.db"}, r"store cannot be str: .*SQLiteEventStore\('runs.db'\)"),
        ({"store": Budget()}, "store cannot be Budget"),
        ({"store": InMemoryEventStore}, "store cannot be the class InMemoryEventStore"),
        ({"bus": object()}, "bus cannot be object"),
        ({"blobs": "dir/"}, "blobs cannot be str: .*FileBlobStore"),
        ({"redactor": standard_redactor}, r"redactor cannot be function: .*standard_redactor\(\)"),
        ({"default_budget": {"max_steps": 3}}, r"default_budget must be a Budget, not dict: Budget\(max_steps=3\)"),
        ({"sweep_interval_s": "60"}, "sweep_interval_s is a number of seconds, not str"),
        ({"retention": RetentionPolicy(timedelta(1))}, "retention is a list of policies"),
        ({"retention": [{"older_than": 1}]}, "retention is a list of policies"),
    ],
)
def test_an_engine_refuses_what_it_cannot_work_with(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Engine(**arguments)


@pytest.mark.parametrize("seconds", [0, -5, float("nan"), float("inf")])
def test_a_sweep_that_never_rests_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="sweep_interval_s must be above 0"):
        Engine(sweep_interval_s=seconds)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"older_than": timedelta(days=-1)}, ValueError, "cannot be negative"),
        ({"older_than": 30}, TypeError, r"RetentionPolicy\(timedelta\(days=30\)\)"),
        ({"older_than": timedelta(1), "interval_s": -1}, ValueError, "interval_s"),
        ({"older_than": timedelta(1), "interval_s": "3600"}, ValueError, "interval_s"),
        ({"older_than": timedelta(1), "tenant": 5}, TypeError, "tenant is a text"),
    ],
)
def test_a_policy_that_would_erase_all_or_nothing_is_refused(
    arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        RetentionPolicy(**arguments)


def test_a_purge_of_a_negative_age_erases_nothing() -> None:
    async def main() -> None:
        async with engine_on() as engine:
            await engine.run(Echo(), {"v": 1}, run_id="r")
            with pytest.raises(ValueError, match="cannot be negative"):
                await engine.purge(older_than=timedelta(days=-1))
            assert (await engine.handle("r").result()).value == {"v": 1}

    run(main())


class Sync(Echo):
    def on_event(self, event: Any, ctx: Any, /) -> Any:  # type: ignore[override]
        return []


class OnePattern(Echo):
    def subscriptions(self) -> Any:
        return "aaa.run.started"


class Nameless:
    name = None

    def subscriptions(self) -> list[str]:
        return []

    async def on_event(self, event: Any, ctx: Any, /) -> None:
        return None


@pytest.mark.parametrize(
    ("algo", "given", "says"),
    [
        (Echo(), "text", "a run's input is a dict, not str"),
        (Echo(), None, "a run's input is a dict, not NoneType"),
        (Echo, {}, r"give Echo\(\), not the class"),
        (object(), {}, "object has no name, subscriptions, on_event"),
        (Nameless(), {}, "the name of Nameless is no text"),
        (Agent("a", ScriptedLLM([])), {}, "use EngineAgent"),
        (OnePattern("one"), {}, r"one.subscriptions\(\) returns a list of patterns"),
    ],
)
def test_a_start_that_cannot_be_meant_records_nothing(algo: Any, given: Any, says: str) -> None:
    async def main() -> None:
        async with engine_on() as engine:
            with pytest.raises(TypeError, match=says):
                await engine.start(algo, given, run_id="r")
            assert await engine.stored("r") == []

    run(main())


def test_a_budget_that_is_none_is_refused() -> None:
    async def main() -> None:
        async with engine_on() as engine:
            with pytest.raises(TypeError, match=r"budget must be a Budget, not dict: Budget\(max_steps=3\)"):
                await engine.start(Echo(), {}, budget={"max_steps": 3})  # type: ignore[arg-type]

    run(main())


def test_a_reaction_that_is_not_async_says_so() -> None:
    async def main() -> None:
        async with engine_on() as engine:
            outcome = await engine.run(Sync(), {})
            assert "must be `async def`" in str(outcome.reason)

    run(main())


def test_a_reaction_that_raises_is_logged_with_its_place_and_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:  # ENG-25
    class Broken(Echo):
        async def on_event(self, event: Any, ctx: Any, /) -> Any:
            raise ValueError("what ada wrote")

    async def main() -> None:
        async with engine_on() as engine:
            await engine.run(Broken(), {}, run_id="r")

    with caplog.at_level(logging.WARNING):
        run(main())
    assert f"raised ValueError at {Path(__file__)}:" in caplog.text
    assert "ada" not in caplog.text


@pytest.mark.parametrize("what", ["start", "emit", "signal"])
def test_an_engine_that_was_left_takes_nothing_in(what: str) -> None:  # ENG-02
    async def main() -> None:
        engine = engine_on()
        async with engine:
            handle = await engine.start(Idle(), {}, run_id="r")
        work: dict[str, Callable[[], Awaitable[object]]] = {
            "start": lambda: engine.start(Echo(), {}, run_id="s"),
            "emit": lambda: engine.emit(fact("r")),
            "signal": lambda: handle.signal("test.go"),
        }
        with pytest.raises(RuntimeError, match="this engine is closed"):
            await work[what]()
        assert await engine.stored("s") == []
        async with engine:
            assert (await engine.run(Echo(), {"v": 1})).value == {"v": 1}

    run(main())


def test_an_unknown_run_is_a_key_error_that_says_what_it_may_be() -> None:  # ENG-19, ERA-02, TEN-05
    async def main() -> None:
        async with engine_on() as engine:
            for work in (
                engine.handle("nope").result(),
                engine.handle("nope").signal("x"),
                engine.erase("nope"),
                engine.start(Echo(), {}, parent="nope"),
                engine.complete("nope", "success"),  # type: ignore[arg-type]
                engine.tenant("acme").handle("nope"),
            ):
                with pytest.raises(KeyError) as caught:
                    await work
                assert caught.value.args == ("nope",)
                assert "there is no run 'nope' here" in str(caught.value)

    run(main())


def test_an_erasure_takes_an_id_and_no_handle() -> None:
    async def main() -> None:
        async with engine_on() as engine:
            handle = await engine.start(Idle(), {})
            with pytest.raises(TypeError, match=r"not RunHandle: use handle\.run_id"):
                await engine.erase(handle)  # type: ignore[arg-type]

    run(main())


def test_a_signals_data_is_a_dict() -> None:
    async def main() -> None:
        async with engine_on() as engine:
            handle = await engine.start(Idle(), {})
            with pytest.raises(TypeError, match="a signal's data is a dict or None, not str"):
                await handle.signal("x", "text")  # type: ignore[arg-type]

    run(main())


def test_a_completion_without_a_kind_says_which_there_are() -> None:
    async def main() -> None:
        async with engine_on() as engine:
            handle = await engine.start(Idle(), {})
            await handle.signal("aaa.run.completed", {"value": 1})
            outcome = await asyncio.wait_for(handle.result(), 5)
            assert str(outcome.kind) == "failed"
            assert "its kind is one of success" in str(outcome.reason)

    run(main())


def test_starting_an_id_of_another_algorithm_is_said_aloud(caplog: pytest.LogCaptureFixture) -> None:  # ENG-08
    async def main() -> None:
        async with engine_on() as engine:
            await engine.start(Idle(), {}, run_id="r")
            await engine.start(Echo(), {}, run_id="r")

    with caplog.at_level(logging.WARNING):
        run(main())
    assert "run r exists, with another algorithm (idle)" in caplog.text
