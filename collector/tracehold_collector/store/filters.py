"""Filters on columns of the envelope, for readers that go through events one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

FILTERS: Final = (
    "tenant", "run_id", "trace_id", "kind", "type", "name", "status", "agent", "service", "model", "provider",
    "decision", "rule", "error_type", "user_ref", "session_id", "source",
)  # fmt: skip
"""Columns that such a reader can be narrowed down by, to one value each."""

MAX_VALUE_CHARS: Final = 500
"""Characters of such a value."""


def equal_conditions(tenants: Sequence[str] | None, equal: Mapping[str, str], bound: dict[str, Any]) -> list[str]:
    """Return conditions for a WHERE over `events`, and put their values into `bound`.

    Args:
        tenants: whose events; `None` is everyone's.
        equal: values by name; names that are not in `FILTERS` are no part of it.
        bound: the parameters of the statement.
    """
    conditions = []
    if tenants is not None:
        conditions.append("list_contains($tenants::VARCHAR[], tenant)")
        bound["tenants"] = list(tenants)
    for name in FILTERS:
        if name in equal:
            conditions.append(f"{name} = ${name}")
            bound[name] = equal[name]
    return conditions


def time_conditions(since_ns: int | None, until_ns: int | None, bound: dict[str, Any]) -> list[str]:
    """Return conditions for a WHERE over `events`, and put their values into `bound`.

    Args:
        since_ns: only what started from then on; UTC nanoseconds.
        until_ns: only what started before then.
        bound: the parameters of the statement.
    """
    conditions = []
    if since_ns is not None:
        conditions.append("started_at >= $since_ns")
        bound["since_ns"] = since_ns
    if until_ns is not None:
        conditions.append("started_at < $until_ns")
        bound["until_ns"] = until_ns
    return conditions
