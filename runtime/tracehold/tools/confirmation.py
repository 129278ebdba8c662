"""Asking a person before a tool runs, where no harness does it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from tracehold.core.copying import copy_json
from tracehold.tools.awaiting import is_async, on_thread
from tracehold.tools.parameters import Parameters
from tracehold.tools.response import discard

Confirm: TypeAlias = Callable[[Any, Parameters], bool | Awaitable[bool]]
"""`confirm(tool, parameters)`: whether the call may run; sync or async."""


def needs_confirmation(tool: Any, parameters: Parameters) -> bool:
    """Whether this call needs a person's yes (REG-02); a tool without that method is asked for its flag."""
    decide = getattr(tool, "needs_confirmation", None)
    if not callable(decide):
        return bool(getattr(tool, "requires_confirmation", False))
    needed = decide(copy_json(parameters))  # it judges; what is judged, stored and run stays what was asked for
    if inspect.isawaitable(needed):
        discard(needed)
        return True  # unknown without awaiting it, and a person is asked when in doubt
    return bool(needed)


class NoAnswerError(TypeError):
    """A confirm callback returned neither `True` nor `False`: that is not taken for a yes, nor for a no."""

    def __init__(self, answer: object) -> None:
        super().__init__(f"confirm must answer True or False, and answered with {type(answer).__name__}")


def ask(confirm: Confirm, tool: Any, parameters: Parameters) -> bool:
    """Ask on this thread.

    Raises:
        NoAnswerError: the callback returned neither `True` nor `False`.
        TypeError: the callback is async, or returned an awaitable, which nothing awaits here (REG-12).
    """
    refuse_async(confirm)
    answer = confirm(tool, parameters)
    if inspect.isawaitable(answer):
        discard(answer)
        raise _async_refused()
    return _yes_or_no(answer)


async def aask(confirm: Confirm, tool: Any, parameters: Parameters) -> bool:
    """Ask without blocking the event loop; what an async callback returns is awaited.

    Raises:
        NoAnswerError: the callback returned neither `True` nor `False`, awaited or not.
    """
    answer = confirm(tool, parameters) if is_async(confirm) else await on_thread(confirm, tool, parameters)
    return _yes_or_no(await answer if inspect.isawaitable(answer) else answer)


def _yes_or_no(answer: object) -> bool:
    # Not its truth: "no" is true, and so is a future that nobody waited for.
    if isinstance(answer, bool):
        return answer
    raise NoAnswerError(answer)


def refuse_async(confirm: Confirm | None) -> None:
    """Raise `TypeError` for an async callback (REG-12)."""
    if confirm is not None and is_async(confirm):
        raise _async_refused()


def _async_refused() -> TypeError:
    return TypeError("an async confirm callback needs aexecute_tool: nothing awaits it here")
