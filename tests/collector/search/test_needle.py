"""A text is found where it stands, whatever stands around it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.jsontext import dumps
from tracehold_collector.search.needle import Needle, Place

ODD = 'aA\xdf\u0130\u017f"\\\n\x00\u03a3\u03c2\u212a'
TEXTS = st.text(alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from(ODD)), max_size=12)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())
CONTENTS = st.dictionaries(
    TEXTS,
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
    ),
    max_size=5,
)


def places(text: str, content: Any) -> list[Place]:
    return list(Needle(text).places(content))


def values(content: Any) -> list[str]:
    """Every text in a content, written the plain way."""
    if isinstance(content, str):
        return [content]
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return [text for value in inner for text in values(value)]


def test_a_place_is_told_by_its_path_and_what_stands_around_it() -> None:
    content = {"messages": [{}, {"role": "user", "content": "Where is ORDER 4711, please?"}]}
    (found,) = places("order 4711", content)
    assert found.path == "messages[1].content"
    assert found.excerpt[found.start : found.start + found.length] == "ORDER 4711"


@pytest.mark.parametrize(
    ("text", "value"), [("STRASSE", "Straße"), ("ß", "ss"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("kelvin", "\u212aelvin")]
)
def test_case_is_folded_as_unicode_does(text: str, value: str) -> None:
    (found,) = places(text, {"x": f"a {value} b"})
    assert found.excerpt[found.start : found.start + found.length] == value


def test_a_field_whose_name_is_no_word_is_quoted_in_the_path() -> None:
    assert [found.path for found in places("x", {"gen_ai.prompt": "x", "a": {"b c": ["x"]}})] == [
        '["gen_ai.prompt"]',
        'a["b c"][0]',
    ]


def test_the_names_of_fields_are_not_looked_at() -> None:
    assert places("prompt", {"prompt": "hello", "inner": {"prompt": 1}}) == []


@pytest.mark.parametrize(("text", "value"), [("4711", 4711), ("4711", 84711.5), ("-3", -3), ("1e", 1e300)])
def test_a_number_is_found_by_its_digits(text: str, value: float) -> None:
    (found,) = places(text, {"order": value})
    assert found.path == "order"
    assert Needle(text).may_be_in(dumps([{"order": value}]))


def test_a_long_value_is_cut_around_the_place() -> None:
    (found,) = places("here", {"x": "a" * 10_000 + "HERE" + "b" * 10_000})
    assert len(found.excerpt) < 200
    assert found.excerpt[found.start : found.start + found.length] == "HERE"
    assert (found.excerpt[0], found.excerpt[-1]) == ("…", "…")


def test_depth_is_no_matter() -> None:  # FR-21
    content: Any = "deep"
    for _ in range(100_000):
        content = [content]
    (found,) = places("deep", {"x": content})
    assert len(found.path) < 400


@given(CONTENTS, st.data())
def test_whatever_a_value_holds_is_found_in_it(content: dict[str, Any], data: st.DataObject) -> None:
    texts = [text for text in values(content) if text]
    if not texts:
        return
    text = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(text) - 1))
    part = text[start : data.draw(st.integers(start + 1, len(text)))]
    for wanted in (part, part.upper(), part.swapcase()):
        # Some letters have no way back: the upper case of ŉ folds to another text.
        if wanted.casefold() != part.casefold():
            continue
        found = places(wanted, content)
        assert found
        assert Needle(wanted).may_be_in(dumps([content]))
        for place in found:
            assert part.casefold() in place.excerpt[place.start : place.start + place.length].casefold()


@given(CONTENTS, TEXTS.filter(bool))
def test_what_no_value_holds_is_not_found(content: dict[str, Any], text: str) -> None:
    told = [place for place in places(text, content) if not place.excerpt.strip("…")[:1].isdigit()]
    held = [value for value in values(content) if text.casefold() in value.casefold()]
    if not set("0123456789+-.e").issuperset(text.casefold()):
        assert len(told) <= len(held) == len(places(text, content))
