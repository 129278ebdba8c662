"""What the pattern redactor looks for: patterns of the user, and the built-in ones (RED-04, RED-07, RED-09)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tracehold.core.errors import ConfigurationError
from tracehold.privacy.checks import digits_of, is_ssn
from tracehold.privacy.detector import Detector, Where
from tracehold.privacy.detectors import DEFAULT_DETECTORS
from tracehold.privacy.vocabulary import words

_NAME: Final = re.compile(r"[^\[\]\x00-\x1f\x7f]{1,64}")

Check = Callable[[re.Match[str]], bool]


class Pattern:
    """A named regular expression, with an optional check that can veto a match (RED-09).

    The search runs on the event loop. The built-in patterns cost time in proportion to the text, whatever it is
    (RED-21); a pattern of your own costs what it costs, so bound its repeats (`{1,64}`, not `+` beside `+`). It is
    applied to keys as well (DEC-09): one that matches plain words renames the fields of an event.

    Attributes:
        name: stands in `[REDACTED:<name>]`.
        regex: compiled. An empty match is passed over.
        check: called with a match; false leaves the match alone. What it raises reaches the caller of `redact`:
            an event that cannot be judged is not passed on.
    """

    __slots__ = ("check", "name", "regex")

    def __init__(self, name: str, regex: str | re.Pattern[str], check: Check | None = None) -> None:
        """Make a pattern.

        Args:
            name: 1 to 64 characters, no brackets and no control characters.
            regex: a regular expression for text, or its source.
            check: tells a real find from a look-alike, such as by a check digit.

        Raises:
            ConfigurationError: the name cannot stand in `[REDACTED:<name>]`, or the expression is for bytes.
            re.error: `regex` is no regular expression.
        """
        if _NAME.fullmatch(name) is None or not name.strip():
            raise ConfigurationError("a Pattern's name has 1 to 64 characters and no brackets; choose another name")
        compiled = re.compile(regex)
        if not isinstance(compiled.pattern, str):
            raise ConfigurationError(f"the regex of Pattern {name!r} is for bytes; events hold text, so give a str")
        self.name = name
        self.regex: re.Pattern[str] = compiled
        self.check = check

    def __repr__(self) -> str:
        return f"Pattern({self.name!r}, {self.regex.pattern!r})"


class BuiltInPattern(Pattern):
    """A pattern that stands for detectors, which find more than one expression can and in linear time (RED-21).

    `regex` and `check` are its plainest form, for use in a `Pattern` of your own.
    """

    __slots__ = ("detectors",)

    def __init__(self, name: str, detectors: Iterable[Detector], regex: str | None = None) -> None:
        """Name `detectors`, whose first one gives the plain form unless `regex` does."""
        self.detectors = tuple(dataclasses.replace(each, name=name) for each in detectors)
        first = self.detectors[0]
        super().__init__(name, regex or first.pattern, None if regex else first.check)

    def __repr__(self) -> str:
        return f"<built-in pattern {self.name!r}>"


# AWS issues ids in the base32 alphabet, which has no 0, 1, 8 and 9; examples and documents use them all the same.
_AWS_AS_WRITTEN: Final = Detector(
    name="secret", pattern=re.compile(r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"), where=Where.AT_RUN
)
# RFC 2045 section 6.8: lines of 76 characters. A body read as one costs one look, not one a line (RED-21); sixteen
# lines at most, since a body that is no secret is read again from each of its lines.
_MIME_LINES: Final = re.compile(
    r"[A-Za-z0-9+/]{76}(?:\r?\n[A-Za-z0-9+/]{76}){1,15}"
    r"(?:\r?\n(?:[A-Za-z0-9+/]{40,75}+={0,2}|[A-Za-z0-9+/]{1,75}+={1,2}))?(?![A-Za-z0-9+/=])"
)


def _table() -> Iterator[Detector]:
    for detector in DEFAULT_DETECTORS:
        if detector.name == "base64":
            yield dataclasses.replace(detector, pattern=_MIME_LINES)
        yield detector
    yield _AWS_AS_WRITTEN


_DETECTORS: Final = tuple(_table())
PRECEDENCE: Final = {detector.pattern: place for place, detector in enumerate(_DETECTORS)}
"""Where two detectors overlap, the lower one gives the name."""


def _called(names: str) -> list[Detector]:
    wanted = words(names)
    return [detector for detector in _DETECTORS if detector.name in wanted]


def _is_possible_ssn(match: re.Match[str]) -> bool:
    return is_ssn(digits_of(match[1]))


def _with_ssn_check(detector: Detector) -> Detector:
    """Leave impossible numbers alone where a label stands before them, too (RED-06)."""
    return detector if detector.check else dataclasses.replace(detector, check=_is_possible_ssn)


_SSN_FORM: Final = re.compile(r"\d{3}([ -]?)\d\d\1\d{4}")


def _but_impossible_ssn(check: Check) -> Check:
    def assigned(match: re.Match[str]) -> bool:
        value = match["secret"]
        named_ssn = match["name"][-3:].lower() == "ssn"
        if named_ssn and _SSN_FORM.fullmatch(value) and not is_ssn(digits_of(value)):
            return False
        return check(match)

    return assigned


def _secret_detectors() -> list[Detector]:
    found = _called(
        "secret private_key basic authorization cookie url_credentials url_signature password assignment base64"
        " long_run"
    )
    return [
        dataclasses.replace(each, check=_but_impossible_ssn(each.check))
        if each.check and "ssn" in each.hints  # an assignment, whose name and value are groups
        else each
        for each in found
    ]


EMAIL: Final[Pattern] = BuiltInPattern(
    "email", _called("email"), r"[\w.!#$%&*+~^-]{1,64}@(?:[^\W_][\w-]{0,62}\.){1,8}[^\W\d_][\w-]{1,23}"
)
"""E-mail addresses."""
CARD: Final[Pattern] = BuiltInPattern("card", _called("card"))
"""Payment card numbers: an issuer's range, its length, the Luhn check; as text, and as a number (RED-05, DEC-09)."""
US_SSN: Final[Pattern] = BuiltInPattern("ssn", map(_with_ssn_check, _called("ssn")))
"""US social security numbers; impossible ones stay (RED-06)."""
SECRET: Final[Pattern] = BuiltInPattern("secret", _secret_detectors())
"""API keys and tokens, private keys, passwords in URLs, settings, headers and commands, long random runs (RED-07)."""
JWT: Final[Pattern] = BuiltInPattern("jwt", _called("jwt"))
"""JSON web tokens."""
BEARER: Final[Pattern] = BuiltInPattern("bearer", _called("bearer"))
"""Bearer tokens; the word `Bearer` stays."""

DEFAULT_PATTERNS: Final[tuple[Pattern, ...]] = (EMAIL, CARD, US_SSN, SECRET, JWT, BEARER)
"""What is looked for unless told otherwise (RED-04)."""

PERSONAL_PATTERNS: Final[tuple[Pattern, ...]] = tuple(
    BuiltInPattern(name, _called(name))
    for name in ("phone", "iban", "passport", "bank_account", "national_insurance", "home")
)
"""What the Tracer masks beyond the default patterns: phone and account numbers, papers, account names in paths.

Not among the defaults, since a run reads its own log: an agent that calls a number or opens a file under `/home` would
get the mask. `PatternRedactor((*DEFAULT_PATTERNS, *PERSONAL_PATTERNS))` finds all that the Tracer finds.
"""
