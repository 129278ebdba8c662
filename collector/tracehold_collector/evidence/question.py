"""What a bundle of evidence answers: conditions that are run as SQL here, and checked again by whoever verifies it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracehold.observability.event_types import DENIALS

from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.times import iso_utc, moment_of

QUESTIONS: Final[Mapping[str, str]] = {
    "denials": "every attempt that was stopped: by a gate, a person, a guardrail or a budget",
    "events": "every event",
    "run": "every event of one run; needs run_id",
    "subject": "every event about one person; needs user_ref, the pseudonym",
}
"""By name, and what each asks."""

PARAMETERS: Final = ("since", "until", "run_id", "user_ref", "agent", "kind", "rule", "decision")
"""What a question can be narrowed by; run_id and user_ref are what two of them are about."""

_COLUMNS: Final = ("run_id", "user_ref", "agent", "kind", "rule", "decision")
_NEEDS: Final = {"run": "run_id", "subject": "user_ref"}
_MAX_CHARS: Final = 512


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a field of the envelope; all of a question's must hold.

    Attributes:
        field: a field of the envelope.
        values: one of these texts; empty for a time.
        at_least, below: UTC nanoseconds; an unknown time meets neither.
    """

    field: str
    values: tuple[str, ...] = ()
    at_least: int | None = None
    below: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as the bundle says it; whole numbers as texts, so that no reader rounds them."""
        if self.values:
            return {"field": self.field, "in": list(self.values)}
        bounds = {"at_least": self.at_least, "below": self.below}
        return {"field": self.field, **{name: str(value) for name, value in bounds.items() if value is not None}}

    def sql(self, number: int, bound: dict[str, Any]) -> str:
        """Return it for a WHERE over `events`, and put its values into `bound`."""
        if self.values:
            bound[f"values{number}"] = list(self.values)
            return f"list_contains($values{number}::VARCHAR[], {self.field})"
        parts = []
        for name, sign, value in (("at_least", ">=", self.at_least), ("below", "<", self.below)):
            if value is not None:
                bound[f"{name}{number}"] = value
                parts.append(f"{self.field} {sign} ${name}{number}")
        return " AND ".join(parts)

    def readable(self) -> str:
        """Return it as people read SQL, its values in place."""
        if self.values:
            return f"{self.field} IN ({', '.join(_quoted(value) for value in self.values)})"
        bounds = ((">=", self.at_least), ("<", self.below))
        return " AND ".join(f"{self.field} {sign} {value}" for sign, value in bounds if value is not None)


@dataclass(frozen=True, slots=True)
class Question:
    """One question to one tenant's log.

    Attributes:
        name: one of `QUESTIONS`.
        tenant: whose.
        conditions: what an event must meet, the tenant among them.
        given: the parameters as they were given.
        since_ns: from when on, UTC nanoseconds; `None` is from the beginning.
    """

    name: str
    tenant: str
    conditions: tuple[Condition, ...]
    given: Mapping[str, str]
    since_ns: int | None = None

    @property
    def is_of_a_span(self) -> bool:
        """Whether it is about all that happened in a span of time, and not about one run or person."""
        return self.name not in _NEEDS

    def where(self) -> tuple[str, dict[str, Any]]:
        """Return the condition on `events` and its values."""
        bound: dict[str, Any] = {}
        return " AND ".join(part.sql(number, bound) for number, part in enumerate(self.conditions)), bound

    def text(self) -> str:
        """Return the question in words."""
        asked = QUESTIONS[self.name].partition(";")[0]
        narrowed = "".join(f", {name} {value}" for name, value in self.given.items())
        return f"{asked[0].upper()}{asked[1:]}, tenant {self.tenant}{narrowed}"

    def as_json(self) -> dict[str, Any]:
        """Return it as the bundle says it."""
        return {
            "name": self.name,
            "text": self.text(),
            "parameters": dict(self.given),
            "where": " AND ".join(part.readable() for part in self.conditions),
            "conditions": [part.as_json() for part in self.conditions],
        }


def parse_question(name: str, tenant: str, given: Mapping[str, str]) -> Question:
    """Return the question that the parameters of a request ask.

    Args:
        name: one of `QUESTIONS`.
        tenant: whose.
        given: any of `PARAMETERS`; times as ISO 8601, UTC where no zone is said.

    Raises:
        QueryError: there is no such question, or a parameter is unknown, missing or cannot be used.
    """
    if name not in QUESTIONS:
        raise QueryError(f"there is no question {name[:40]!r}; there are: {', '.join(QUESTIONS)}")
    for key, value in given.items():
        if key not in PARAMETERS:
            raise QueryError(f"there is no parameter {key[:40]!r}; there are: {', '.join(PARAMETERS)}")
        if not value or len(value) > _MAX_CHARS or "\0" in value:
            raise QueryError(f"{key} is empty, too long or no text; leave it out, or give 1 to {_MAX_CHARS} characters")
    needed = _NEEDS.get(name)
    if needed is not None and needed not in given:
        raise QueryError(f"the question {name} needs {needed}")
    since = moment_of("since", given["since"]) if "since" in given else None
    until = moment_of("until", given["until"]) if "until" in given else None
    conditions = [Condition("tenant", (tenant,))]
    if name == "denials":
        # DEC-01; the answer to an approval request carries a decision as well, and the call it stopped is an event of
        # its own: that one is blocked.
        conditions += [Condition("status", ("blocked",)), Condition("decision", tuple(sorted(DENIALS)))]
    conditions += [Condition(column, (given[column],)) for column in _COLUMNS if column in given]
    if since is not None or until is not None:
        conditions.append(Condition("started_at", at_least=since, below=until))
    return Question(name, tenant, tuple(conditions), _as_told(given), since)


def _as_told(given: Mapping[str, str]) -> dict[str, str]:
    """Times as the moments they mean, so that no reader takes another zone for granted."""
    return {
        name: iso_utc(moment_of(name, value)) or value if name in {"since", "until"} else value
        for name, value in given.items()
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
