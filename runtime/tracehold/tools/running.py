"""Running a tool: whatever it returns or raises becomes a response, except what steers the run (HAR-55, HAR-60)."""

from __future__ import annotations

import inspect
from typing import Any

from tracehold.core.control import steering_signal
from tracehold.tools.awaiting import on_thread, run_to_end
from tracehold.tools.parameters import Parameters
from tracehold.tools.response import ToolResponse, as_failure, as_response


async def arun_tool(tool: Any, parameters: Parameters, *, name: str) -> ToolResponse:
    """Run `tool` without blocking the event loop; texts call it `name`, whatever it calls itself by now.

    Raises:
        ControlSignal: the run is to be suspended or stopped; also `RunLimitExceeded` and `RunCancelled` (HAR-60).
            Cancellation, Ctrl-C and `SystemExit` pass too.
    """
    try:
        arun = getattr(tool, "arun", None)
        if arun is None:
            return as_response(name, await on_thread(tool.run, parameters))
        returned = arun(parameters)
        return as_response(name, await returned if inspect.isawaitable(returned) else returned)
    except Exception as error:  # noqa: BLE001 - the model is told what went wrong inside a tool (HAR-55)
        return _failed(name, error)


def run_tool(tool: Any, parameters: Parameters, *, name: str) -> ToolResponse:
    """Run `tool` on this thread, from code that is not async. Raises as `arun_tool` does."""
    try:
        run = getattr(tool, "run", None)
        if run is None:
            return as_response(name, run_to_end(tool.arun, parameters))
        return as_response(name, run(parameters))
    except Exception as error:  # noqa: BLE001 - the model is told what went wrong inside a tool (HAR-55)
        return _failed(name, error)


def _failed(name: str, error: Exception) -> ToolResponse:
    signal = steering_signal(error)
    if signal is not None:
        raise signal
    return as_failure(name, error)
