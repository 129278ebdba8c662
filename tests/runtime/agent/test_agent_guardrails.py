"""Guardrails at the two ends of a run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_parts import Act, agent, asked, denials, of, only, turn
from tracehold import (
    CallableGuardrail,
    Guardrail,
    GuardrailResult,
    GuardrailTripwireError,
    SqliteCheckpointStore,
    SqliteSessionStore,
    Tracer,
)


class OnlyAsync(Guardrail):
    """Overrides `acheck` alone, for I/O."""

    name = "by_network"

    def check(self, text: str) -> GuardrailResult:
        raise AssertionError("an agent takes the async path")

    async def acheck(self, text: str) -> GuardrailResult:
        await asyncio.sleep(0)
        return GuardrailResult("secret" not in text, "no secrets")


@pytest.mark.parametrize("stage", ["input", "output"])
def test_an_agent_asks_the_async_check_of_a_guardrail(stage: str) -> None:  # GRD-04
    worker = agent("a secret", **{f"{stage}_guardrails": [OnlyAsync()]})
    with pytest.raises(GuardrailTripwireError, match="no secrets"):
        worker.run("a secret")
    assert agent("fine", **{f"{stage}_guardrails": [OnlyAsync()]}).run("fine") == "fine"


def test_an_input_guardrail_stops_the_run_before_the_model_is_called(  # GRD-12
    tracer: Tracer, store: SqliteCheckpointStore, sessions: SqliteSessionStore
) -> None:
    worker = agent(
        "never said",
        input_guardrails=[CallableGuardrail(lambda text: len(text) < 5, message="too long", name="length")],
        tracer=tracer, checkpoint_store=store, session_store=sessions,
    )  # fmt: skip
    with pytest.raises(GuardrailTripwireError, match=r"^too long$") as caught:
        worker.run("much too long")
    assert caught.value.rule == "length"
    assert asked(worker) == 0
    assert store.load() is None
    assert sessions.load() == []


def test_an_output_guardrail_keeps_the_answer_from_the_caller_and_the_conversation(  # GRD-12
    tracer: Tracer, store: SqliteCheckpointStore, sessions: SqliteSessionStore
) -> None:
    look = Act("look")
    worker = agent(
        turn(("look", 1)), "costs 5 EUR",
        output_guardrails=[CallableGuardrail(lambda text: "EUR" not in text, message="no prices")],
        tools=[look], tracer=tracer, checkpoint_store=store, session_store=sessions,
    )  # fmt: skip
    with pytest.raises(GuardrailTripwireError, match=r"^no prices$"):
        worker.run("how much?")
    assert look.entered == [1]
    assert sessions.load() == []
    assert store.load() is None


def test_the_first_guardrail_that_blocks_ends_the_round() -> None:  # GRD-12
    judged: list[str] = []

    def judge(name: str, *, passes: bool) -> CallableGuardrail:
        return CallableGuardrail(lambda _: judged.append(name) or passes, name=name)

    with pytest.raises(GuardrailTripwireError) as caught:
        agent("x", input_guardrails=[judge("a", passes=True), judge("b", passes=False), judge("c", passes=True)]).run(
            "hi"
        )
    assert caught.value.rule == "b"
    assert judged == ["a", "b"]


def test_a_trip_is_one_event_with_decision_rule_and_reason(tracer: Tracer) -> None:  # DEC-01, GRD-12
    with pytest.raises(GuardrailTripwireError):
        agent(
            "x", input_guardrails=[CallableGuardrail(lambda _: False, message="no", name="strict")], tracer=tracer
        ).run("hi")
    event = only(tracer, "guardrail_trip")
    assert (event["decision"], event["decided_by"], event["rule"], event["reason"]) == (
        "tripped",
        "input_guardrail",
        "strict",
        "no",
    )
    end = only(tracer, "run_end")
    assert end["status"] == "tripped"
    assert "decision" not in end  # no second denial
    assert of(tracer, "run_error") == []
    assert [decision for decision, _ in denials(tracer)] == ["tripped"]


@pytest.mark.parametrize("outcome", [ZeroDivisionError("broken"), "not a result"])
def test_a_guardrail_that_fails_stops_the_run_and_is_no_trip(tracer: Tracer, outcome: Any) -> None:  # GRD-11
    class Broken(Guardrail):
        def check(self, text: str) -> GuardrailResult:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome  # type: ignore[no-any-return]  # what a careless guardrail does

    worker = agent("x", input_guardrails=[Broken()], tracer=tracer)
    with pytest.raises((ZeroDivisionError, TypeError)):
        worker.run("hi")
    assert asked(worker) == 0
    assert of(tracer, "guardrail_trip") == []
    assert only(tracer, "run_end")["status"] == "error"
    assert len(of(tracer, "run_error")) == 1


def test_a_resumed_run_passes_the_output_guardrails(store: SqliteCheckpointStore) -> None:  # GRD-12
    worker = agent(
        turn(("pay", 1)), "costs 5 EUR",
        tools=[Act("pay", confirm=True)], checkpoint_store=store,
        output_guardrails=[CallableGuardrail(lambda text: "EUR" not in text)],
    )  # fmt: skip
    worker.run("pay")
    with pytest.raises(GuardrailTripwireError):
        worker.resume(True)
    assert worker.pending() is None
