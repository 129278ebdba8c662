"""Telling a generated credential from an identifier that people wrote, by its shape alone (TRC-05, DEC-10, FR-43)."""

from __future__ import annotations

import re
from typing import Final

_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9]+")
_HEX: Final = re.compile(r"(?:0[xX])?[0-9a-fA-F]+")
_HEX_IDENTIFIER_LENGTHS: Final = frozenset({32, 40, 64, 96, 128})

_MEAN_PIECE: Final = 3.1
"""Letters and digits drawn at random change their class every 1.6 to 2.5 characters; words do so every 4 or more."""
_VOWEL: Final = re.compile("[aeiouyAEIOUY]")
_VOWELS_MIN: Final = 0.26
"""Words have two vowels in five letters (with y), letters drawn at random three in thirteen."""
_MANY_LETTERS: Final = 16
"""So many tell words from letters drawn at random also when digits stand between them."""
_WORD_MAX: Final = 24
_SHORT_SEGMENT: Final = 7
_HEX_SEGMENT_MAX: Final = 20
_NUMBERS_MAX: Final = 2
"""More numbers than that in one segment of one case and no word's length are not what people write."""
_UNEXPLAINED_MIN: Final = 20


def is_hex_identifier(text: str) -> bool:
    """Return whether `text` is hexadecimal in a length that digests and trace ids have (DEC-10)."""
    return len(text) in _HEX_IDENTIFIER_LENGTHS and _HEX.fullmatch(text) is not None


def looks_generated(text: str) -> bool:
    """Return whether `text` is drawn at random rather than made of words, numbers and short codes.

    The text is taken apart at its punctuation. A part is explained when it is short, a number, a word of at most
    24 letters, hexadecimal of at most 20 digits, or words joined by capitals and digits. Twenty characters that
    nothing explains make a credential.
    """
    unexplained = 0
    for segment in _SEGMENT.findall(text):
        if len(segment) > _SHORT_SEGMENT and not _is_wordlike(segment):
            unexplained += len(segment)
            if unexplained >= _UNEXPLAINED_MIN:
                return True
    return False


def _is_wordlike(segment: str) -> bool:
    length = len(segment)
    if length <= _WORD_MAX and (segment.isalpha() and (segment.islower() or segment.isupper() or segment.istitle())):
        return True
    if _HEX.fullmatch(segment):
        return length <= _HEX_SEGMENT_MAX
    pieces = _PIECE.findall(segment[:512])
    if length > _WORD_MAX and (segment.islower() or segment.isupper()) and sum(map(str.isdigit, pieces)) > _NUMBERS_MAX:
        return False
    letters = sum(map(str.isalpha, segment))
    if (segment.isalpha() or letters >= _MANY_LETTERS) and len(_VOWEL.findall(segment)) < letters * _VOWELS_MIN:
        return False
    return length >= _MEAN_PIECE * len(pieces) and max(map(len, pieces)) <= _WORD_MAX


def mean_piece(text: str) -> float:
    """Return the mean length of the stretches of one letter case or of digits in `text`; 0 when it has none."""
    pieces = _PIECE.findall(text)
    return sum(map(len, pieces)) / len(pieces) if pieces else 0.0
