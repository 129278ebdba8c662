"""What an agent's run leaves in the record: nothing happens unseen, and nothing is told twice (DEC-01)."""

from __future__ import annotations

from typing import Any

import pytest
from agent_parts import Act, agent, denials, of, only, tamper, turn, waits
from tracehold import (
    CallableGuardrail,
    GuardrailTripwireError,
    LLMError,
    RunCancelled,
    RunLimitExceeded,
    RunPolicy,
    Scope,
    SqliteCheckpointStore,
    ToolPermissions,
    Tracer,
    current_run_id,
)
from tracehold.observability.event_types import DECISIONS, EVENT_TYPES
from tracehold.observability.exporters.base import TraceExporter
from tracehold.testing import tool_call_reply


def calls(tracer: Tracer) -> dict[str, list[tuple[Any, ...]]]:
    """By call id: type, status, decision, decided_by, rule, reason of each event."""
    told: dict[str, list[tuple[Any, ...]]] = {}
    for event in of(tracer, "tool_call", "approval_request"):
        fields = (event["type"], *(event.get(key) for key in ("status", "decision", "decided_by", "rule", "reason")))
        told.setdefault(event["call_id"], []).append(fields)
    return told


def test_every_call_of_a_turn_leaves_exactly_one_event(store: SqliteCheckpointStore, tracer: Tracer) -> None:  # DEC-01
    worker = agent(
        turn(("fine", 1), ("fails", 2), ("nope", 3), ("denied", 4), ("pay", 5), ("pay", 6)), "done",
        tools=[Act("fine"), Act("fails", ValueError("broken")), Act("denied"), Act("pay", confirm=True)],
        permissions=ToolPermissions(deny=["denied"]), checkpoint_store=store, tracer=tracer,
    )  # fmt: skip
    assert waits(worker.run("hi")) == ["c5", "c6"]

    told = calls(tracer)
    assert {call: len(events) for call, events in told.items()} == dict.fromkeys(
        ["c1", "c2", "c3", "c4", "c5", "c6"], 1
    )
    assert told["c1"][0][:2] == ("tool_call", "success")
    assert told["c2"][0][:3] == ("tool_call", "error", "allowed")
    assert told["c3"][0][:4] == ("tool_call", "unknown_tool", "unknown_tool", "registry")
    assert told["c4"][0][:4] == ("tool_call", "denied", "denied", "permissions")
    assert told["c4"][0][4]  # which rule
    for call in ("c5", "c6"):
        assert told[call][0][:3] == ("approval_request", "suspended", "suspended")
    assert all(reason for call in ("c3", "c4", "c5", "c6") for *_, reason in told[call])

    tracer.clear()
    worker.resume({"c5": True, "c6": False}, approver="ann", reason="once")
    told = calls(tracer)
    assert {call: [event[:3] for event in events] for call, events in told.items()} == {
        "c5": [("tool_call", "success", "allowed")],
        "c6": [("tool_call", "rejected", "rejected")],
    }
    assert told["c6"][0][3:] == ("ann", None, "once")


def test_a_finished_run_has_a_start_and_an_end(tracer: Tracer) -> None:  # DEC-01
    agent("hello", tracer=tracer).run("hi", run_id="r", scope=Scope(user="u", session="s"))
    assert [event["type"] for event in tracer.events] == ["run_start", "llm_call", "run_end"]
    start, end = only(tracer, "run_start"), only(tracer, "run_end")
    assert (end["status"], end["name"], end["agent"]) == ("ok", "worker", "worker")
    assert start["span_id"] == end["span_id"]
    assert end["started_at_ns"] == start["started_at_ns"]
    assert end["duration_ns"] >= 0
    for event in tracer.events:
        assert (event["run_id"], event["user"], event["session"], event["agent"]) == ("r", "u", "s", "worker")


