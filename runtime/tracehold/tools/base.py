"""A tool: what a model may ask an agent to do (REG-01 to REG-04)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tracehold.tools.awaiting import is_async, on_thread, run_to_end
from tracehold.tools.parameters import Parameters, Schema, ToolParameter
from tracehold.tools.response import ToolResponse, ToolStatus
from tracehold.tools.signature import derive

__all__ = ["CallableTool", "Parameters", "Tool", "ToolParameter", "ToolResponse", "ToolStatus"]


class Tool(ABC):
    """Something an agent can do when its model asks for it (REG-01, REG-02).

    A registry and a harness take any object with the same attributes; this class is for convenience.

    Args:
        name: letters, digits, `_` and `-`, at most 64.
        description: for the model.
        origin: where the tool comes from, such as "builtin" or the name of an MCP server; permissions judge it.
    """

    requires_confirmation: bool = False
    """Whether a person must say yes before each call."""
    external_content: bool = False
    """Whether its results are text that strangers wrote."""
    supports_parallel: bool = False
    """Whether calls of one turn may run at the same time."""

    def __init__(self, name: str, description: str, *, origin: str = "builtin") -> None:
        self.name = name
        self.description = description
        self.origin = origin

    @abstractmethod
    def get_parameters(self) -> list[ToolParameter]:
        """Return the parameters, in the order the model sees them."""

    def get_input_schema(self) -> Schema | None:
        """Return a whole JSON Schema for the parameters, or `None` to derive one from `get_parameters`."""
        return None

    def needs_confirmation(self, parameters: Parameters) -> bool:  # noqa: ARG002 - for overriding
        """Whether this call needs a person's yes; default `requires_confirmation`."""
        return self.requires_confirmation

    def is_external_content(self, parameters: Parameters) -> bool:  # noqa: ARG002 - for overriding
        """Whether the result of this call is text that strangers wrote; default `external_content`."""
        return self.external_content

    def run(self, parameters: Parameters) -> ToolResponse:
        """Do it; override this or `arun`. An exception becomes an error response (HAR-55).

        Where only `arun` is overridden, it is run to its end in an event loop of its own.

        Raises:
            NotImplementedError: neither is overridden.
            ToolError: only `arun` is overridden, and an event loop is running on this thread.
        """
        if type(self).arun is Tool.arun:
            raise NotImplementedError(f"{type(self).__name__} overrides neither run nor arun")
        response: ToolResponse = run_to_end(self.arun, parameters)
        return response

    async def arun(self, parameters: Parameters) -> ToolResponse:
        """Do it without blocking the event loop; default `run` on a worker thread (REG-01)."""
        response: ToolResponse = await on_thread(self.run, parameters)
        return response

    @classmethod
    def from_callable(
        cls,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        requires_confirmation: bool = False,
        external_content: bool = False,
        supports_parallel: bool = False,
        origin: str = "builtin",
    ) -> Tool:
        """Make a tool of an ordinary function: its signature says what it takes, its docstring what it does.

        Args:
            func: sync (it runs on a worker thread) or async (on the event loop).
            name: default the function's own.
            description: for the model; default the docstring up to its sections.
            requires_confirmation: whether a person must say yes before each call.
            external_content: whether its results are text that strangers wrote.
            supports_parallel: whether calls of one turn may run at the same time.
            origin: where the tool comes from; permissions judge it.

        Raises:
            ToolRegistrationError: a parameter that no JSON Schema can describe, such as `*args`.
        """
        made = CallableTool(func, name=name, description=description, origin=origin)
        made.requires_confirmation = requires_confirmation
        made.external_content = external_content
        made.supports_parallel = supports_parallel
        return made


class CallableTool(Tool):
    """A tool made of a function with ordinary parameters; `Tool.from_callable` and `@tool` make it.

    It can still be called like the function.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        origin: str = "builtin",
    ) -> None:
        self._signature = derive(func)
        super().__init__(name or self._signature.name, description or self._signature.description, origin=origin)
        self._func = func
        self._is_async = is_async(func)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self._func(*args, **kwargs)

    def get_parameters(self) -> list[ToolParameter]:
        """Return the function's parameters."""
        return self._signature.parameters()

    def get_input_schema(self) -> Schema:
        """Return the JSON Schema derived from the function's type hints."""
        return self._signature.schema

    def run(self, parameters: Parameters) -> Any:
        """Call the function; an async one in an event loop of its own."""
        args, kwargs = self._signature.bind(parameters)
        if self._is_async:
            return run_to_end(self._func, *args, **kwargs)
        return self._func(*args, **kwargs)

    async def arun(self, parameters: Parameters) -> Any:
        """Call the function: an async one here, another on a worker thread."""
        args, kwargs = self._signature.bind(parameters)
        if self._is_async:
            return await self._func(*args, **kwargs)
        return await on_thread(self._func, *args, **kwargs)
