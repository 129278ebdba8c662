"""The estimate of tokens, of texts and of messages (CTX-19)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.context import count_content_tokens, count_message_tokens, count_messages_tokens
from tracehold.context.message_tokens import MEDIA_TOKENS
from tracehold.core.tokens import count_tokens


# CTX-19
@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("漢字", 2), ("かな", 2), ("カナ", 2), ("한글", 2), ("漢a", 2)],
)
def test_dense_scripts_count_one_a_character_and_others_a_quarter_rounded_up(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


# CTX-19
@given(st.text(), st.text())
def test_a_longer_text_never_counts_less(text: str, more: str) -> None:
    assert count_tokens(text) <= count_tokens(text + more) <= count_tokens(text) + count_tokens(more)


# CTX-19
def test_a_lone_surrogate_is_a_character_like_others() -> None:
    assert count_tokens("\ud800") == 1


def test_arguments_of_tool_calls_are_part_of_a_message() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "x" * 400}}
    message = {"role": "assistant", "content": None, "tool_calls": [call, call]}
    assert count_message_tokens(message, count_tokens) == 2 * (1 + 100)


def test_text_parts_count_as_text_and_pictures_as_a_fixed_estimate() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    assert count_content_tokens([{"type": "text", "text": "x" * 40}, picture], count_tokens) == 10 + MEDIA_TOKENS


def test_content_nested_in_a_part_counts_and_a_picture_in_it_too() -> None:
    part = {"type": "tool_result", "content": [{"type": "text", "text": "x" * 40}, {"type": "image", "source": {}}]}
    assert count_content_tokens([part], count_tokens) == 10 + MEDIA_TOKENS


def test_whatever_else_a_message_carries_counts_but_its_role_and_ids_do_not() -> None:
    bare = {"role": "tool", "tool_call_id": "x" * 400, "content": "done"}
    assert count_message_tokens(bare, count_tokens) == 1
    assert count_message_tokens(bare | {"reasoning_content": "y" * 400}, count_tokens) == 101


@pytest.mark.parametrize("content", [None, "", [], [None], [{}], {"a": 1}, 7, [["deep"]], [{"type": "text"}]])
def test_odd_content_is_counted_and_never_fails(content: object) -> None:
    assert count_messages_tokens([{"role": "user", "content": content}], count_tokens) >= 0


def test_deep_nesting_is_counted_without_a_recursion_error() -> None:
    content: list[object] = []
    for _ in range(100_000):
        content = [content]
    assert count_content_tokens(content, count_tokens) > 0
