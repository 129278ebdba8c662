"""The reason and the arguments of a denial, whichever way it came in."""

from __future__ import annotations

import pytest
from tracehold_dashboard import content


@pytest.mark.parametrize(
    "said",
    [
        {"reason": "no", "params": {"a": 1}},
        {"data": {"reason": "no", "arguments": {"a": 1}}},
        {"status_message": "no", "attributes": {"gen_ai.tool.call.arguments": {"a": 1}}},
        {"reason": "", "attributes": {"tracehold.reason": "no", "input.value": {"a": 1}}},
    ],
    ids=["tracer", "engine", "otlp", "empty first"],
)
def test_reason_and_arguments_are_found(said):
    assert content.reason(said) == "no"
    assert content.arguments(said) == {"a": 1}


@pytest.mark.parametrize("said", [None, {}, {"attributes": None}, {"data": "text"}])
def test_what_was_not_said_is_not_made_up(said):
    assert content.reason(said) is None
    assert content.arguments(said) is None


def test_a_guardrails_categories_are_its_reason() -> None:
    assert content.reason({"data": {"guard": "in", "categories": ["denied_phrase", "pii"]}}) == "denied_phrase, pii"
