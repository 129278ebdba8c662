"""Which rows of a table a statement cannot want, read from the filter DuckDB hands to a scan.

Only comparisons that every wanted row passes are read: a part that is not understood is left out, and the filter itself
is applied again where the statement runs. So at worst too many rows are read, never too few.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>"[^"\\]*")
    | (?P<compare>==|>=|<=|>|<)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number>-?\d+(?![\w.:-]))
    | (?P<other>\S)
    )""",
    re.VERBOSE,
)
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_COMPARISON: Final = 3


class Bound(NamedTuple):
    """A comparison each wanted row passes: a column, one of `==`, `>=`, `<=`, `>`, `<`, and a value."""

    column: str
    compare: str
    value: int | str


class _Token(NamedTuple):
    kind: str
    text: str


def bounds_of(expression: str) -> list[Bound]:
    """Return the bounds in a filter, as `pyarrow.compute.Expression` writes itself."""
    if "\\" in expression:  # an escape in a text: not worth being right about
        return []
    tokens = [_Token(match.lastgroup or "", match[match.lastgroup or 0]) for match in _TOKEN.finditer(expression)]
    found: list[Bound] = []
    pending: list[Sequence[_Token]] = [tokens]
    while pending:
        part = pending.pop()
        inner = _unwrapped(part)
        if inner is None:
            continue
        pieces = _split_and(inner)
        if len(pieces) > 1:
            pending += pieces
        elif (bound := _comparison(inner)) is not None:
            found.append(bound)
    return found


def _unwrapped(tokens: Sequence[_Token]) -> Sequence[_Token] | None:
    """What stands between the first parenthesis and the last, when these two belong together."""
    if len(tokens) <= 2 or tokens[0].text != "(":  # noqa: PLR2004
        return None
    depth = 0
    for place, token in enumerate(tokens):
        depth += _step(token)
        if depth == 0:
            return tokens[1:-1] if place == len(tokens) - 1 else None
    return None


def _split_and(tokens: Sequence[_Token]) -> list[Sequence[_Token]]:
    pieces: list[Sequence[_Token]] = []
    depth, start = 0, 0
    for place, token in enumerate(tokens):
        depth += _step(token)
        if depth == 0 and token == ("word", "and"):
            pieces.append(tokens[start:place])
            start = place + 1
    return [*pieces, tokens[start:]]


def _comparison(tokens: Sequence[_Token]) -> Bound | None:
    if len(tokens) != _COMPARISON or (tokens[0].kind, tokens[1].kind) != ("word", "compare"):
        return None
    column, compare, value = tokens
    if value.kind == "number":
        return Bound(column.text, compare.text, int(value.text))
    return Bound(column.text, compare.text, value.text[1:-1]) if value.kind == "text" else None


def _step(token: _Token) -> int:
    if token.kind != "other":
        return 0
    return (token.text in _OPENING) - (token.text in _CLOSING)
