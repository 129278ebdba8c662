"""How one window is shared out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.context import WindowBudget, WindowBudgetConfig
from tracehold.testing.scripted import ScriptedLLM


# CTX-13
def test_the_defaults_are_the_documented_ones() -> None:
    assert WindowBudgetConfig() == WindowBudgetConfig(
        desired_output_tokens=4096, max_output_fraction=0.5, rag_ratio=0.35
    )


# CTX-13
@pytest.mark.parametrize(
    ("window", "model_max_output", "reserve"),
    [(100_000, None, 4096), (100_000, 2000, 2000), (100_000, 50_000, 4096), (1000, None, 500), (1000, 100, 100)],
)
def test_the_output_reserve_is_the_smallest_of_the_three(window, model_max_output, reserve) -> None:
    assert WindowBudgetConfig().output_reserve(window=window, model_max_output=model_max_output) == reserve


# CTX-13
@pytest.mark.parametrize(
    "options",
    [
        {"desired_output_tokens": 0},
        {"desired_output_tokens": True},
        {"max_output_fraction": 0},
        {"max_output_fraction": 1.1},
        {"max_output_fraction": float("nan")},
        {"rag_ratio": -0.1},
        {"rag_ratio": 1.1},
        {"rag_ratio": "half"},
    ],
)
def test_a_share_that_cannot_be_meant_is_refused_by_name(options: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        WindowBudgetConfig(**options)


# CTX-14
def test_what_is_left_is_shared_between_retrieval_and_trajectory() -> None:
    budget = WindowBudget(window=10_000, output_reserve=2000, system_tokens=500, tool_tokens=300, rag_ratio=0.25)
    assert budget.fixed == 2800
    assert budget.spendable == 7200
    assert budget.rag_budget == 1800
    assert budget.trajectory_budget(rag_in_scope=False) == 5400
    assert budget.trajectory_budget(rag_in_scope=True) == 7700  # HAR-79: system prompt and block are among the messages


# CTX-14
def test_nothing_is_left_rather_than_less_than_nothing() -> None:
    budget = WindowBudget(window=1000, output_reserve=500, system_tokens=900, tool_tokens=600, rag_ratio=0.5)
    assert budget.spendable == budget.rag_budget == 0
    assert budget.trajectory_budget(rag_in_scope=False) == budget.trajectory_budget(rag_in_scope=True) == 0


# CTX-14
@given(st.integers(1, 2_000_000), st.integers(0, 9999), st.integers(0, 9999), st.floats(0, 1), st.floats(0.01, 1))
def test_shares_never_add_up_to_more_than_the_window(window, system, tools, ratio, fraction) -> None:
    budget = WindowBudget.for_run(
        llm=ScriptedLLM(context_window=window),
        cfg=WindowBudgetConfig(max_output_fraction=fraction),
        system_tokens=system,
        tool_tokens=tools,
        rag_ratio=ratio,
    )
    assert budget is not None
    beside = budget.trajectory_budget(rag_in_scope=False)
    assert min(beside, budget.rag_budget, budget.output_reserve, budget.trajectory_budget(rag_in_scope=True)) >= 0
    assert beside + budget.rag_budget == budget.spendable
    assert budget.fixed + budget.spendable == max(window, budget.fixed)


# CTX-14
def test_without_sources_the_ratio_of_zero_gives_the_trajectory_everything() -> None:
    llm = ScriptedLLM(context_window=10_000)
    budget = WindowBudget.for_run(llm=llm, rag_ratio=0.0)
    assert budget is not None
    assert budget.rag_budget == 0
    assert budget.trajectory_budget(rag_in_scope=False) == budget.spendable
    configured = WindowBudget.for_run(llm=llm)
    assert configured is not None
    assert configured.rag_budget == 2066  # 35 % of 10,000 less 4,096


# CTX-13
def test_the_models_own_cap_bounds_the_reserve() -> None:
    budget = WindowBudget.for_run(llm=ScriptedLLM(context_window=10_000, max_output_tokens=1000))
    assert budget is not None
    assert budget.output_reserve == 1000


# HAR-76
@pytest.mark.parametrize("window", [None, 0, -1, "8k", True, 8000.0])
def test_an_unknown_window_gives_no_budget(window: object) -> None:
    assert WindowBudget.for_run(llm=SimpleNamespace(context_window=window)) is None
    assert WindowBudget.for_run(llm=object()) is None


# CTX-14
def test_a_ratio_given_for_the_run_is_checked_too() -> None:
    with pytest.raises(ValueError, match="rag_ratio"):
        WindowBudget.for_run(llm=ScriptedLLM(context_window=1000), rag_ratio=2)
