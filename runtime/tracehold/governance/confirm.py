"""Asking a person, here and now, before a tool runs."""

from __future__ import annotations

import asyncio
import json
from typing import Any, TypeAlias

from tracehold.tools.confirmation import Confirm, aask

ConfirmCallback: TypeAlias = Confirm
"""`confirm(tool, parameters)`: whether the call may run; sync or async."""


async def ask(confirm: ConfirmCallback, tool: Any, parameters: dict[str, Any], timeout_s: float | None) -> bool:
    """Ask `confirm` without blocking the event loop (HAR-53) and wait for what it returns (HAR-54).

    Raises:
        TimeoutError: no answer within `timeout_s` seconds.
    """
    task = asyncio.current_task()
    cancellations = task.cancelling() if task is not None else 0
    async with asyncio.timeout(timeout_s) as limit:
        answer = await aask(confirm, tool, parameters)
    # A callback may swallow the cancellation that was to end it, and say yes: too late is no answer.
    if limit.expired():
        raise TimeoutError
    if task is not None and task.cancelling() > cancellations:
        raise asyncio.CancelledError
    return answer


def name_of(confirm: ConfirmCallback) -> str:
    """Return how a record names the callback."""
    name = getattr(confirm, "__name__", None) or type(confirm).__name__
    return f"confirm:{name}"


def cli_confirm(tool: Any, parameters: dict[str, Any]) -> bool:
    """Show the tool and its parameters on the terminal, ask, and return whether the answer was yes (HAR-90).

    Only a `y`, in any case and with any blanks around it, is a yes; so the end of input is a no. Parameters are shown
    as JSON: a model cannot move the cursor or rewrite the question with control characters.

    Args:
        tool: a tool, or its name.
        parameters: what it would be called with.
    """
    name = json.dumps(str(getattr(tool, "name", tool)))[1:-1]
    shown = json.dumps(parameters, indent=2, default=lambda value: type(value).__name__)
    print(f"Tool: {name}\nParameters: {shown}")  # noqa: T201 - the terminal is this callback's purpose
    try:
        answer = input("Run it? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() == "y"
