"""Tools made of functions: of one dict, or of ordinary parameters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias, overload

from tracehold.core.errors import ToolRegistrationError
from tracehold.tools.awaiting import is_async, on_thread, run_to_end
from tracehold.tools.base import Tool
from tracehold.tools.parameters import Parameters, ToolParameter
from tracehold.tools.response import ToolResponse

DictFunction: TypeAlias = Callable[[Parameters], Any | Awaitable[Any]]


class FunctionTool(Tool):
    """A tool made of a function that takes the parameters as one dict (REG-07).

    Args:
        func: sync (it runs on a worker thread) or async (on the event loop); returns a text, a `ToolResponse`, or
            anything that has a text.
        name: letters, digits, `_` and `-`, at most 64.
        description: for the model.
        parameters: what the dict may hold; default nothing is declared, and nothing is refused.
        requires_confirmation: whether a person must say yes before each call.
        external_content: whether its results are text that strangers wrote.
        supports_parallel: whether calls of one turn may run at the same time.
        origin: where the tool comes from; permissions judge it.

    Raises:
        ToolRegistrationError: `func` is not callable.
    """

    def __init__(
        self,
        func: DictFunction,
        name: str,
        description: str,
        parameters: Iterable[ToolParameter] | None = None,
        *,
        requires_confirmation: bool = False,
        external_content: bool = False,
        supports_parallel: bool = False,
        origin: str = "builtin",
    ) -> None:
        if not callable(func):
            raise ToolRegistrationError(f"tool {name!r} is made of a function, not of {type(func).__name__}")
        super().__init__(name, description, origin=origin)
        self._func = func
        self._parameters = list(parameters or ())
        self._is_async = is_async(func)
        self.requires_confirmation = requires_confirmation
        self.external_content = external_content
        self.supports_parallel = supports_parallel

    def get_parameters(self) -> list[ToolParameter]:
        """Return the declared parameters."""
        return list(self._parameters)

    def run(self, parameters: Parameters) -> ToolResponse:
        """Call the function; an async one in an event loop of its own."""
        call: Any = self._func
        result: ToolResponse = run_to_end(call, parameters) if self._is_async else call(parameters)
        return result

    async def arun(self, parameters: Parameters) -> ToolResponse:
        """Call the function: an async one here, another on a worker thread."""
        call: Any = self._func
        result: ToolResponse = await (call(parameters) if self._is_async else on_thread(call, parameters))
        return result


@overload
def tool(func: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    requires_confirmation: bool = False,
    external_content: bool = False,
    supports_parallel: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    func: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    requires_confirmation: bool = False,
    external_content: bool = False,
    supports_parallel: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of an ordinary function; with or without parentheses.

        @tool(requires_confirmation=True)
        def refund(order: str, cents: int) -> str:
            "Pay an order back."

    Args:
        func: the function; see `Tool.from_callable`.
        name: default the function's own.
        description: for the model; default the docstring up to its sections.
        requires_confirmation: whether a person must say yes before each call.
        external_content: whether its results are text that strangers wrote.
        supports_parallel: whether calls of one turn may run at the same time.

    Raises:
        ToolRegistrationError: a parameter that no JSON Schema can describe, such as `*args`.
    """

    def make(function: Callable[..., Any]) -> Tool:
        return Tool.from_callable(
            function,
            name=name,
            description=description,
            requires_confirmation=requires_confirmation,
            external_content=external_content,
            supports_parallel=supports_parallel,
        )

    return make if func is None else make(func)
