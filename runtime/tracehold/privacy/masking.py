"""Replacing sensitive text, so that doing it twice changes nothing (RED-01, RED-03)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tracehold.privacy.detection import Stretch, scanner_for
from tracehold.privacy.detector import Detector
from tracehold.privacy.detectors import DEFAULT_DETECTORS

_REMEMBERED_LEN: Final = 96
_REMEMBERED_MAX: Final = 8192
_PASSES_MAX: Final = 4
_JOINING: Final = frozenset("_-+./@=:")
_AHEAD: Final = 96
"""How much more than is kept is searched: a finding that is masked is longer than its mask, and the rest moves up."""
_HEAD_MARGIN: Final = 8192
"""More than any detector but the private key reads from its start, and that one masks to the end of what it sees."""

_JSON_STARTS: Final = ("{", "[")
_BEFORE_VALUE: Final = (":", "[", ",")
_AFTER_VALUE: Final = (",", "}", "]")
_SPACES_MAX: Final = 64
_QUOTES: Final = re.compile(r'\\.|"', re.DOTALL)


class TextMasker:
    """Replaces each sensitive stretch of a text. Masking a masked text changes nothing (RED-01).

    Args:
        mask: called with the detector's name, returns what stands in the place of its findings.
        detectors: what to look for.
        extra_patterns: more regular expressions, strings or compiled, added to the detectors (TRC-07); their
            findings are called `custom`.

    Raises:
        re.error: a string in `extra_patterns` is not a regular expression; the message says which.
        TypeError: an entry is neither a string nor compiled for strings.
    """

    __slots__ = ("_extra", "_mask", "_masks", "_scanner", "known_clean")

    def __init__(
        self,
        *,
        mask: Callable[[str], str],
        detectors: Sequence[Detector] = DEFAULT_DETECTORS,
        extra_patterns: Iterable[str | re.Pattern[str]] = (),
    ) -> None:
        self._mask = mask
        extra = (extra_patterns,) if isinstance(extra_patterns, (str, re.Pattern)) else tuple(extra_patterns)
        self._scanner = scanner_for(detectors)
        self._extra = tuple(_compiled(place, pattern) for place, pattern in enumerate(extra))
        # What we put there ourselves stays as it is, whatever it now looks like to another detector (RED-01).
        self._masks = frozenset(mask(detector.name) for detector in detectors)
        self.known_clean: set[str] = set()
        """Short texts without findings. Never others: a cache must not keep a secret alive."""

    def __call__(self, text: str) -> str:
        """Return `text` with its sensitive stretches replaced, or `text` itself when there are none."""
        known = self.known_clean
        if text in known:
            return text
        masked, _ = self._masked(text)
        for pattern in self._extra:
            masked = pattern.sub(self._mask_extra, masked)
        if masked == text:
            if len(text) <= _REMEMBERED_LEN:
                if len(known) >= _REMEMBERED_MAX:
                    known.clear()
                known.add(text)
            return text
        return masked

    def _masked(self, text: str, stop: int | None = None) -> tuple[str, int]:
        """Replace the findings before `stop`; return the text, and where in it the place `stop` now is.

        And again what stands out only then, so that masking twice changes nothing (RED-01): a mask ends the word it
        stands in. Where a finding touches other text, that can make a number or a name of the rest that was none
        before.
        """
        masks = self._masks
        for _pass in range(_PASSES_MAX):
            found = [each for each in self._scanner.find(text, stop) if text[each[0] : each[1]] not in masks]
            if not found:
                break
            masked = self._replaced(text, found)
            if stop is not None:
                unchanged = len(text) - max(stop, found[-1][1])
                stop = len(masked) - unchanged
            again = masked != text and _any_touches(text, found)
            text = masked
            if not again:
                break
        return text, len(text) if stop is None else min(stop, len(text))

    def _replaced(self, text: str, found: list[Stretch]) -> str:
        parts: list[str] = []
        last = 0
        is_json = text.lstrip()[:1] in _JSON_STARTS
        in_string = False
        for start, end, name in found:
            mask = self._mask(name)
            if is_json:
                in_string ^= _flips(text, last, start)
                if not in_string and _is_bare_value(text, start, end):
                    mask = f'"{mask}"'  # what stood there was a number: the text must stay JSON
                in_string ^= _flips(text, start, end)
            parts += (text[last:start], mask)
            last = end
        parts.append(text[last:])
        return "".join(parts)

    def head(self, text: str, keep: int) -> tuple[str, int]:
        """Return the masked beginning of `text`, at least `keep` characters of it, and how many follow unmasked.

        What follows goes when the text is cut, so nothing is looked for that begins there: with 200 characters kept
        that saves a third of the time for a tool's result of 500, and three quarters for one of 16,000. What begins
        before it is seen whole, except that of a text far longer than what is kept the end is not read at all: a secret
        that the end of the reading cuts in two may go unnoticed, and none of the characters there is kept.
        """
        length = len(text)
        stop = keep + _AHEAD
        if stop >= length:
            return self(text), 0
        if self._extra:  # a pattern of the user may begin and end anywhere
            return self._head_of_windows(text, keep)
        window = keep * 2 + 2 * _HEAD_MARGIN
        while True:
            seen = text if window >= length else text[:window]
            masked, clean = self._masked(seen, stop)
            if clean >= keep:
                return masked[:clean], length - len(seen) + len(masked) - clean
            if stop >= length:
                return masked, 0
            stop *= 4
            window = max(window, stop + _HEAD_MARGIN)

    def _head_of_windows(self, text: str, keep: int) -> tuple[str, int]:
        """Mask longer and longer beginnings as a whole; the last characters of one are never among those kept."""
        window = keep * 2 + 2 * _HEAD_MARGIN
        while window < len(text):
            masked = self(text[:window])
            if len(masked) >= keep + _HEAD_MARGIN:
                return masked, len(text) - window
            window *= 2
        return self(text), 0

    def _mask_extra(self, match: re.Match[str]) -> str:
        return self._mask("custom") if match[0] else ""


def _flips(text: str, start: int, end: int) -> bool:
    """Return whether the quotes between two places of a JSON text lead into or out of a string."""
    return bool(sum(found[0] == '"' for found in _QUOTES.finditer(text, start, end)) % 2)


def _is_bare_value(text: str, start: int, end: int) -> bool:
    before, after = text[max(0, start - _SPACES_MAX) : start].rstrip(), text[end : end + _SPACES_MAX].lstrip()
    return before[-1:] in _BEFORE_VALUE and after[:1] in _AFTER_VALUE


def _any_touches(text: str, found: list[Stretch]) -> bool:
    """Return whether one of the findings is a part of a longer word."""
    for start, end, _ in found:
        before, after = text[start - 1 : start], text[end : end + 1]
        if after.isalnum() or before.isalnum() or after in _JOINING or before in _JOINING:
            return True
    return False


def _compiled(place: int, pattern: object) -> re.Pattern[str]:
    """Return a pattern ready for use; what is wrong with one is told without its text, which may name a secret."""
    if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
        return pattern
    if not isinstance(pattern, str):
        raise TypeError(
            f"extra_secret_patterns[{place}] is of type {type(pattern).__name__}; give a regular expression for text, "
            "as a string or compiled"
        )
    try:
        return re.compile(pattern)
    except re.error as error:
        raise re.error(f"extra_secret_patterns[{place}] is no regular expression: {error}") from error
