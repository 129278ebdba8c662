"""Foreign text made safe to stand beside our own, and texts cut to a number of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tracehold.core.tokens import TokenCounter

_UNSENDABLE: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f\ud800-\udfff]")
"""Lone surrogates cannot be encoded for a provider, and control characters are not words; tabs and line ends stay."""

_QUOTE: Final = "> "
_CHARS_PER_TOKEN: Final = 4


def quote(text: str) -> str:
    """Return `text` with "> " before each line, so that no line of it can pass for a header or marker of ours.

    What Unicode calls a line end counts as one, and what cannot be sent becomes U+FFFD.
    """
    return "\n".join(_QUOTE + line for line in sendable(text).splitlines())


def sendable(text: str) -> str:
    """Return `text` with lone surrogates and control characters replaced by U+FFFD."""
    return _UNSENDABLE.sub("\ufffd", text)


def longest_prefix(text: str, fits: Callable[[str], bool], *, guess: int) -> str:
    """Return the longest prefix that fits, or `""`; `fits` must hold for every prefix of what it holds for.

    It is asked about texts near the answer's length only: a text of megabytes costs no more than what is kept of it.

    Args:
        text: what to cut.
        fits: whether a prefix is short enough.
        guess: about how many characters fit.
    """
    kept, tried = 0, min(len(text), max(1, guess))
    while fits(text[:tried]):
        if tried == len(text):
            return text
        kept, tried = tried, min(len(text), 2 * tried)
    while tried - kept > 1:
        middle = (kept + tried) // 2
        kept, tried = (middle, tried) if fits(text[:middle]) else (kept, middle)
    return text[:kept]


def cut_to_tokens(text: str, max_tokens: int, token_counter: TokenCounter) -> str:
    """Return the longest beginning of `text` that takes at most `max_tokens`, without trailing white space if cut."""
    cut = longest_prefix(text, lambda part: token_counter(part) <= max_tokens, guess=guess_chars(max_tokens))
    return cut if len(cut) == len(text) else cut.rstrip()


def guess_chars(tokens: int) -> int:
    """Return about how many characters make `tokens`: where a search for the exact cut begins."""
    return max(1, tokens) * _CHARS_PER_TOKEN
