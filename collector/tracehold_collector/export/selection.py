"""Which events an export is of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.times import moment_of
from tracehold_collector.store.filters import equal_conditions, time_conditions

FIELDS: Final[Mapping[str, str]] = {
    "tenant": "only this tenant",
    "run_id": "only this run",
    "trace_id": "only this trace, 32 hexadecimal digits",
    "session_id": "only this session, by its pseudonym",
    "user_ref": "only this user, by the pseudonym",
    "agent": "only this agent",
    "service": "only this service",
    "model": "only this model",
    "kind": "only this kind of event: llm, tool, gate ...",
    "status": "only this status: ok, error, blocked ...",
    "decision": "only this decision of a gate: denied, rejected ...",
}
"""Columns that an export may be narrowed by, and what that means."""

MAX_CHARS: Final = 512


@dataclass(frozen=True, slots=True)
class Selection:
    """What to export.

    Attributes:
        since_ns, until_ns: only what started from then on, and before then; UTC nanoseconds. With one of them, events
            whose start is not known are left out.
        equal: the value of each of `FIELDS` that is asked for.
    """

    since_ns: int | None = None
    until_ns: int | None = None
    equal: Mapping[str, str] = field(default_factory=dict)

    def condition(self, tenants: tuple[str, ...] | None) -> tuple[str, dict[str, Any]]:
        """Return the SQL condition on `events` and the values in it.

        Args:
            tenants: whose events the asker may see; `None` is everybody's.
        """
        bound: dict[str, Any] = {}
        parts = [
            *equal_conditions(tenants, self.equal, bound),
            *time_conditions(self.since_ns, self.until_ns, bound),
        ]
        return " AND ".join(parts) or "true", bound


def parse_selection(given: Mapping[str, str]) -> Selection:
    """Return what the parameters of a request choose.

    Args:
        given: `since` and `until` (ISO 8601, UTC where no zone is said), and any of `FIELDS`.

    Raises:
        QueryError: a name is unknown or a value cannot be used.
    """
    known = ["since", "until", *FIELDS]
    if unknown := sorted(set(given) - set(known)):
        raise QueryError(f"there is no parameter {unknown[0][:40]!r}; there are: {', '.join(known)}")
    for name, value in given.items():
        if not value or len(value) > MAX_CHARS or "\0" in value:
            raise QueryError(f"{name} is empty, too long or no text; leave it out, or give 1 to {MAX_CHARS} characters")
    equal = {name: given[name] for name in FIELDS if name in given}
    return Selection(_moment(given, "since"), _moment(given, "until"), equal)


def _moment(given: Mapping[str, str], name: str) -> int | None:
    return moment_of(name, given[name]) if name in given else None
