"""Case-sensitive globs over event types, each compiled once (BUS-01)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Final

KEPT: Final = 1024
"""Types whose answer is remembered; types come from outside, so there may be any number of them."""


class Globs:
    """Tells whether an event type matches one of some globs; the answer for a type is remembered.

    `*` stands for any text, dots included, `?` for one character, `[ab]` and `[!ab]` for one of a set. Upper and lower
    case differ on every system.

    Args:
        patterns: the globs; with none, nothing matches.

    Raises:
        TypeError: a pattern is no text.
        ValueError: a pattern is empty.
    """

    __slots__ = ("_compiled", "_known", "patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        for pattern in self.patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"a pattern of event types must be a text, not {type(pattern).__name__}")
            if not pattern:
                raise ValueError('a pattern of event types is empty; "*" matches every type')
        # One expression each: joined with "|" they would lose the atomic groups that keep matching linear.
        self._compiled = tuple(re.compile(fnmatch.translate(pattern)).match for pattern in self.patterns)
        self._known: dict[str, bool] = {}

    def match(self, event_type: str) -> bool:
        """Whether the type matches."""
        known = self._known.get(event_type)
        if known is None:
            known = any(match(event_type) for match in self._compiled)
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[event_type] = known
        return known
