"""What a policy may ask about an argument: `{argument = "path.to.it", op = "under", value = "/srv/data"}`.

An answer is `True`, `False` or `None`: "cannot be told", because the argument is missing, null, or of another type than
the question is about. A policy fails closed on it: a deny rule takes it for a yes, an allow rule for a no (Kleene's
three-valued logic, so that a condition which is plainly false still settles a conjunction).

Texts are compared code point by code point: no folding of case, no Unicode normalisation, no decoding of percent or
shell escapes. A deny rule on a text can therefore be walked around by whoever finds another spelling that the tool
understands; prefer allow rules that list what is fine.
"""

from __future__ import annotations

import fnmatch
import math
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from tracehold.core.errors import CanonicalJsonError, ConfigurationError
from tracehold.governance.canonical import canonical_json
from tracehold.governance.patterns import LinearPattern, PatternError

Answer: TypeAlias = bool | None


def all_of(answers: Iterable[Answer]) -> Answer:
    """Return `False` if any answer is, else `None` if any is unknown, else `True`."""
    found = set(answers)
    return False if False in found else None if None in found else True


def any_of(answers: Iterable[Answer]) -> Answer:
    """Return `True` if any answer is, else `None` if any is unknown, else `False`."""
    found = set(answers)
    return True if True in found else None if None in found else False


def negated(answer: Answer) -> Answer:
    """Return the opposite; unknown stays unknown."""
    return None if answer is None else not answer


def same(one: Any, other: Any) -> Answer:
    """Compare as JSON: 1 equals 1.0 and never `true`. Values of different JSON types cannot be compared."""
    if _json_type(one) != _json_type(other):
        return None
    try:
        return canonical_json(one) == canonical_json(other)
    except CanonicalJsonError:
        return None


def _json_type(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return type(value).__name__
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, list | tuple):
        return "array"
    return "object" if isinstance(value, Mapping) else type(value).__name__


def is_number(value: Any) -> bool:
    """Whether `value` is a finite number and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def matches_glob(text: str, pattern: str) -> bool:
    """Match `*`, `?` and `[...]` against the whole text, case included; `*` also crosses `/` and line breaks."""
    return _glob(pattern).match(text) is not None


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    # fnmatch makes each `*` an atomic group, so that hostile text costs at most length times stars.
    return re.compile(fnmatch.translate(pattern))


def is_under(path: str, folder: str) -> Answer:
    """Whether `path` is `folder` or inside it, after `.`, `..` and double slashes are resolved in the text alone.

    No file is looked at: a symbolic link is the tool's business. Unknown: an empty path; one with a backslash, a NUL or
    a leading `~`; one that climbs above where it starts; a relative path against an absolute folder, and the reverse.
    """
    if not path or "\0" in path or "\\" in path or path.startswith("~"):
        return None
    if path.startswith("/") != folder.startswith("/"):
        return None
    parts, within = _segments(path), _segments(folder)
    return None if ".." in parts else parts[: len(within)] == within


def _segments(path: str) -> list[str]:
    return [part for part in posixpath.normpath(path).split("/") if part not in {"", "."}]


Test: TypeAlias = Callable[[Any], Answer]
_Maker: TypeAlias = Callable[[Any], Test]


def _texts(value: Any) -> list[str]:
    """Return the operand as a list of texts: it may be one text or several, of which any counts."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not values or not all(isinstance(item, str) and item for item in values):
        raise ConfigurationError("needs a text or a list of texts, none of them empty")
    return list(values)


def _on_text(test: Callable[[str, str], Answer]) -> _Maker:
    def make(value: Any) -> Test:
        wanted = _texts(value)
        return lambda given: any_of(test(given, item) for item in wanted) if isinstance(given, str) else None

    return make


def _on_number(test: Callable[[float, float], bool]) -> _Maker:
    def make(value: Any) -> Test:
        if not is_number(value):
            raise ConfigurationError("needs a finite number")
        return lambda given: test(given, value) if is_number(given) else None

    return make


def _equals(value: Any) -> Test:
    if value is None:
        raise ConfigurationError('cannot be null; ask with op = "absent"')
    _check_json(value)
    return lambda given: same(given, value)


