"""What the gates need of a tool registry: a check that runs nothing, and a run that checks nothing."""

from __future__ import annotations

from typing import Any, Protocol

from tracehold.core.errors import ToolError
from tracehold.tools.base import ToolResponse
from tracehold.tools.registry import Refusal


class ToolSeam(Protocol):
    """`ToolRegistry` is one."""

    def get(self, name: str) -> Any | None:
        """Return the tool of that name, or `None`."""

    def check(self, name: str, parameters: dict[str, Any]) -> Any | Refusal:
        """Return the tool to run, or why the call cannot be made."""

    async def run(self, tool: Any, parameters: dict[str, Any]) -> ToolResponse:
        """Run a tool that `check` returned."""


class NotEnteredError(ToolError):
    """A registry refused a call that the other gates had let through; the tool was not entered."""


def seam(registry: Any) -> ToolSeam | None:
    """Return `registry`, or for one with the documented methods only (HAR-05, REG-08, REG-09) what stands in for it."""
    if registry is None or (callable(getattr(registry, "check", None)) and callable(getattr(registry, "run", None))):
        return registry  # type: ignore[no-any-return]  # judged by its shape
    return _DocumentedOnly(registry)


class _DocumentedOnly:
    """A registry that checks and runs in one step: arguments are judged there, after the other gates."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def get(self, name: str) -> Any | None:
        return self._registry.get(name)

    def check(self, name: str, parameters: dict[str, Any]) -> Any | Refusal:  # noqa: ARG002 - see the class
        tool = self._registry.get(name)
        return tool if tool is not None else Refusal("unknown_tool", f"Tool {name} does not exist.")

    async def run(self, tool: Any, parameters: dict[str, Any]) -> ToolResponse:
        if self._registry.get(tool.name) is not tool:
            raise NotEnteredError(f"Tool {tool.name} was replaced while its call was judged.")
        response, entered = await self._registry.aexecute_tool_checked(tool.name, parameters, lambda *_: True)
        if not entered:
            raise NotEnteredError(str(response))
        return response  # type: ignore[no-any-return]  # REG-09
