"""`areduce`: a trajectory that outgrows its share of the window is shortened, never cut silently."""

from __future__ import annotations

from typing import Any

import pytest
from harness_parts import HookLog, Model, Probe, in_run, of, only, registry, run
from tracehold import Tracer
from tracehold.context import ReducerConfig, WindowBudgetConfig
from tracehold.core.errors import ContextWindowExceeded, RunCancelled, RunLimitExceeded
from tracehold.execution import RunPolicy
from tracehold.harness import Harness

BUDGET = WindowBudgetConfig(desired_output_tokens=1000, max_output_fraction=0.5, rag_ratio=0.35)
WINDOW = 4000
"""Counted in characters here: 1000 stay for the reply, 3000 for the trajectory."""

PLAN = [f"step {n}: " + "p" * 500 for n in range(8)]
REFLECTION = [{"kind": kind, "text": f"{kind} {n}: " + "r" * 500} for n in range(4) for kind in ("draft", "critique")]


def turn(n: int, size: int = 400) -> list[dict[str, Any]]:
    """A tool call with its result."""
    call = {"id": f"c{n}", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": f"calling {n}", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{n}", "content": f"result {n} " + "x" * size},
    ]


AGENT = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "do it"},
    *(message for n in range(8) for message in turn(n)),
]
DATA: dict[str, Any] = {"agent": AGENT, "plan": PLAN, "reflection": REFLECTION}
KEYWORDS: dict[str, Any] = {"agent": {"turn_start": 2}, "plan": {}, "reflection": {}}


def reducing(model: Model | None = None, **options: Any) -> Harness:
    model = model or Model(*["short"] * 20)
    if not hasattr(model, "context_window"):
        model.context_window = WINDOW
    return Harness(model, **({"window_budget": BUDGET, "token_counter": len} | options))


def reduce(harness: Harness, kind: str, data: Any = None, **options: Any) -> Any:
    data = DATA[kind] if data is None else data
    return run(harness.areduce(kind, data, **(KEYWORDS[kind] | options)))


def size(kind: str, data: Any) -> int:
    if kind == "plan":
        return sum(len(text) for text in data)
    return sum(len(item["text"] if kind == "reflection" else item["content"] or "") for item in data)


@pytest.mark.parametrize("kind", DATA)
def test_each_kind_keeps_its_shape(kind: str) -> None:  # HAR-75, HAR-78
    shortened = reduce(reducing(), kind)
    assert isinstance(shortened, list)
    assert shortened
    if kind == "plan":
        assert all(type(item) is str for item in shortened)
    elif kind == "reflection":
        assert all(set(item) >= {"kind", "text"} for item in shortened)
    else:
        assert all(item["role"] in {"system", "user", "assistant", "tool"} for item in shortened)


def test_another_kind_is_a_key_error() -> None:  # HAR-75
    with pytest.raises(KeyError):
        run(reducing().areduce("novel", PLAN))


@pytest.mark.parametrize("kind", DATA)
def test_with_an_unknown_window_the_same_object_comes_back(kind: str, tracer: Tracer) -> None:  # HAR-76
    harness = Harness(Model(context_window=None), tracer=tracer, token_counter=len)
    assert reduce(harness, kind) is DATA[kind]
    assert reduce(Harness(Model(), token_counter=len), kind) is DATA[kind]
    assert tracer.events == []


@pytest.mark.parametrize("kind", DATA)
def test_within_budget_the_same_object_comes_back(kind: str, tracer: Tracer) -> None:  # HAR-77
    model = Model(context_window=1_000_000)
    assert reduce(reducing(model, tracer=tracer), kind) is DATA[kind]
    assert model.chats == []
    assert tracer.events == []


@pytest.mark.parametrize("kind", DATA)
def test_over_budget_it_is_shorter_and_one_event(kind: str, tracer: Tracer) -> None:  # HAR-78, CTX-18
    before = [dict(item) if isinstance(item, dict) else item for item in DATA[kind]]
    shortened = reduce(reducing(tracer=tracer), kind)
    assert shortened is not DATA[kind]
    assert size(kind, shortened) < size(kind, before)
    assert size(kind, shortened) <= WINDOW - 1000
    event = only(tracer, "context_reduce")
    assert event["paradigm"] == kind
    assert event["before"] > event["after"]
    assert before == DATA[kind]  # the caller's own list is as it was


def test_the_newest_results_of_a_plan_stay_verbatim() -> None:  # HAR-78, CTX-17
    shortened = reduce(reducing(reducer=ReducerConfig(plan_keep_recent=2)), "plan")
    assert shortened[-2:] == PLAN[-2:]
    assert PLAN[0] not in shortened


