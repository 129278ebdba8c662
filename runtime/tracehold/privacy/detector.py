"""What a detector is: data that says what to look for, and where looking is worth while."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Where(Enum):
    """Where in a text a detector's pattern is tried. Each choice keeps the whole search linear (RED-21).

    Attributes:
        ANYWHERE: at every position, once one of the hints occurs (or always, without hints).
        AT_HINT: only at the places where a hint stands; the pattern must begin with the hint.
        AT_SHAPE: only at the places where one of the shapes stands; the pattern must begin with it.
        AT_RUN: only at the start of each maximal run of at least 16 letters, digits, `_` and `-`.
    """

    ANYWHERE = "anywhere"
    AT_HINT = "at_hint"
    AT_SHAPE = "at_shape"
    AT_RUN = "at_run"


@dataclass(frozen=True, slots=True)
class Detector:
    """One kind of sensitive text.

    Attributes:
        name: what a finding is called, as in `[REDACTED:<name>]`.
        pattern: the regular expression. Its cost at one position must be bounded, or paid once per run.
        hints: lower-case literals one of which must occur, else the pattern is not run.
        check: called with a match; false leaves the text alone (RED-09).
        group: the group that is the secret; the rest of the match is context and stays.
        where: where the pattern is tried.
        requires: lower-case literals one of which must occur as well; shared by many detectors, so tested first. A
            single character is fifty times cheaper to test than a longer literal.
        shapes: the same for the text's shape, in which `0` is any digit, `A` any capital, `a` any small letter and all
            else itself. A detector with shapes is tried only in a text with four digits in a row.
        before: characters that belong to the finding when they stand directly before it (at most 64 of them; letters
            beyond ASCII always do). At least one must stand there.
        by_look: the finding rests on how the text looks, not on a word or prefix that names it; public material
            (certificates, public keys, images) is then passed over.
    """

    name: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...] = ()
    check: Callable[[re.Match[str]], bool] | None = None
    group: int | str = 0
    where: Where = Where.ANYWHERE
    requires: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    before: str = ""
    by_look: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A sensitive stretch of a text: `text[start:end]`, found by the detector called `name`."""

    start: int
    end: int
    name: str
