"""A JSON text stays JSON when a number in it is masked: arguments of a tool call travel as such texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from privacy_samples import CARD, EMAIL
from tracehold import PatternRedactor, Tracer

mask = PatternRedactor().scrub_text

leaves = [int(CARD), f"card {CARD}", f"x: {CARD}, y", f'a "quoted" {CARD}', EMAIL, "\\", '"', 7, None, True]
keys = st.sampled_from(["a", "b: 1, ", '"'])
values = st.recursive(
    st.sampled_from(leaves),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f'{{"card": {CARD}}}', '{"card": "[REDACTED:card]"}'),
        (f'{{"card":{CARD},"n":1}}', '{"card":"[REDACTED:card]","n":1}'),
        (f"[{CARD}, {CARD}]", '["[REDACTED:card]", "[REDACTED:card]"]'),
        (f'{{"note": "card: {CARD}, ok"}}', '{"note": "card: [REDACTED:card], ok"}'),
        (f"card: {CARD}, ok", "card: [REDACTED:card], ok"),
    ],
)
def test_a_masked_number_becomes_a_text_and_a_text_stays_one(text: str, masked: str) -> None:  # RED-03
    assert mask(text) == masked


@given(st.dictionaries(st.text("ab ", max_size=3), values, max_size=4), st.sampled_from([None, 0, 2]))
def test_json_stays_json_and_masking_twice_changes_nothing(value: object, indent: int | None) -> None:  # RED-01
    text = mask(json.dumps(value, indent=indent))
    json.loads(text)
    assert CARD not in text
    assert mask(text) == text


def test_a_tracer_keeps_json_texts_json_too() -> None:
    tracer = Tracer()
    tracer.emit({"type": "tool_call", "arguments": f'{{"card": {CARD}, "n": 1}}'})
    assert json.loads(tracer.events[0]["arguments"])["n"] == 1
