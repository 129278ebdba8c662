r"""Other readings of a text: what it says once escapes, look-alike characters and invisible characters are undone.

A secret that was percent-encoded twice, written as `\u0040`, set in full-width digits or split by a zero-width space is
the same secret. Each reading is searched like the text itself, and what is found is carried back to the places in
the original (FR-39).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

_FIRST_PRINTABLE: Final = 0x20
_MAX_LEVELS: Final = 3
"""How often escapes are undone: percent-encoding twice is seen in practice, once more costs nothing when absent."""

_ESCAPE: Final = re.compile(
    r"%([0-9A-Fa-f]{2})|\\{1,4}u([0-9A-Fa-f]{4})|\\{1,4}x([0-9A-Fa-f]{2})|&#(?:[xX]([0-9A-Fa-f]{2,4})|([0-9]{2,5}));"
)
_INVISIBLE: Final = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]+")

# Letters of other scripts that are drawn like Latin ones, after the Unicode confusables data (UTS 39).
_HOMOGLYPHS: Final = {
    **str.maketrans(
        "АВЕЅІЈКМНОРСТУХаеѕіјорсухԁԛԝһΑΒΕΖΗΙΚΜΝΟΡΤΥΧονıꞵ",
        "ABESIJKMHOPCTYXaesijopcyxdqwhABEZHIKMNOPTYXovib",
    ),
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212, 0xFE63), ord("-")),
    **dict.fromkeys((0x201C, 0x201D, 0x201E), ord('"')),
    **dict.fromkeys((0x2018, 0x2019, 0x201A), ord("'")),
}


class View:
    """A reading of a text, and the way back from its positions to those of the text it was made from.

    The way back is worked out when it is first asked for: most readings hold nothing to carry back.
    """

    __slots__ = ("_here", "_parent", "_pattern", "_there", "_to", "text")

    def __init__(self, parent: View | str, pattern: re.Pattern[str], to: Callable[[re.Match[str]], str]) -> None:
        """Read `parent` with each match of `pattern` replaced by what `to` returns."""
        self._parent = parent
        self._pattern = pattern
        self._to = to
        self._here: list[int] | None = None
        self._there: list[int] = []
        self.text = pattern.sub(to, self._source)

    @property
    def _source(self) -> str:
        return self._parent if isinstance(self._parent, str) else self._parent.text

    def original(self, position: int) -> int:
        """Return where `position` of this reading stands in the text that the first reading was made from."""
        if self._here is None:
            self._here = self._marks()
        index = bisect_right(self._here, position) - 1
        if index >= 0:
            position += self._there[index] - self._here[index]
        return position if isinstance(self._parent, str) else self._parent.original(position)

    def _marks(self) -> list[int]:
        """Note each place where the distance between the two texts changes."""
        here: list[int] = []
        shift = 0
        for match in self._pattern.finditer(self._source):
            start, end = match.span()
            width = len(self._to(match))
            if width == end - start:
                continue
            at = start + shift
            if width:
                here.append(at)
                self._there.append(start)
            here.append(at + width)
            self._there.append(end)
            shift += width - (end - start)
        return here


def plain_view(text: str) -> View:
    """Return the reading of a text beyond ASCII: look-alike characters folded, invisible ones left out."""
    return View(text.translate(_fold_table()), _INVISIBLE, _nothing)


def decoded_views(text: str) -> Iterator[View]:
    """Yield the readings of `text` in which escapes are undone, one level at a time."""
    view: View | str = text
    current = text
    for _level in range(_MAX_LEVELS):
        if not has_escapes(current):
            return
        view = View(view, _ESCAPE, _unescape)
        if view.text == current:
            return
        current = view.text
        yield view


def _nothing(_match: re.Match[str]) -> str:
    return ""


def has_escapes(text: str) -> bool:
    """Return whether `text` may hold an escape that `decoded_views` undoes."""
    # Single characters first: they are the cheapest thing to look for.
    return "%" in text or ("\\" in text and ("\\u" in text or "\\x" in text)) or ("&" in text and "&#" in text)


def _unescape(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3] or match[4]
    code = int(digits, 16) if digits else int(match[5])
    # Control characters stay escaped: they separate words, and `\n` in particular is read by the patterns themselves.
    return chr(code) if code >= _FIRST_PRINTABLE else match[0]


@cache
def _fold_table() -> dict[int, int | str]:
    """Map digits of all scripts, full-width and styled characters, odd spaces and homoglyphs to ASCII, one to one."""
    table: dict[int, int | str] = dict(_HOMOGLYPHS)
    for code in (*range(0xA0, 0xD7A4), *range(0xF900, 0x10000), *range(0x1D400, 0x1D800)):
        char = chr(code)
        plain = unicodedata.normalize("NFKC", char)
        if len(plain) == 1 and plain != char and plain.isascii():
            table[code] = ord(plain)
        elif char.isdecimal():
            table[code] = ord("0") + unicodedata.decimal(char)
        elif char.isspace():
            table[code] = ord(" ")
    return table
