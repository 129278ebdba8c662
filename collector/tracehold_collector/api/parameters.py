"""Parameters of the URL's query that several addresses take."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import QueryParams

from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.times import moment_of

_DIGITS: Final = 19
"""Of the largest number that 64 bits hold."""


def moment(query: QueryParams, name: str) -> int | None:
    """Return a moment in UTC nanoseconds, `None` when it is left out.

    Raises:
        QueryError: it is no moment.
    """
    text = query.get(name)
    return None if text is None else moment_of(name, text)


def whole_number(query: QueryParams, name: str, most: int) -> int | None:
    """Return a number from 1 to `most`, `None` when it is left out.

    Raises:
        QueryError: it is no such number.
    """
    return _number(query, name, 1, most)


def index_number(query: QueryParams, name: str, most: int) -> int | None:
    """Return a number from 0 to `most`, `None` when it is left out.

    Raises:
        QueryError: it is no such number.
    """
    return _number(query, name, 0, most)


def _number(query: QueryParams, name: str, least: int, most: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS and least <= int(text) <= most):
        raise QueryError(f"{name} takes a whole number from {least} to {most}")
    return int(text)
