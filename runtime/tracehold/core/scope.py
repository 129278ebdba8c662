"""Whose data this is: the five dimensions that sessions, checkpoints and searches are told apart by (SCP)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Scope:
    """A place along five dimensions, each set or unset; immutable and hashable (SCP-01).

    Two rules of matching exist (SCP-03): exact, where an unset dimension equals only an unset one (`key`); and
    restrictive, where only the set dimensions filter (`restrictions`).

    Raises:
        TypeError: a dimension that is neither a text nor `None` (SCP-02).
    """

    base: str | None = None
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    app: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no text, and take an empty text for unset (SCP-02)."""
        for dimension in DIMENSIONS:
            value = getattr(self, dimension)
            if value is not None and not isinstance(value, str):
                raise TypeError(f"Scope.{dimension} must be a text or None, not {type(value).__name__}")
            if value == "":
                object.__setattr__(self, dimension, None)

    @property
    def is_unset(self) -> bool:
        """Whether no dimension is set."""
        return not self.restrictions()

    def key(self) -> tuple[str, ...]:
        """Return all dimensions in the order of `DIMENSIONS`, unset ones as `""`: what exact matching compares."""
        return tuple(getattr(self, dimension) or "" for dimension in DIMENSIONS)

    def restrictions(self) -> dict[str, str]:
        """Return the set dimensions by name: what restrictive matching filters by."""
        return {dimension: value for dimension in DIMENSIONS if (value := getattr(self, dimension))}

    def with_(self, **dimensions: Any) -> Scope:
        """Return a copy with some dimensions replaced."""
        return replace(self, **dimensions)


DIMENSIONS: Final = tuple(field.name for field in fields(Scope))
"""The dimensions in the order of `Scope`'s parameters; also the names of the columns in our SQLite tables."""


def scope_key(scope: Scope | None) -> tuple[str, ...]:
    """Return `Scope.key()`; no scope is the bucket whose dimensions are all unset (SES-02)."""
    return (scope or Scope()).key()
