"""Calling what may be sync or async, from either side."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from tracehold.core.errors import ToolError


def is_async(function: Any) -> bool:
    """Whether calling `function` gives a coroutine: an `async def`, a partial of one, or an object that calls one."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    # A class is called through its constructor, whatever its instances do.
    return not isinstance(function, type) and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - the method itself is wanted, not whether there is one


async def on_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a blocking function on a worker thread, with a copy of this context (REG-01)."""
    return await asyncio.to_thread(_call, function, *arguments, **named)


def run_to_end(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, **named: Any) -> Any:
    """Call an async function from code that is not async, in an event loop of its own.

    Raises:
        ToolError: an event loop is running on this thread already, which must not be blocked.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(function(*arguments, **named))
    raise ToolError("an async tool cannot run inside a running event loop: call aexecute_tool instead")


def _call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except StopIteration as stop:
        # A future cannot carry StopIteration: on Python 3.11 whoever awaits it would wait for ever.
        raise RuntimeError("StopIteration left the function") from stop
