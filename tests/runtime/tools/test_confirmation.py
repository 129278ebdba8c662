"""Asking for a person's yes, where the answer depends on the arguments."""

from __future__ import annotations

from typing import Any

from tracehold.tools.confirmation import needs_confirmation


def test_a_tool_that_takes_its_arguments_apart_to_judge_them_leaves_them_whole() -> None:  # REG-02, DEC-02
    class Careless:
        def needs_confirmation(self, parameters: dict[str, Any]) -> bool:
            return bool(parameters.pop("dangerous"))

    arguments = {"dangerous": True}
    assert needs_confirmation(Careless(), arguments)
    assert arguments == {"dangerous": True}
