"""Odd values: none of them may take a trace, a batch or a page down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.world import World, chat, span

CUT = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "some words " * 30_000}]}])[:1028]
KEY = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4" * 2


def test_fr_15_half_an_emoji_is_stored_flagged_and_every_later_read_works(world: World) -> None:  # FR-15
    world.send(
        span(0, None, {"a": "\ud83e", "b": "\udd16 ok"}),
        span(1, 0, {"c": "🤖"}, name="neighbour"),
    )
    assert world.content(0)["attributes"] == {"a": "\ufffd", "b": "\ufffd ok"}
    assert world.content(1)["attributes"] == {"c": "🤖"}
    everywhere = world.shown_everywhere(0)
    assert "invalid_unicode" in json.dumps(everywhere)
    assert [row["span_id"] for row in world.ask.rows("waterfall", run_id=span(0)["traceId"])] == [
        f"{1:016x}",
        f"{2:016x}",
    ]


@pytest.mark.parametrize(
    ("odd", "stored"),
    [
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
    ids=["NaN word", "Infinity word", "-Infinity word", "NaN token", "Infinity token", "-Infinity token"],
)
def test_fr_17_a_number_that_is_none_is_kept_as_its_word_and_the_trace_can_be_shown(
    odd: Any, stored: str, world: World
) -> None:  # FR-17
    world.send(span(0, None, {"x": {"doubleValue": odd}}), span(1, 0))
    assert world.content(0)["attributes"] == {"x": stored}
    assert f'"{stored}"' in json.dumps(world.shown_everywhere(0))
    assert len(world.ask.rows("waterfall", run_id=span(0)["traceId"])) == 2


def test_fr_17_a_token_count_that_is_no_number_is_unknown_and_blinds_no_sum(world: World) -> None:  # FR-17
    odd = chat((5, 1)) | {"gen_ai.usage.input_tokens": {"doubleValue": "NaN"}}
    world.send(span(0, None, odd), span(1, None, chat((7, 2))))
    run = world.ask.row("run", run_id=span(0)["traceId"])
    assert (run["llm_calls"], run["input_tokens"], run["output_tokens"]) == (2, 7, 3)


def test_fr_19_a_prompt_cut_by_its_sender_is_stored_as_text_and_nothing_breaks(world: World) -> None:  # FR-19
    assert len(CUT) == 1028
    world.send(span(0, None, chat((5, 1)) | {"gen_ai.input.messages": CUT}))
    assert world.content(0)["attributes"]["gen_ai.input.messages"] == CUT
    world.shown_everywhere(0)


def test_fr_19_a_prompt_of_300_kb_is_masked_before_it_is_cut_and_shown_as_cut(world: World) -> None:  # FR-19
    # The key lies across the place where the text is cut.
    limit = 262_144
    text = "word " * ((limit - 20) // 5) + KEY + " word" * 8_000
    assert len(text) > 300_000
    world.send(span(0, None, chat((5, 1)) | {"gen_ai.input.messages": text}))
    stored = world.content(0)["attributes"]["gen_ai.input.messages"]
    assert "truncated" in stored
    assert KEY[:12] not in stored
    assert "[REDACTED" in stored