def test_a_suspension_is_a_point_in_a_run_that_ends_once(
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:  # DEC-01
    worker = agent(
        turn(("pay", 1), ("pay", 2)), "done", tools=[Act("pay", confirm=True)], checkpoint_store=store, tracer=tracer
    )
    worker.run("pay")
    assert only(tracer, "run_suspend")["status"] == "suspended"
    assert "decision" not in only(tracer, "run_suspend")
    assert of(tracer, "run_end") == []
    worker.resume({"c1": True})
    worker.resume({"c2": True})
    assert len(of(tracer, "run_suspend")) == 2
    assert only(tracer, "run_end")["status"] == "ok"
    assert denials(tracer) == []


def test_everything_recorded_has_a_known_type_and_decision(
    store: SqliteCheckpointStore, tracer: Tracer
) -> None:  # DEC-01
    options: dict[str, Any] = {"tools": [Act("pay", confirm=True)], "checkpoint_store": store, "tracer": tracer}
    worker = agent(turn(("pay", 1), ("nope", 2)), "done", **options)
    worker.run("pay")
    worker.resume(False)
    with pytest.raises(RunLimitExceeded):
        agent(turn(("nope", 1)), max_turns=1, **options).run("hi")
    with pytest.raises(GuardrailTripwireError):
        agent(input_guardrails=[CallableGuardrail(lambda _: False)], **options).run("hi")
    for event in tracer.events:
        assert event["type"] in EVENT_TYPES
        assert event.get("decision", "allowed") in DECISIONS
    # A decision that stopped something names who stopped it and why.
    stopped = [event for event in tracer.events if event.get("decision", "allowed") not in {"allowed", "suspended"}]
    assert len(stopped) == 6
    assert all(event["decided_by"] for event in stopped)
    assert all(event["reason"] for event in stopped if event["type"] != "approval_decision")


@pytest.mark.parametrize(
    ("policy", "kind", "rule"),
    [
        (RunPolicy(max_tool_calls=1), "tool_call", "max_tool_calls"),
        (RunPolicy(max_llm_calls=1), "llm_call", "max_llm_calls"),
        (RunPolicy(max_tokens=10), "llm_call", "max_tokens"),
    ],
)
def test_a_run_stopped_at_a_limit_is_one_denial_and_not_two(  # DEC-01
    tracer: Tracer, policy: RunPolicy, kind: str, rule: str
) -> None:
    reply = turn(("look", 1), ("look", 2)) if kind == "tool_call" else turn(("look", 1))
    reply.usage = {"total_tokens": 10}
    with pytest.raises(RunLimitExceeded):
        agent(reply, "x", tools=[Act("look")], tracer=tracer, run_policy=policy).run("hi")
    if rule == "max_tokens":
        # Reached before the first tool ran: its call is the one that is stopped.
        kind = "tool_call"
    assert [decision for decision, _ in denials(tracer)] == ["limited"]
    stopped = [event for event in of(tracer, kind) if event.get("decision") == "limited"]
    assert [(event["rule"], event["decided_by"]) for event in stopped] == [(rule, "run_policy")]
    assert rule in stopped[0]["reason"]
    end = only(tracer, "run_end")
    assert (end["status"], end["rule"]) == ("limited", rule)
    assert "decision" not in end
    assert of(tracer, "run_error") == []


def test_a_run_out_of_turns_is_one_denial_too(tracer: Tracer) -> None:  # DEC-01
    with pytest.raises(RunLimitExceeded):
        agent(turn(("look", 1)), tools=[Act("look")], tracer=tracer, max_turns=1).run("hi")
    assert [decision for decision, _ in denials(tracer)] == ["limited"]
    (stopped,) = [event for event in of(tracer, "llm_call") if event.get("decision") == "limited"]
    assert (stopped["rule"], stopped["decided_by"], stopped["status"]) == ("max_turns", "agent", "limited")
    assert "raise max_turns" in stopped["reason"]
    assert (only(tracer, "run_end")["status"], only(tracer, "run_end")["rule"]) == ("limited", "max_turns")


def test_a_cancelled_run_is_one_denial(tracer: Tracer) -> None:  # DEC-01
    with pytest.raises(RunCancelled):
        agent("x", tracer=tracer, run_policy=RunPolicy(cancel=lambda: True)).run("hi")
    assert denials(tracer) == [("cancelled", "scripted")]
    assert (only(tracer, "run_end")["status"], only(tracer, "run_end")["rule"]) == ("cancelled", "cancel")


def test_a_failed_run_has_one_error_and_one_end(tracer: Tracer) -> None:  # DEC-01
    with pytest.raises(LLMError):
        agent(LLMError("down"), tracer=tracer).run("hi")
    assert [event["type"] for event in tracer.events] == ["run_start", "llm_call", "run_error", "run_end"]
    assert [event["status"] for event in tracer.events[1:]] == ["error"] * 3
    assert denials(tracer) == []


@pytest.mark.parametrize(
    "arguments",
    ["{", "[1]", "null", "1", '{"n": NaN}', '{"n": 1e999}', '{"n": ' * 300 + "1" + "}" * 300, "[" * 100_000],
)
@pytest.mark.parametrize("durable", [False, True])
def test_malformed_arguments_are_told_to_the_model_and_recorded_once(  # DEC-01
    store: SqliteCheckpointStore, tracer: Tracer, arguments: str, *, durable: bool
) -> None:
    look = Act("look")
    worker = agent(
        tool_call_reply("look", arguments, call_id="c"), "sorry",
        tools=[look], tracer=tracer, checkpoint_store=store if durable else None,
    )  # fmt: skip
    assert worker.run("hi") == "sorry"
    assert look.entered == []
    event = only(tracer, "tool_call")
    assert (event["decision"], event["call_id"], event["decided_by"]) == ("invalid_args", "c", "agent")
    assert "arguments" in event["reason"]
    assert "latency_ms" not in event


@pytest.mark.parametrize("raw", [{}, {"id": "c"}, {"id": None, "function": None}, {"id": "c", "function": "look"}])
def test_a_call_without_a_function_is_told_to_the_model_and_recorded(
    tracer: Tracer, raw: dict[str, Any]
) -> None:  # DEC-01
    reply = tool_call_reply("look", {})
    reply.tool_calls = [raw]
    assert agent(reply, "sorry", tools=[Act("look")], tracer=tracer).run("hi") == "sorry"
    assert denials(tracer) in ([("invalid_args", "")], [("invalid_args", "scripted")], [("invalid_args", None)])


def test_arguments_of_the_wrong_type_are_refused_by_the_registry(tracer: Tracer) -> None:  # DEC-01
    look = Act("look")
    worker = agent(tool_call_reply("look", {"n": "one"}), "sorry", tools=[look], tracer=tracer)
    assert worker.run("hi") == "sorry"
    assert look.entered == []
    event = only(tracer, "tool_call")
    assert (event["decision"], event["decided_by"]) == ("invalid_args", "registry")


@pytest.mark.parametrize("arguments", ["", "{}", None])
def test_a_call_without_arguments_is_a_call(arguments: Any) -> None:
    look = Act("look")
    reply = tool_call_reply("look", {})
    reply.tool_calls[0]["function"]["arguments"] = arguments  # type: ignore[index]  # it has one call
    assert agent(reply, "seen", tools=[look]).run("hi") == "seen"
    assert look.entered == [None]


def test_arguments_given_as_an_object_are_taken_as_they_are() -> None:
    look = Act("look")
    reply = tool_call_reply("look", {})
    reply.tool_calls[0]["function"]["arguments"] = {"n": 7}  # type: ignore[index]  # it has one call
    assert agent(reply, "seen", tools=[look]).run("hi") == "seen"
    assert look.entered == [7]


def test_the_text_of_prompts_and_answers_is_recorded_only_with_content() -> None:  # DEC-15
    class Keeps(TraceExporter):
        accepts_content = True

        def __init__(self) -> None:
            self.events: list[Any] = []

        def export(self, event: Any) -> None:
            self.events.append(event)

    for content in (False, True):
        keeps = Keeps()
        agent("the answer", tracer=Tracer(content=content, exporters=[keeps])).run("the question")
        assert ("the answer" in str(keeps.events)) is content
        assert ("the question" in str(keeps.events)) is content
        assert [event.get("output") for event in of(keeps.events, "run_end")] == ["the answer" if content else None]


def test_a_tracer_with_only_emit_is_enough(store: SqliteCheckpointStore) -> None:  # HAR-07
    class Emits:
        def __init__(self) -> None:
            self.events: list[dict[str, Any]] = []

        def emit(self, event: dict[str, Any]) -> None:
            self.events.append(event)

    emits = Emits()
    worker = agent(turn(("pay", 1)), "paid", tools=[Act("pay", confirm=True)], checkpoint_store=store, tracer=emits)
    worker.run("pay")
    worker.resume(True)
    assert [event["type"] for event in emits.events] == [
        "run_start",
        "llm_call",
        "approval_request",
        "run_suspend",
        "run_start",
        "approval_decision",
        "tool_call",
        "llm_call",
        "run_end",
    ]


def test_an_exporter_that_fails_does_not_stop_an_agent(store: SqliteCheckpointStore) -> None:
    class Broken(TraceExporter):
        def export(self, event: Any) -> None:
            raise OSError("disk full")

    pay = Act("pay", confirm=True)
    worker = agent(turn(("pay", 1)), "paid", tools=[pay], checkpoint_store=store, tracer=Tracer(exporters=[Broken()]))
    worker.run("pay")
    assert worker.resume(True) == "paid"
    assert pay.entered == [1]


def test_a_strict_tracer_that_fails_at_the_start_leaves_no_run_behind() -> None:  # TRC-14
    class Broken(TraceExporter):
        def export(self, event: Any) -> None:
            raise OSError("disk full")

    tracer = Tracer(exporters=[Broken()], strict=True)
    with pytest.raises(OSError, match="disk full"):
        agent("x", tracer=tracer).run("hi")
    assert current_run_id() is None
    assert tracer.run_without_context() is tracer.run_without_context()


def test_calls_stand_below_their_run_in_the_tree(tracer: Tracer) -> None:
    agent(turn(("look", 1)), "seen", tools=[Act("look")], tracer=tracer).run("hi")
    root = only(tracer, "run_end")["span_id"]
    assert {event["parent_span_id"] for event in of(tracer, "tool_call", "llm_call")} == {root}
    assert len({event["span_id"] for event in of(tracer, "tool_call", "llm_call")}) == 3


def test_a_resumed_run_ends_as_wide_as_the_whole_run_was(store: SqliteCheckpointStore, tracer: Tracer) -> None:
    # EXEC-06: a waterfall draws one bar from the first start to the end, the time of the person included
    worker = agent(turn(("pay", 1)), "done", tools=[Act("pay", confirm=True)], checkpoint_store=store, tracer=tracer)
    worker.run("pay")
    worker.resume(True)
    first, again = of(tracer, "run_start")
    end = only(tracer, "run_end")
    assert end["span_id"] == first["span_id"]
    assert end["started_at_ns"] <= first["started_at_ns"] < again["started_at_ns"]
    assert end["started_at_ns"] + end["duration_ns"] >= again["started_at_ns"]
    assert end["latency_ms"] == end["duration_ns"] // 1_000_000


def test_a_begin_that_is_no_time_does_not_cost_the_run_its_end(store: SqliteCheckpointStore, tracer: Tracer) -> None:
    worker = agent(turn(("pay", 1)), "done", tools=[Act("pay", confirm=True)], checkpoint_store=store, tracer=tracer)
    worker.run("pay")
    tamper(store, lambda state: state["meta"].update(began_at_ns="yesterday"))
    assert worker.resume(True) == "done"
    assert only(tracer, "run_end")["status"] == "ok"
