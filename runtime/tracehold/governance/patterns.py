r"""Regular expressions whose cost is linear in the text, for policies that judge what a model wrote.

Python's `re` backtracks: `(a+)+b` on thirty letters takes minutes, and the texts here come from whoever can talk to the
model. So a pattern is compiled to a non-deterministic automaton (Thompson 1968) that reads each character once. What
one character matches (`[a-z]`, `\d`, `.`) is still asked of `re`, so classes and flags mean what they mean in Python.

Understood: literals, `.` (line breaks included), classes, `\d \w \s` and their opposites, escapes of punctuation,
`\n \r \t`, `\xHH`, `\uHHHH`, groups `(...)` and `(?:...)`, `|`, `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}`, and `(?i)` as
the first thing. A `^` at the start and a `$` at the end are allowed and change nothing: the whole text must match.
Anything else, such as look-around, back-references and lazy or possessive quantifiers, is refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

MAX_PATTERN_CHARS: Final = 1_000
MAX_STATES: Final = 2_000
"""States of the automaton, after `{m,n}` is written out; a character takes two to four."""
MAX_TEXT_CHARS: Final = 10_000
"""The longest text a pattern is asked about; a longer one cannot be judged."""

_MAX_CACHED: Final = 1_000
_MAX_NESTING: Final = 50
_ATOM: Final = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]"  # a class; as in `re`, a bracket that comes first is a member
    r"|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[dDwWsSnrt]|[^\w\s])"
    r"|[^\\()\[{*+?|^$]",
    re.DOTALL,
)
_REPEAT: Final = re.compile(r"\{(\d{1,4})(?:(,)(\d{0,4}))?\}")


class PatternError(ValueError):
    """A pattern is not of the subset understood here; the message says what and where."""


@dataclass(eq=False, slots=True)
class _State:
    """A place in the automaton: reads one character that `accepts`, or, when `None`, goes on without reading."""

    accepts: int | None = None
    to: list[_State] = field(default_factory=list)


_Piece: TypeAlias = tuple[_State, _State]
_Build: TypeAlias = Callable[[], _Piece]
"""A part of a pattern as a recipe, since `{2,5}` needs it several times."""


class LinearPattern:
    """A compiled pattern.

    Args:
        pattern: see the module's text.

    Raises:
        PatternError: it is too long, too large or of no understood form.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN_CHARS:
            raise PatternError(f"a pattern may have up to {MAX_PATTERN_CHARS} characters, not {len(pattern)}")
        self.pattern = pattern
        parser = _Parser(pattern)
        self._start, self._end = parser.parse()
        self._atoms = parser.atoms
        self._steps: dict[tuple[frozenset[_State], str], frozenset[_State]] = {}

    def matches(self, text: str) -> bool | None:
        """Say whether the whole of `text` matches; `None` when it is longer than `MAX_TEXT_CHARS`."""
        if len(text) > MAX_TEXT_CHARS:
            return None
        states = _closure([self._start])
        for character in text:
            states = self._step(states, character)
            if not states:
                return False
        return self._end in states

    def _step(self, states: frozenset[_State], character: str) -> frozenset[_State]:
        key = (states, character)
        known = self._steps.get(key)
        if known is None:
            reading = {state.accepts for state in states if state.accepts is not None}
            accepted = {atom for atom in reading if self._atoms[atom].fullmatch(character)}
            known = _closure([target for state in states if state.accepts in accepted for target in state.to])
            if len(self._steps) >= _MAX_CACHED:
                self._steps = {}  # replaced, not emptied: another thread may be reading it
            self._steps[key] = known
        return known


def _closure(states: list[_State]) -> frozenset[_State]:
    """Return `states` and all that is reached from them without reading a character."""
    found: set[_State] = set()
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        if state not in found:
            found.add(state)
            if state.accepts is None:
                waiting.extend(state.to)
    return frozenset(found)


