from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.privacy.views import decoded_views, plain_view


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("a%40b", "a@b"),
        ("a\\u0040b", "a@b"),
        ("a&#64;b", "a@b"),
        ("a&#x40;b", "a@b"),
        ("a\\x40b", "a@b"),
    ],
)
def test_an_escape_is_undone(text, reading):  # FR-39
    assert [view.text for view in decoded_views(text)] == [reading]


def test_escapes_of_escapes_give_a_reading_each():  # FR-39
    assert [view.text for view in decoded_views("a%2540b")] == ["a%40b", "a@b"]


def test_control_characters_stay_escaped():
    assert list(decoded_views("a%0Ab")) == []


def test_a_reading_leads_back_to_the_text():
    text = "x%2540y%40z"
    *_, view = decoded_views(text)
    start = view.text.index("y")
    assert text[view.original(start) : view.original(start + 1)] == "y"
    assert text[view.original(1) : view.original(2)] == "%2540"


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("\uff11\uff12", "12"),
        ("\u0664", "4"),
        ("a\u00a0b", "a b"),
        ("B\u0435arer", "Bearer"),
        ("a\u200b\u00adb", "ab"),
        ("\u2013", "-"),
        ("é", "é"),
    ],
)
def test_look_alike_characters_are_folded_and_invisible_ones_left_out(text, reading):
    assert plain_view(text).text == reading


@given(st.text(alphabet="ab@%4025\u200bé\\u0", max_size=60))
def test_every_position_of_a_reading_leads_back_into_the_text_in_order(text):
    for view in (plain_view(text), *decoded_views(text)):
        positions = [view.original(at) for at in range(len(view.text) + 1)]
        assert positions == sorted(positions)
        assert all(0 <= position <= len(text) for position in positions)
