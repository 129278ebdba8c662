"""Reading chat completions that are not quite as documented, or hostile."""

from __future__ import annotations

import itertools
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import LLMError
from tracehold.llm import LLMResponse
from tracehold.llm.failures import Failures
from tracehold.llm.openai_wire import ChunkAssembler, read_completion, read_usage

FAILURES = Failures(openai, "openai", "small")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
CALL = st.fixed_dictionaries(
    {},
    optional={
        "index": JSON,
        "id": JSON,
        "type": JSON,
        "function": JSON | st.fixed_dictionaries({"name": JSON, "arguments": JSON}),
    },
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON,
        "refusal": JSON,
        "reasoning_content": JSON,
        "tool_calls": JSON | st.lists(CALL, max_size=3),
    },
)
USAGE = JSON | st.fixed_dictionaries(
    {}, optional={"prompt_tokens": JSON, "completion_tokens": JSON, "total_tokens": JSON, "prompt_tokens_details": JSON}
)


def answers(inner: str) -> st.SearchStrategy[dict[str, Any]]:
    choice = st.fixed_dictionaries({inner: MESSAGE | JSON}, optional={"finish_reason": JSON})
    return st.fixed_dictionaries(
        {}, optional={"choices": JSON | st.lists(choice, max_size=2), "model": JSON, "usage": USAGE, "error": JSON}
    )


def assert_credible(response: LLMResponse) -> None:
    assert isinstance(response.content, str)
    assert isinstance(response.model, str)
    assert all(type(number) is int and number >= 0 for number in (response.usage or {}).values())
    for call in response.tool_calls or ():
        assert call["id"]
        assert call["function"]["name"]
        assert isinstance(call["function"]["arguments"], str)


@given(answers("message"))
def test_any_answer_becomes_a_response_of_the_right_types_or_our_error(answer: dict[str, Any]) -> None:  # LLM-04
    try:
        response = read_completion(answer, FAILURES)
    except LLMError:
        return
    assert_credible(response)


@given(st.lists(answers("delta"), max_size=4))
def test_any_chunks_become_a_response_of_the_right_types(chunks: list[dict[str, Any]]) -> None:  # LLM-02, LLM-04
    assembler = ChunkAssembler()
    pieces = [assembler.feed(chunk) for chunk in chunks]
    response = assembler.response()
    assert_credible(response)
    assert response.content == "".join(pieces)


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_arguments_cut_anywhere_come_out_as_they_were(arguments: str, cuts: list[int]) -> None:  # LLM-02
    edges = [0, *sorted(cut for cut in cuts if cut < len(arguments)), len(arguments)]
    assembler = ChunkAssembler()
    assembler.feed(delta({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}))
    for start, end in itertools.pairwise(edges):
        assembler.feed(delta({"index": 0, "function": {"arguments": arguments[start:end]}}))
    (call,) = assembler.response().tool_calls or ()
    assert call["function"]["arguments"] == (arguments or "{}")


def delta(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"delta": {"tool_calls": list(calls)}}]}


@pytest.mark.parametrize("index", [{"index": 0}, {}])
def test_whole_calls_without_a_proper_index_stay_apart(index: dict[str, int]) -> None:
    assembler = ChunkAssembler()
    for call_id in ("a", "b"):
        assembler.feed(delta({**index, "id": call_id, "function": {"name": f"f_{call_id}", "arguments": "{}"}}))
    calls = assembler.response().tool_calls or []
    assert [(call["id"], call["function"]["name"]) for call in calls] == [("a", "f_a"), ("b", "f_b")]


def test_pieces_without_index_or_id_belong_to_the_last_call() -> None:
    assembler = ChunkAssembler()
    assembler.feed(delta({"id": "a", "function": {"name": "f", "arguments": '{"x"'}}))
    assembler.feed(delta({"function": {"arguments": ":1}"}}))
    (call,) = assembler.response().tool_calls or ()
    assert call["function"] == {"name": "f", "arguments": '{"x":1}'}


def test_a_call_without_an_id_gets_one_of_its_own() -> None:
    call = {"function": {"name": "f", "arguments": {"x": 1}}}
    response = read_completion({"choices": [{"message": {"tool_calls": [call, call]}}]}, FAILURES)
    first, second = response.tool_calls or ()
    assert first["id"] != second["id"]
    assert first["function"]["arguments"] == '{"x": 1}'


def test_parts_of_a_content_list_are_joined() -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read_completion({"choices": [{"message": {"content": parts}}]}, FAILURES).content == "ab"


def test_a_stream_that_ends_with_its_counts_is_complete_without_a_finish_reason() -> None:
    assembler = ChunkAssembler()
    assembler.feed({"choices": [{"delta": {"content": "a"}}]})
    assert not assembler.finished()
    assembler.feed({"choices": None, "usage": {"total_tokens": 3}})
    assert assembler.finished()


@pytest.mark.parametrize("value", [-1, True, 1.5, "7", None, float("nan")])
def test_a_count_that_is_not_credible_is_unknown(value: object) -> None:  # LLM-05, DEC-13
    assert read_usage({"prompt_tokens": value, "completion_tokens": 2}) == {"completion_tokens": 2}


def test_a_total_follows_from_its_parts() -> None:  # LLM-05
    assert (read_usage({"prompt_tokens": 1, "completion_tokens": 2}) or {})["total_tokens"] == 3
    assert read_usage({}) is None
