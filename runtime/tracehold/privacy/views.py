"""Other readings of a text: what it says once escapes, look-alike characters and invisible characters are undone.

A secret that was percent-encoded twice, written as `\\u0040`, set in full-width digits or split by a zero-width space is
the same secret. Each reading is searched like the text itself, and what is found is carried back to the places in
the original (FR-39).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import Final

_MAX_LEVELS: Final = 3
"""How often escapes are undone: percent-encoding twice is seen in practice, once more costs nothing when absent."""

_ESCAPE: Final = re.compile(
    r"%([0-9A-Fa-f]{2})|\\{1,4}u([0-9A-Fa-f]{4})|\\{1,4}x([0-9A-Fa-f]{2})|&#(?:[xX]([0-9A-Fa-f]{2,4})|([0-9]{2,5}));"
)
_INVISIBLE: Final = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]+")

# Letters of other scripts that are drawn like Latin ones, after the Unicode confusables data (UTS 39).
_HOMOGLYPHS: Final = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухԁԛԝһΑΒΕΖΗΙΚΜΝΟΡΤΥΧονıꞵ‐‑‒–—−﹣“”„‘’‚",
    "ABESIJKMHOPCTYXaesijopcyxdqwhABEZHIKMNOPTYXovib------" + "-" + '"""' + "'''",
)


class View:
    """A reading of a text and the way back from its positions to those of the text it was made from."""

    __slots__ = ("_origin", "_there", "text")

    def __init__(self, text: str, here: list[int], there: list[int]) -> None:
        self.text = text
        self._origin = here
        self._there = there

    def original(self, position: int) -> int:
        """Return where `position` of this reading stands in the text it was made from."""
        if not self._origin:
            return position
        index = bisect_right(self._origin, position) - 1
        return position if index < 0 else position - self._origin[index] + self._there[index]


def plain_view(text: str) -> View:
    """Return the reading to search first: the text itself, or its folded form when it is not ASCII."""
    if text.isascii():
        return View(text, [], [])
    folded = text.translate(_fold_table()) if _foldable().search(text) else text
    return _replace(_INVISIBLE, folded, lambda _match: "")


def decoded_views(text: str) -> Iterator[View]:
    """Yield the readings of `text` in which escapes are undone, one level at a time."""
    view = View(text, [], [])
    for _level in range(_MAX_LEVELS):
        if not has_escapes(view.text):
            return
        deeper = _replace(_ESCAPE, view.text, _unescape)
        if deeper.text == view.text:
            return
        view = _compose(view, deeper)
        yield view


def has_escapes(text: str) -> bool:
    """Return whether `text` may hold an escape that `decoded_views` undoes."""
    # Single characters first: they are the cheapest thing to look for.
    return "%" in text or ("\\" in text and ("\\u" in text or "\\x" in text)) or ("&" in text and "&#" in text)


def _unescape(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3] or match[4]
    code = int(digits, 16) if digits else int(match[5])
    # Control characters stay escaped: they separate words, and `\n` in particular is read by the patterns themselves.
    return chr(code) if code >= 32 and code <= sys.maxunicode else match[0]  # noqa: PLR2004


def _replace(pattern: re.Pattern[str], text: str, to: object) -> View:
    parts: list[str] = []
    here: list[int] = []
    there: list[int] = []
    length = last = 0
    for match in pattern.finditer(text):
        start, end = match.span()
        new: str = to(match)  # type: ignore[operator]
        parts += (text[last:start], new)
        length += start - last
        if len(new) != end - start:
            if new:
                here.append(length)
                there.append(start)
            here.append(length + len(new))
            there.append(end)
        length += len(new)
        last = end
    if not parts:
        return View(text, [], [])
    parts.append(text[last:])
    return View("".join(parts), here, there)


def _compose(outer: View, inner: View) -> View:
    """Return `inner`, a reading of `outer`'s text, with a way back to what `outer` was made from."""
    here = sorted({*inner._origin, *(_forward(inner, position) for position in outer._origin)})  # noqa: SLF001
    return View(inner.text, here, [outer.original(inner.original(position)) for position in here])


def _forward(inner: View, position: int) -> int:
    index = bisect_right(inner._there, position) - 1  # noqa: SLF001
    return position if index < 0 else position - inner._there[index] + inner._origin[index]  # noqa: SLF001


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


@cache
def _foldable() -> re.Pattern[str]:
    """Return a class of the characters that folding changes; most texts beyond ASCII hold none of them."""
    return re.compile("[" + "".join(map(chr, sorted(_fold_table()))) + "]")
