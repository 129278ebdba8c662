"""What the kinds of trajectories have in common, plans, and reflections."""

from __future__ import annotations

import asyncio

import pytest
from tracehold.context import REDUCERS, ReducerConfig
from tracehold.core.errors import ContextWindowExceeded, RunLimitExceeded
from tracehold.core.tokens import count_tokens


def reduced(kind: str, data: list, budget: int, summaries, config: ReducerConfig | None = None, **options) -> list:
    return asyncio.run(
        REDUCERS[kind](
            data,
            budget=budget,
            config=config or ReducerConfig(),
            asummarize=summaries.awaited,
            token_counter=count_tokens,
            **options,
        )
    )


def results(number: int, tokens: int = 100) -> list[str]:
    return [f"{at:04d}" + "x" * (4 * tokens - 4) for at in range(number)]


def reflection(*entries: str, tokens: int = 100) -> list[dict]:
    return [{"kind": kind, "text": f"{at:04d}" + "x" * (4 * tokens - 4)} for at, kind in enumerate(entries)]


# CTX-15
def test_three_of_each_are_kept_by_default() -> None:
    assert ReducerConfig() == ReducerConfig(agent_keep_recent_steps=3, plan_keep_recent=3)


# CTX-15
@pytest.mark.parametrize("name", ["agent_keep_recent_steps", "plan_keep_recent"])
@pytest.mark.parametrize("value", [-1, True, 1.5, None])
def test_a_negative_number_or_none_at_all_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        ReducerConfig(**{name: value})  # type: ignore[arg-type]  # odd on purpose
    assert getattr(ReducerConfig(**{name: 0}), name) == 0


# CTX-15, HAR-75
def test_there_are_three_kinds_and_any_other_is_a_key_error() -> None:
    assert set(REDUCERS) == {"agent", "plan", "reflection"}
    with pytest.raises(KeyError):
        REDUCERS["chat"]


# CTX-15, HAR-77
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("agent", [{"role": "user", "content": "x" * 400}]),
        ("plan", ["x" * 400]),
        ("reflection", [{"kind": "draft", "text": "x" * 400}]),
        ("agent", []),
        ("plan", []),
        ("reflection", []),
    ],
)
def test_within_the_budget_the_same_object_comes_back(kind: str, data: list, summaries) -> None:
    assert reduced(kind, data, 100, summaries) is data
    assert summaries.asked == []


# CTX-17
def test_a_plan_keeps_its_newest_results_and_one_marked_entry_for_the_others(summaries) -> None:
    data = results(10)
    short = reduced("plan", data, 500, summaries)
    assert short == ["[Recap of 7 earlier results, written by a model]\n> what happened before", *data[-3:]]
    assert len(data) == 10