def _in(value: Any) -> Test:
    if not isinstance(value, list | tuple) or not value or None in value:
        raise ConfigurationError("needs a list of values, not empty and without null")
    _check_json(value)

    def test(given: Any) -> Answer:
        answers = {same(given, item) for item in value}
        return True if True in answers else False if False in answers else None

    return test


def _contains(value: Any) -> Test:
    def within(given: str, item: str) -> Answer:
        return item in given

    wanted = _texts(value)
    in_text = _on_text(within)(value)

    def test(given: Any) -> Answer:
        if isinstance(given, list | tuple):
            return any_of(same(entry, item) for entry in given for item in wanted)
        return in_text(given)

    return test


def _matches(value: Any) -> Test:
    if not isinstance(value, str):
        raise ConfigurationError("needs a text: a regular expression for the whole argument")
    try:
        pattern = LinearPattern(value)
    except PatternError as error:
        raise ConfigurationError(f"is no pattern a policy can use: {error}") from error
    return lambda given: pattern.matches(given) if isinstance(given, str) else None


def _under(value: Any) -> Test:
    for folder in _texts(value):
        if "\\" in folder or "\0" in folder or folder.startswith("~") or ".." in _segments(folder):
            raise ConfigurationError("needs a folder with forward slashes, without `~` and without leading `..`")
    return _on_text(is_under)(value)


def _check_json(value: Any) -> None:
    try:
        canonical_json(value)
    except CanonicalJsonError as error:
        raise ConfigurationError(f"is no JSON value: {error}") from error


def _not(make: _Maker) -> _Maker:
    def make_negated(value: Any) -> Test:
        test = make(value)
        return lambda given: negated(test(given))

    return make_negated


_MAKERS: Final[dict[str, _Maker]] = {
    "equals": _equals,
    "not_equals": _not(_equals),
    "in": _in,
    "not_in": _not(_in),
    "glob": _on_text(matches_glob),
    "not_glob": _not(_on_text(matches_glob)),
    "matches": _matches,
    "starts_with": _on_text(str.startswith),
    "contains": _contains,
    "under": _under,
    "less_than": _on_number(lambda given, value: given < value),
    "greater_than": _on_number(lambda given, value: given > value),
    "at_most": _on_number(lambda given, value: given <= value),
    "at_least": _on_number(lambda given, value: given >= value),
}

PRESENCE: Final = frozenset({"present", "absent"})
"""The questions without a value."""

OPS: Final = frozenset(_MAKERS) | PRESENCE
"""Every `op` a condition may have."""


def make_test(op: str, value: Any) -> Test:
    """Return what a condition with a value asks of an argument.

    Raises:
        ConfigurationError: the value is not one that `op` can use; the message goes on after `value`.
    """
    return _MAKERS[op](value)


@dataclass(frozen=True, slots=True)
class Found:
    """What stands at a path.

    Attributes:
        values: the values there; several only behind a `*`.
        missing: nothing is there: a key or index does not exist, or null stands on the way.
        blocked: the way leads through a value that is neither object nor array, so nothing can be told.
    """

    values: list[Any]
    missing: bool = False
    blocked: bool = False


def look_up(arguments: object, path: tuple[str, ...]) -> Found:
    """Follow `path` into `arguments`: keys of objects, indices of arrays, `*` for every member of either.

    Null counts as missing, since that is how many models leave out an optional argument. An empty array or object
    has no members, so that `to.*` is missing there.
    """
    values, missing, blocked = [arguments], False, False
    for segment in path:
        inner: list[Any] = []
        for value in values:
            members = _members(value, segment)
            blocked = blocked or members is None
            missing = missing or members == []
            inner.extend(members or [])
        values = inner
    there = [value for value in values if value is not None]
    return Found(there, missing or len(there) < len(values), blocked)


def _members(value: Any, segment: str) -> list[Any] | None:
    """Return what `segment` names inside `value`; `[]` when it is not there, `None` when nothing can be in there."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return list(value.values()) if segment == "*" else [value[segment]] if segment in value else []
    if isinstance(value, list | tuple):
        if segment == "*":
            return list(value)
        if segment.isascii() and segment.isdigit():
            return list(value[int(segment) : int(segment) + 1]) if len(segment) < _INDEX_DIGITS else []
        return None
    return None


_INDEX_DIGITS: Final = 10
