"""What an engine and its calls are given, looked at where it is given: a wrong one must not fail at the first run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from tracehold.core.requirements import require_methods
from tracehold.engine.budget import Budget
from tracehold.engine.retention import RetentionPolicy

_STORE: Final = ("append", "read", "subscribe", "last_seq", "has", "run_index", "scrub", "delete_stream")


def check_engine(
    *,
    store: object,
    bus: object,
    blobs: object,
    redactor: object,
    default_budget: object,
    sweep_interval_s: object,
    retention: object,
) -> None:
    """Refuse what an engine cannot work with.

    Raises:
        TypeError: an argument is of another kind; says what to give instead.
        ValueError: `sweep_interval_s` is not above 0.
    """
    require_methods("store", store, _STORE, "give an event store, as in Engine(SQLiteEventStore('runs.db'))")
    require_methods("bus", bus, ("subscribe", "publish"), "give an event bus, as InProcessBus()")
    require_methods("blobs", blobs, ("put", "get"), "give a blob store, as FileBlobStore('blobs')")
    require_methods("redactor", redactor, ("redact",), "give a redactor, as standard_redactor()")
    check_budget("default_budget", default_budget)
    if sweep_interval_s is not None:
        if isinstance(sweep_interval_s, bool) or not isinstance(sweep_interval_s, int | float):
            raise TypeError(f"sweep_interval_s is a number of seconds, not {type(sweep_interval_s).__name__}")
        if not 0 < sweep_interval_s < math.inf:
            raise ValueError(f"sweep_interval_s must be above 0, not {sweep_interval_s!r}; None sweeps never")
    if not isinstance(retention, Sequence) or not all(isinstance(policy, RetentionPolicy) for policy in retention):
        raise TypeError("retention is a list of policies: [RetentionPolicy(timedelta(days=30))]")


def check_budget(name: str, value: object) -> None:
    """Refuse what is no budget.

    Raises:
        TypeError: says how to write one.
    """
    if value is not None and not isinstance(value, Budget):
        raise TypeError(f"{name} must be a Budget, not {type(value).__name__}: Budget(max_steps=3)")


def check_input(value: object) -> dict[str, Any]:
    """Return a run's input.

    Raises:
        TypeError: it is no dict.
    """
    if not isinstance(value, dict):
        raise TypeError(f"a run's input is a dict, not {type(value).__name__}: {{'task': ...}}")
    return value