def test_calls_and_their_results_are_never_parted() -> None:  # HAR-78, CTX-16
    shortened = reduce(reducing(reducer=ReducerConfig(agent_keep_recent_steps=2)), "agent")
    asked = {call["id"] for message in shortened for call in message.get("tool_calls") or ()}
    answered = {message["tool_call_id"] for message in shortened if message["role"] == "tool"}
    assert asked == answered
    assert {"c6", "c7"} <= asked
    assert shortened[-4:] == AGENT[-4:]


def test_the_reduction_is_the_configured_one() -> None:  # HAR-09, CTX-15
    lengths = [len(reduce(reducing(reducer=ReducerConfig(agent_keep_recent_steps=steps)), "agent")) for steps in (1, 3)]
    assert lengths[0] < lengths[1]


class Block:
    async def abuild_block(self, query: str, **_: Any) -> str:
        return ""

    build_block = abuild_block


def test_retrieval_takes_its_share_of_a_plan_but_stands_inside_an_agents() -> None:  # HAR-79, CTX-14
    plan = ["p" * 800, "p" * 800, "p" * 800, "p" * 100]  # 2500: within 3000, beyond 3000 less a third
    agent = [{"role": "user", "content": text} for text in plan]
    config = {"reducer": ReducerConfig(plan_keep_recent=1, agent_keep_recent_steps=1)}
    with_sources = reducing(context_builder=Block(), sources=[object()], **config)
    assert reduce(reducing(**config), "plan", plan) is plan
    assert reduce(with_sources, "plan", plan) is not plan
    assert reduce(with_sources, "agent", agent, turn_start=0) is agent


def test_the_turns_start_reaches_the_reducer() -> None:  # HAR-80, CTX-16
    early = [{"role": "user", "content": "earlier talk"}, {"role": "assistant", "content": "yes"}]
    messages = [AGENT[0], *early, AGENT[1], *AGENT[2:]]
    shortened = reduce(reducing(), "agent", messages, turn_start=4)
    assert shortened[:4] == messages[:4]
    assert len(shortened) < len(messages)


@pytest.mark.parametrize("kind", DATA)
def test_the_summary_is_a_governed_call(kind: str, tracer: Tracer) -> None:  # HAR-81, HAR-64
    model, hook = Model(*["short"] * 20), HookLog()
    reduce(reducing(model, tracer=tracer, hooks=[hook]), kind)
    assert len(of(tracer, "llm_call")) == len(model.chats)
    assert hook.names() == ["before_model", "after_model"] * len(model.chats)


def test_an_agents_summary_is_in_the_result() -> None:  # HAR-81
    shortened = reduce(reducing(Model(*["the gist of it"] * 9)), "agent")
    assert any("the gist of it" in (message["content"] or "") for message in shortened)


def test_limits_and_cancels_go_through_the_summary(tracer: Tracer) -> None:  # HAR-81, HAR-65
    async def stopped(policy: RunPolicy, error: Any) -> None:
        harness = reducing(Model(), tracer=tracer)
        with in_run(policy):
            if policy.max_llm_calls:
                await harness.acall_llm([])
            with pytest.raises(error):
                await harness.areduce("agent", AGENT, turn_start=2)

    run(stopped(RunPolicy(max_llm_calls=1), RunLimitExceeded))
    run(stopped(RunPolicy(cancel=lambda: True), RunCancelled))
    assert of(tracer, "summarize_failed") == []


@pytest.mark.parametrize("kind", ["agent", "plan"])
def test_a_failed_summary_still_gives_a_result_that_fits(kind: str, tracer: Tracer) -> None:  # HAR-81, HAR-65
    model = Model(*[LookupError("down") for _ in range(20)])
    shortened = reduce(reducing(model, tracer=tracer), kind)
    assert size(kind, shortened) <= WINDOW - 1000
    assert len(of(tracer, "summarize_failed")) == len(model.chats) > 0


def test_what_must_stay_and_does_not_fit_is_an_error(tracer: Tracer) -> None:  # HAR-82
    messages = [{"role": "system", "content": "s" * 5000}, {"role": "user", "content": "go"}, *turn(1), *turn(2)]
    before = [dict(message) for message in messages]
    with pytest.raises(ContextWindowExceeded):
        reduce(reducing(tracer=tracer), "agent", messages, turn_start=2)
    assert messages == before
    assert of(tracer, "context_reduce") == []


def test_counting_the_tools_does_not_change_what_a_call_is_checked_by() -> None:  # REG-10, HAR-79
    class Growing(Probe):
        reads = 0

        def get_input_schema(self) -> dict[str, Any]:
            self.reads += 1
            return {
                "type": "object",
                "properties": {f"v{self.reads}": {"type": "string"}},
                "required": [f"v{self.reads}"],
            }

    tool = Growing()
    harness = Harness(Model(context_window=50_000), tool_registry=registry(tool))
    run(harness.atools_for("q"))
    run(harness.areduce("agent", [{"role": "user", "content": "hi"}], turn_start=0))
    assert run(harness.aexec_tool("probe", {"v1": "as offered"})).status == "success"
    assert tool.reads == 1
