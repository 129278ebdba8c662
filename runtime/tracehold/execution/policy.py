"""What one run may use up: its limits, and the word that stops it (POL)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class RunPolicy:
    """Limits and cancellation of one run; `None` leaves a limit off (POL-01).

    Counted against the outermost run: a policy of a run inside a run is ignored with a warning (POL-10, EXEC-10).
    A resume is a new count (POL-09).

    Attributes:
        max_llm_calls: model calls, streams and governed calls included; an integer of at least 1.
        max_tool_calls: tools that really ran; an integer of at least 0.
        max_tokens: the sum of `usage.total_tokens`; an integer of at least 1.
        deadline_seconds: wall time from the start of the run; a number above 0.
        cancel: asked before each model and tool call; true stops the run. Must be quick and not block.

    Raises:
        ValueError: a value outside these bounds, a bool included (POL-02).
    """

    max_llm_calls: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    deadline_seconds: float | None = None
    cancel: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, here rather than in the middle of a run (POL-02)."""
        for name, least in (("max_llm_calls", 1), ("max_tool_calls", 0), ("max_tokens", 1)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise ValueError(f"{name} must be an integer of at least {least} or None, not {value!r}")
        seconds = self.deadline_seconds
        if seconds is not None and (type(seconds) not in {int, float} or not 0 < seconds < math.inf):
            raise ValueError(f"deadline_seconds must be a number above 0 or None, not {seconds!r}")
        if self.cancel is not None and not callable(self.cancel):
            raise ValueError(f"cancel must be callable or None, not {type(self.cancel).__name__}")
