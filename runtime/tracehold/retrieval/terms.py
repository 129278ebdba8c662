"""From texts in any script to the terms that are indexed and searched for.

Written here, and not left to SQLite's tokenizers, for three reasons: they find nothing in scripts that are written
without spaces, they drop emoji, and their tables of Unicode differ between builds, so that an index made by one
would not be read alike by another.

Text and query go through the same steps:

1. Compatibility forms, upper case and accents are folded (`Ärger`, `ARGER` and `arger` are one word). For a German
   umlaut the spelling without it counts too (`Ärger` is also `aerger`).
2. Punctuation separates. `order_id-42` and `a@example.com` are their words; searched for as they stand, they are
   also a phrase, so that the text with the whole of it comes first. `userName` is itself, `user` and `name`.
3. Chinese, Japanese and Korean are cut into overlapping pairs of characters, Thai, Lao, Burmese and Khmer into
   triples. The last ones of a run are shorter, so that each character begins a term and a search for one character
   finds it.
4. A symbol, such as an emoji, is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_QUERY_TERMS: Final = 64
"""Further terms of a query are ignored: each costs a look-up, and the first ones say what is meant."""

MAX_QUERY_CHARS: Final = 20_000
"""Where a query is cut before it is looked at."""

_MAX_WORD_CHARS: Final = 64
"""Longer words are cut, in texts and queries alike: such a run is data, not language."""

_MAX_PHRASE_TERMS: Final = 32
_MIN_PREFIX_CHARS: Final = 3

_UMLAUT: Final = "\u0308"
_UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})

_PAIRED: Final = (  # kana, Chinese characters with their extensions, Korean syllables
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003fffd"
)
_TRIPLED: Final = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"
_RUNS: Final = re.compile(f"([{_PAIRED}]+)|([{_TRIPLED}]+)|([^{_PAIRED}{_TRIPLED}]+)")
_HUMPS: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One thing a query looks for: terms that stand side by side, mostly a single one.

    Attributes:
        terms: at least one.
        is_beginning: it is a word, and may be the beginning of a longer one as well.
        is_fragment: its last term is shorter than those of its script, and can only be the beginning of one.
    """

    terms: tuple[str, ...]
    is_beginning: bool = False
    is_fragment: bool = False


def terms_of(text: str) -> Iterator[str]:
    """Yield the terms of a text in order; each consists of letters, digits, marks and symbols only."""
    for run in _runs(text):
        yield from run.indexed()


def wanted_by(query: str) -> list[Wanted]:
    """Return what a query looks for, at most `MAX_QUERY_TERMS` items; any one of them makes a hit."""
    found: dict[Wanted, None] = {}
    for wanted in _wanted(query[:MAX_QUERY_CHARS]):
        found[wanted] = None
        if len(found) == MAX_QUERY_TERMS:
            break
    return list(found)


def _wanted(query: str) -> Iterator[Wanted]:
    for chunk in query.split():
        runs = list(_runs(chunk))
        for run in runs:
            yield from run.wanted()
        phrase = [term for run in runs[:-1] for term in run.indexed()]
        if runs:
            phrase += runs[-1].opening()
        if 1 < len(phrase) <= _MAX_PHRASE_TERMS:
            yield Wanted(tuple(phrase), is_fragment=runs[-1].is_short)


@dataclass(frozen=True, slots=True)
class _Run:
    """Characters of one kind: a word (`width` 0), or text without spaces that is cut into pieces of `width`."""

    text: str
    width: int

    @property
    def is_short(self) -> bool:
        """Whether it is shorter than a piece, so that it can only be the beginning of one."""
        return len(self.text) < self.width

    def indexed(self) -> list[str]:
        """The terms it is found by."""
        if self.width:
            return [self.text[start : start + self.width] for start in range(len(self.text))]
        return _words(self.text)

    def opening(self) -> list[str]:
        """The terms that a longer run beginning with this one has as well."""
        terms = self.indexed()
        return terms[: max(1, len(terms) - self.width + 1)] if self.width else terms

    def wanted(self) -> Iterator[Wanted]:
        """What to look for."""
        if self.width:
            yield from (Wanted((term,), is_fragment=self.is_short) for term in self.opening())
            return
        yield from (Wanted((word,), is_beginning=len(word) >= _MIN_PREFIX_CHARS) for word in _words(self.text))


def _runs(text: str) -> Iterator[_Run]:
    for paired, tripled, word in _RUNS.findall(_cleaned(text)):
        if paired:
            yield _Run(paired, 2)
        elif tripled:
            yield _Run(tripled, 3)
        else:
            yield from (_Run(part, 0) for part in word.split())


def _words(word: str) -> list[str]:
    folded = word.casefold()
    if not word.isascii():
        plain = unicodedata.normalize("NFC", unicodedata.normalize("NFD", folded).replace(_UMLAUT, ""))
        words = dict.fromkeys([plain, folded.translate(_UMLAUTS) if plain != folded else plain])
    else:
        words = dict.fromkeys([folded])
        if folded[1:] != word[1:] and not word.isupper() and len(word) <= _MAX_WORD_CHARS:
            humps = _HUMPS.findall(word)
            words.update(dict.fromkeys(hump.casefold() for hump in humps) if len(humps) > 1 else {})
    # A mark that stands alone leaves nothing.
    return [kept[:_MAX_WORD_CHARS] for kept in words if kept.strip(_UMLAUT)]


def _cleaned(text: str) -> str:
    if text.isascii():
        return text.translate(_characters)
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", text).translate(_characters))


_ACCENTS: Final = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef]"
)
"""Marks that a reader may leave out, and the stretching stroke of Arabic. Those of Indic scripts are vowels."""


class _Characters(dict[int, str | None]):
    """What becomes of each character; filled as characters turn up, at most one entry each."""

    def __missing__(self, code: int) -> str | None:
        replacement = self[code] = _replacement(chr(code))
        return replacement


def _replacement(character: str) -> str | None:
    if character == _UMLAUT:
        return character
    category = unicodedata.category(character)
    if _ACCENTS.match(character) or category == "Sk" or (category == "Cf" and character != "\u200b"):
        return None
    if category[0] in "LNM" or category == "Co":
        return character
    # Not yet assigned in this Python's tables means a newer emoji, most likely.
    is_symbol = category[0] == "S" or category == "Cn"
    return f" {character} " if is_symbol and not character.isascii() else " "


_characters: Final = _Characters()