class _Parser:
    """Recursive descent: alternatives of sequences of repeated atoms."""

    def __init__(self, pattern: str) -> None:
        self.atoms: list[re.Pattern[str]] = []
        self._flags = re.DOTALL
        self._text = pattern
        self._at = 0
        self._states = 0
        self._depth = 0

    def parse(self) -> _Piece:
        if self._text.startswith("(?i)"):
            self._flags |= re.IGNORECASE
            self._at = 4
        if self._peek() == "^":
            self._at += 1
        build = self._alternatives()
        if self._peek() == "$" and self._at == len(self._text) - 1:
            self._at += 1
        if self._at < len(self._text):
            raise self._fault("not understood here")
        return build()

    def _alternatives(self) -> _Build:
        options = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            options.append(self._sequence())
        return options[0] if len(options) == 1 else lambda: self._either(options)

    def _sequence(self) -> _Build:
        parts: list[_Build] = []
        while self._peek() not in {"", "|", ")"} and not self._closing_dollar():
            parts.append(self._repeated())
        return lambda: self._chain(parts)

    def _repeated(self) -> _Build:
        item = self._item()
        least, most = self._quantifier()
        if (least, most) == (1, 1):
            return item
        if self._peek() in {"*", "+", "?"} or _REPEAT.match(self._text, self._at):
            raise self._fault("a quantifier after a quantifier (also a lazy or possessive one) is not understood")
        return lambda: self._repeat(item, least, most)

    def _quantifier(self) -> tuple[int, int | None]:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if (mark := self._peek()) in simple:
            self._at += 1
            return simple[mark]
        counted = _REPEAT.match(self._text, self._at)
        if counted is None:
            return 1, 1
        least = int(counted[1])
        most = least if counted[2] is None else int(counted[3]) if counted[3] else None
        if most is not None and most < least:
            raise self._fault("the larger number comes first")
        self._at = counted.end()
        return least, most

    def _item(self) -> _Build:
        if self._peek() == "(":
            return self._group()
        found = _ATOM.match(self._text, self._at)
        if found is None:
            raise self._fault("not understood")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a class that later versions of Python will read in another way
                atom = re.compile(found[0], self._flags)
        except (re.error, FutureWarning) as error:
            raise self._fault("no valid class or escape") from error
        self._at = found.end()
        self.atoms.append(atom)
        number = len(self.atoms) - 1
        return lambda: self._read(number)

    def _group(self) -> _Build:
        opening = self._at
        self._at += 3 if self._text.startswith("(?:", self._at) else 1
        if self._peek() == "?":
            self._at = opening
            raise self._fault("only (...) and (?:...) are understood, and (?i) at the very start")
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise self._fault("too many groups inside each other")
        build = self._alternatives()
        if self._peek() != ")":
            self._at = opening
            raise self._fault("a group is not closed")
        self._at += 1
        self._depth -= 1
        return build

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _closing_dollar(self) -> bool:
        return self._peek() == "$" and self._at == len(self._text) - 1

    def _fault(self, what: str) -> PatternError:
        return PatternError(f"at character {self._at + 1}: {what}")

    def _new(self, accepts: int | None = None) -> _State:
        self._states += 1
        if self._states > MAX_STATES:
            raise PatternError(f"it grows beyond {MAX_STATES} states when repetitions are written out: repeat less")
        return _State(accepts)

    def _read(self, atom: int) -> _Piece:
        start, end = self._new(atom), self._new()
        start.to.append(end)
        return start, end

    def _chain(self, parts: list[_Build]) -> _Piece:
        start = end = self._new()
        for part in parts:
            head, tail = part()
            end.to.append(head)
            end = tail
        return start, end

    def _either(self, options: list[_Build]) -> _Piece:
        start, end = self._new(), self._new()
        for option in options:
            head, tail = option()
            start.to.append(head)
            tail.to.append(end)
        return start, end

    def _repeat(self, item: _Build, least: int, most: int | None) -> _Piece:
        start, end = self._chain([item] * least)
        if most is None:
            head, tail = item()
            turn = self._new()
            end.to.append(turn)
            turn.to.append(head)
            tail.to.append(turn)
            return start, turn
        last = self._new()
        for _ in range(most - least):
            end.to.append(last)
            head, tail = item()
            end.to.append(head)
            end = tail
        end.to.append(last)
        return start, last
