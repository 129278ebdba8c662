"""What is worth searching in a text: the literals and shapes whose punctuation stands in it.

Most literals of the detectors hold a character that few texts hold (`:`, `=`, `@`, `-----begin`). One pass of C code
tells which of these characters a text has; what that leaves to search is worked out once for each set of them. Of 100
literals it leaves about 20 for prose with an e-mail address, and 5 for an identifier.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tracehold.privacy.detector import Detector, Where

_PLANS_MAX: Final = 512
"""A plan is a few lists of pointers, about 2 KB: a megabyte at most."""
_PLANNED_LEN: Final = 4096
"""In a longer text nearly all of these characters stand, and to look for each is cheaper than to read it once more."""
_SPACE: Final = ord(" ")

Ranked = tuple[int, Detector]
"""A detector and its rank."""

Shaped = tuple[int, Detector, Sequence[str], Sequence[str]]
"""Rank and detector, the shapes that can stand in the text, and the hints."""


class Group(NamedTuple):
    """Detectors that share their requirement."""

    requires: tuple[str, ...]
    """One of these must occur, else the group is done; none when that is known already."""

    anywhere: Sequence[Ranked]
    at_hint: Sequence[tuple[str, int, Detector]]


class Plan(NamedTuple):
    """What to search in a text."""

    groups: Sequence[Group]
    shaped: Sequence[Shaped]
    """Only in a text with digits in a row."""


class SearchPlans:
    """What to search, cut down to what can occur in a text. Holds no text, only sets of characters."""

    def __init__(self, ranked: Sequence[Ranked]) -> None:
        """Arrange those of the detectors that have hints or shapes."""
        hinted = [(rank, d) for rank, d in ranked if d.hints and not d.shapes]
        shaped = [(rank, d, d.shapes, d.hints) for rank, d in ranked if d.shapes]
        self._all = Plan(_grouped(hinted), shaped)
        marks = frozenset(_marks("".join(each for _, d in ranked for each in (*d.hints, *d.requires, *d.shapes))))
        # Nearly every text of some length has many spaces: one test for them all, and the set below is made faster.
        self._others = bytes(code for code in range(256) if code not in marks or code == _SPACE)
        self._spaced: dict[frozenset[int], Plan] = {}
        self._unspaced: dict[frozenset[int], Plan] = {}

    def for_text(self, raw: bytes) -> Plan:
        """Return what to search in a text, given as ASCII bytes with `?` for every other character."""
        if len(raw) > _PLANNED_LEN:
            return self._all
        plans = self._spaced if _SPACE in raw else self._unspaced
        marks = frozenset(raw.translate(None, self._others))
        plan = plans.get(marks)
        if plan is None:
            if len(plans) >= _PLANS_MAX:
                plans.clear()
            plan = plans[marks] = self._cut_down(marks | {_SPACE} if plans is self._spaced else marks)
        return plan

    def _cut_down(self, marks: frozenset[int]) -> Plan:
        groups = [cut for group in self._all.groups if (cut := _cut_group(group, marks)) is not None]
        shaped = [
            (rank, detector, possible, tuple(hint for hint in hints if marks.issuperset(_marks(hint))))
            for rank, detector, shapes, hints in self._all.shaped
            if (possible := [shape for shape in shapes if marks.issuperset(_marks(shape))])
        ]
        return Plan(groups, shaped)


def _grouped(hinted: Sequence[Ranked]) -> list[Group]:
    groups: dict[tuple[str, ...], tuple[list[Ranked], list[tuple[str, int, Detector]]]] = {}
    for rank, detector in hinted:
        anywhere, at_hint = groups.setdefault(detector.requires, ([], []))
        if detector.where is Where.AT_HINT:
            at_hint += [(hint, rank, detector) for hint in detector.hints]
        else:
            anywhere.append((rank, detector))
    return [Group(requires, *lists) for requires, lists in groups.items()]


def _cut_group(group: Group, marks: frozenset[int]) -> Group | None:
    """Return what of `group` can occur in a text with these marks, or `None` when nothing can."""
    requires = tuple(literal for literal in group.requires if marks.issuperset(_marks(literal)))
    if group.requires and not requires:
        return None
    if any(len(literal) == 1 and literal != "?" and _marks(literal) for literal in requires):
        requires = ()  # it stands in the text, that is what `marks` says; of `?` it does not
    at_hint = [each for each in group.at_hint if marks.issuperset(_marks(each[0]))]
    anywhere = [each for each in group.anywhere if any(marks.issuperset(_marks(hint)) for hint in each[1].hints)]
    return Group(requires, anywhere, at_hint) if anywhere or at_hint else None


def _marks(literal: str) -> Iterable[int]:
    """Return the characters of a literal that are neither letter nor digit; `?` is any beyond ASCII."""
    return [code for code in literal.encode("ascii", "replace") if not chr(code).isalnum()]