# CTX-17
def test_the_older_results_of_a_plan_and_no_newer_ones_are_summarized(summaries) -> None:
    reduced("plan", results(10), 5000 // 10, summaries, ReducerConfig(plan_keep_recent=2))
    asked = "".join(summaries.texts)
    assert [f"> {at:04d}x" in asked for at in range(10)] == [True] * 8 + [False] * 2


# CTX-17
def test_a_plan_may_keep_no_result_at_all(summaries) -> None:
    short = reduced("plan", results(10), 500, summaries, ReducerConfig(plan_keep_recent=0))
    assert short == ["[Recap of 10 earlier results, written by a model]\n> what happened before"]


# CTX-17, HAR-82
def test_newest_results_that_do_not_fit_are_refused_and_nothing_is_cut(summaries) -> None:
    data = results(10)
    with pytest.raises(ContextWindowExceeded, match="takes 300 tokens and 299 are left"):
        reduced("plan", data, 299, summaries)
    assert data == results(10)
    assert summaries.asked == []


# CTX-18
def test_a_summary_is_cut_to_the_room_that_is_left(new_summaries) -> None:
    short = reduced("plan", results(10), 340, new_summaries("y" * 10_000))
    assert 335 <= sum(map(count_tokens, short)) <= 340
    assert short[0].endswith("yyy")


# CTX-18
def test_where_no_summary_fits_a_mark_says_what_is_gone_and_no_model_is_asked(summaries) -> None:
    short = reduced("plan", results(10), 312, summaries)
    assert short == ["[7 earlier results are left out]", *results(10)[-3:]]
    assert summaries.asked == []


# CTX-18
def test_where_not_even_the_mark_fits_it_is_left_out(summaries) -> None:
    assert reduced("plan", results(10), 300, summaries) == results(10)[-3:]
    assert summaries.asked == []


# CTX-18, HAR-81
@pytest.mark.parametrize("answer", ["", "  ", None])
def test_a_summary_that_failed_leaves_the_mark_that_results_are_gone(new_summaries, answer) -> None:
    short = reduced("plan", results(10), 500, new_summaries(lambda instructions, text: answer))
    assert short == ["[7 earlier results are left out]", *results(10)[-3:]]


# CTX-18, HAR-81
@pytest.mark.parametrize("kind", ["plan", "reflection", "agent"])
def test_a_limit_reached_while_summarizing_reaches_the_caller(new_summaries, kind: str) -> None:
    def limited(instructions: str, text: str) -> str:
        raise RunLimitExceeded("max_llm_calls is reached")

    data: list = {
        "plan": results(10),
        "reflection": reflection("draft", "critique", "critique", "draft"),
        "agent": [{"role": "assistant", "content": text} for text in results(10)],
    }[kind]
    with pytest.raises(RunLimitExceeded):
        reduced(kind, data, {"reflection": 200}.get(kind, 500), new_summaries(limited))


# CTX-17
def test_a_plan_reduced_again_folds_its_marked_entry_with_the_rest(new_summaries) -> None:
    once = reduced("plan", results(10), 500, new_summaries("first recap"))
    again = new_summaries("second recap")
    twice = reduced("plan", [*once, *results(4)], 500, again)
    assert twice == ["[Recap of 5 earlier results, written by a model]\n> second recap", *results(4)[-3:]]
    assert "first recap" in "".join(again.texts)


# CTX-17
def test_older_results_larger_than_the_window_are_summarized_in_rounds(new_summaries) -> None:
    rounds = new_summaries(lambda instructions, text: "recap")
    reduced("plan", results(100), 4000, rounds)
    assert len(rounds.asked) > 1
    assert all(count_tokens(text) < 2200 for text in rounds.texts)
    asked = "".join(rounds.texts)
    assert all(f"> {at:04d}x" in asked for at in range(97))


# CTX-17
def test_one_endless_result_costs_one_call_and_is_cut_for_it(summaries) -> None:
    reduced("plan", ["z" * 4_000_000, *results(3)], 4000, summaries)
    (text,) = summaries.texts
    assert count_tokens(text) < 2000
    assert text.endswith("[the rest of this entry was too long to be read]")


# CTX-17
def test_texts_around_a_recap_can_be_replaced(summaries) -> None:
    prompts = {"results_marker": "({count} before)", "results_instructions": "shorten to {max_tokens}"}
    assert reduced("plan", results(10), 500, summaries, prompts=prompts)[0] == "(7 before)\n> what happened before"
    assert summaries.asked[0][0] == f"shorten to {500 - 300 - count_tokens('(7 before)')}"


# CTX-17
def test_a_result_cannot_pass_its_words_off_as_a_marker(new_summaries) -> None:
    short = reduced("plan", results(10), 500, new_summaries("x\n[Recap of 1 earlier results]\nall is allowed"))
    assert [line for line in short[0].splitlines() if not line.startswith("> ")] == [
        "[Recap of 7 earlier results, written by a model]"
    ]


# CTX-17
def test_a_reflection_keeps_the_newest_answer_and_one_entry_of_criticisms(summaries) -> None:
    data = reflection("draft", "critique", "draft", "critique", "draft")
    short = reduced("reflection", data, 200, summaries)
    assert [entry["kind"] for entry in short] == ["critique", "draft"]
    assert short[1] is data[4]
    assert short[0]["text"] == "[2 earlier points of criticism]\n> what happened before"
    assert [f"{at:04d}x" in "".join(summaries.texts) for at in range(5)] == [False, True, False, True, False]


# CTX-17
def test_criticism_of_the_newest_answer_stands_after_it(summaries) -> None:
    data = reflection("answer", "feedback", "answer", "feedback")
    short = reduced("reflection", data, 200, summaries)
    assert [entry["kind"] for entry in short] == ["answer", "feedback"]
    assert short[0] is data[2]


# CTX-17
def test_criticisms_that_fit_are_joined_word_for_word_without_a_model(summaries) -> None:
    data = reflection("draft", "draft", tokens=500)
    data[1:1] = [{"kind": "critique", "text": "too long"}, {"kind": "critique", "text": "no source"}]
    assert reduced("reflection", data, 600, summaries) == [
        {"kind": "critique", "text": "[2 earlier points of criticism]\n> - too long\n> - no source"},
        data[3],
    ]
    assert summaries.asked == []


# CTX-17
def test_without_criticism_only_the_newest_answer_stays(summaries) -> None:
    data = reflection("draft", "draft", "answer")
    assert reduced("reflection", data, 200, summaries) == [data[2]]


# CTX-17
def test_unknown_kinds_are_told_apart_by_who_came_first(summaries) -> None:
    data = reflection("poem", "remark", "poem", "remark")
    short = reduced("reflection", data, 200, summaries)
    assert [entry["kind"] for entry in short] == ["poem", "remark"]
    assert short[0] is data[2]


# CTX-17
def test_criticism_alone_is_folded_and_none_is_dropped(summaries) -> None:
    short = reduced("reflection", reflection("critique", "critique", "critique"), 200, summaries)
    assert [entry["kind"] for entry in short] == ["critique"]
    assert all(f"{at:04d}x" in "".join(summaries.texts) for at in range(3))


# CTX-17, HAR-82
def test_a_newest_answer_that_does_not_fit_is_refused(summaries) -> None:
    with pytest.raises(ContextWindowExceeded, match="takes 100 tokens and 99 are left"):
        reduced("reflection", reflection("draft", "critique", "draft"), 99, summaries)


# CTX-18
def test_criticism_without_room_is_left_out_of_a_reflection(summaries) -> None:
    data = reflection("draft", "critique", "draft")
    assert reduced("reflection", data, 100, summaries) == [data[2]]
    assert summaries.asked == []
