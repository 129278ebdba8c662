"""A `Scope` in SQL: five text columns of its dimensions' names, an unset one as `''`."""

from __future__ import annotations

from typing import Final

from tracehold.core.errors import TraceholdError
from tracehold.core.scope import DIMENSIONS, Scope, scope_key

SCOPE_COLUMNS: Final = ", ".join(DIMENSIONS)

EXACT: Final = " AND ".join(f"{name} = ?" for name in DIMENSIONS)
"""The condition of exact matching, for the parameters of `exact_values` (SCP-03)."""


def exact_values(scope: Scope | None, *, error: type[TraceholdError]) -> tuple[str, ...]:
    """Return the values of the scope columns in the order of `SCOPE_COLUMNS`.

    Raises:
        TraceholdError: of the class `error`, for a dimension with a lone surrogate, which no UTF-8 database can hold.
    """
    key = scope_key(scope)
    for dimension, value in zip(DIMENSIONS, key, strict=True):
        try:
            value.encode()
        except UnicodeEncodeError as found:
            raise error(f"Scope.{dimension} is not valid Unicode: it contains a lone surrogate") from found
    return key


def restricting(
    scope: Scope | None, *, error: type[TraceholdError], but: str | None = None
) -> tuple[str, tuple[str, ...]]:
    """Return condition and parameters of restrictive matching: only the set dimensions filter, `but` never does.

    Raises:
        TraceholdError: as `exact_values`.
    """
    pairs = zip(DIMENSIONS, exact_values(scope, error=error), strict=True)
    chosen = {name: value for name, value in pairs if value and name != but}
    return " AND ".join(f"{name} = ?" for name in chosen) or "true", tuple(chosen.values())
