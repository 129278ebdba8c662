"""Finds a text in one event's content: literally, without regard to case, in time linear in the content.

Both sides are compared by Unicode's full case folding (Unicode Standard, section 3.13, D145): "STRASSE" finds "Straße".
Nothing is normalised beyond that, and a text that spans two values is not found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

MAX_TEXT_CHARS: Final = 500

_BEFORE_CHARS: Final = 60
_AFTER_CHARS: Final = 120
_MAX_PATH_CHARS: Final = 300
_CUT: Final = "…"
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_IN_NUMBERS: Final = frozenset("0123456789+-.e")

_Link = tuple[Any, str | int]
"""The link above, or `None` at the top, and the key or place of a value in what that leads to."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands in a content.

    Attributes:
        path: the way to the value, such as `messages[3].content`.
        excerpt: the text around it, as it stands there; "…" where it was cut.
        start, length: where in `excerpt` the text stands, in characters.
    """

    path: str
    excerpt: str
    start: int
    length: int


class Needle:
    """A text to look for. One search has one, used by one thread at a time.

    Args:
        text: 1 to `MAX_TEXT_CHARS` characters.
    """

    def __init__(self, text: str) -> None:
        self._folded = text.casefold()
        self._may_be_number = _IN_NUMBERS.issuperset(self._folded)
        self._written = orjson.dumps(self._folded)[1:-1].decode()

    def may_be_in(self, opened: bytes) -> bool:
        """Whether contents hold the text, judged by their JSON: never a wrong no, and a yes has to be looked into.

        JSON changes characters one by one, and so does folding. Looking at it whole is twenty times as fast as looking
        at each value, and most contents hold no given text.
        """
        return self._written in opened.decode("utf-8", "replace").casefold()

    def places(self, content: Any) -> Iterator[Place]:
        """Yield each value that holds the text, once, those near the top first.

        Values are texts and numbers; the names of fields are not looked at.
        """
        folded = self._folded
        # Grows while it is gone through: no recursion, whatever the depth.
        waiting: list[tuple[Any, _Link | None]] = [(content, None)]
        for inner, link in waiting:
            for key, value in inner.items() if isinstance(inner, dict) else enumerate(inner):
                kind = type(value)
                if kind is str:
                    if folded in value.casefold():
                        yield self._place(value, (link, key))
                elif kind is dict or kind is list:
                    waiting.append((value, (link, key)))
                elif (
                    self._may_be_number and kind in {int, float} and folded in (written := orjson.dumps(value).decode())
                ):
                    yield self._place(written, (link, key))

    def _place(self, value: str, link: _Link) -> Place:
        start, end = self._span(value)
        first, last = max(0, start - _BEFORE_CHARS), min(len(value), end + _AFTER_CHARS)
        lead = _CUT if first else ""
        excerpt = f"{lead}{value[first:last]}{_CUT if last < len(value) else ''}"
        return Place(_path(link), excerpt, len(lead) + start - first, end - start)

    def _span(self, value: str) -> tuple[int, int]:
        """Where the text stands in the value as it is written; folding can make a text longer, never shorter."""
        folded = value.casefold()
        start = folded.find(self._folded)
        end = start + len(self._folded)
        if len(folded) == len(value):
            return start, end
        first = last = grown = 0
        for place, letter in enumerate(value):
            if grown <= start:
                first = place
            if grown >= end:
                break
            last = place + 1
            grown += len(letter.casefold())
        return first, last


def _path(link: _Link) -> str:
    keys: list[str | int] = []
    here: _Link | None = link
    while here is not None:
        here, key = here
        keys.append(key)
    path = ""
    for key in reversed(keys):
        if isinstance(key, int):
            path += f"[{key}]"
        elif _PLAIN_KEY.fullmatch(key):
            path += f".{key}" if path else key
        else:
            path += f"[{json.dumps(key[:_MAX_PATH_CHARS], ensure_ascii=False)}]"
        if len(path) > _MAX_PATH_CHARS:
            return path[:_MAX_PATH_CHARS] + _CUT
    return path
