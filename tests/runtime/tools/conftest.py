"""A registry, and a tool that notes what it was called with."""

from __future__ import annotations

from typing import Any

import pytest
from tracehold.tools import Tool, ToolParameter, ToolRegistry, ToolResponse


class Recorder(Tool):
    """Takes an integer `n`, notes each call, answers with `n`."""

    def __init__(self, name: str = "recorder", **flags: bool) -> None:
        super().__init__(name, "Note a number.")
        self.calls: list[dict[str, Any]] = []
        for flag, value in flags.items():
            setattr(self, flag, value)

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter("n", "integer", "which number")]

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        self.calls.append(parameters)
        return ToolResponse.ok(str(parameters.get("n")))


@pytest.fixture
def recorder_type() -> type[Recorder]:
    return Recorder


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry()


@pytest.fixture
def recorder(registry: ToolRegistry) -> Recorder:
    """A registered recorder."""
    made = Recorder()
    registry.register(made)
    return made
