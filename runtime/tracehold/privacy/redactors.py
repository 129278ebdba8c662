"""Redactors: what an engine passes each event through before it is stored and delivered (RED).

    engine = Engine(redactor=standard_redactor(skip=("billing.*",)))

Redaction finds what looks like a secret; it is a safety net, and what need not be in an event is best kept out of it.
A run reads its own log: what is masked is masked for the run as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from tracehold.events.event import Event
from tracehold.events.globs import Globs
from tracehold.privacy.redactor_keys import NESTED_PROTECTED_KEYS, PROTECTED_KEYS, SECRET_KEYS, SecretKeys
from tracehold.privacy.redactor_patterns import (
    BEARER,
    CARD,
    DEFAULT_PATTERNS,
    EMAIL,
    JWT,
    PERSONAL_PATTERNS,
    SECRET,
    US_SSN,
    Pattern,
)
from tracehold.privacy.redactor_text import TextRules
from tracehold.privacy.redactor_walk import Walk


@runtime_checkable
class Redactor(Protocol):
    """Replaces what is sensitive in an event."""

    def redact(self, event: Event) -> Event:
        """Return the event with sensitive values replaced.

        Pure and idempotent, and the result is the same event: its id, type, stream, seq, tenant and all else but `data`
        and `meta` are as they were (RED-01).
        """


class _EventTypes:
    """Which event types a redactor is for: those that match `only` and not `skip` (RED-14).

    Case-sensitive globs, as in subscriptions.
    """

    __slots__ = ("_only", "_skip", "globs")

    def __init__(self, only: Iterable[str], skip: Iterable[str]) -> None:
        self._only, self._skip = Globs(_as_tuple(only)), Globs(_as_tuple(skip))
        self.globs = (self._only.patterns, self._skip.patterns)

    def __contains__(self, event_type: str) -> bool:
        return self._only.match(event_type) and not self._skip.match(event_type)


class _WalkingRedactor:
    """Walks through `data` and `meta` (RED-17). An event in which nothing is found is returned itself (RED-19)."""

    __slots__ = ("_types", "_walk")

    def __init__(self, walk: Walk, types: _EventTypes) -> None:
        self._walk = walk
        self._types = types

    def redact(self, event: Event) -> Event:
        """Return the event with sensitive values replaced, or the event itself if there are none."""
        if event.type not in self._types:
            return event
        data = self._walk.top(event.data)
        meta = self._walk.top(event.meta) if event.meta else event.meta
        if data is event.data and meta is event.meta:
            return event
        return event.with_(data=data, meta=meta)


class PatternRedactor(_WalkingRedactor):
    """Replaces matches of patterns inside any text, keys included, with `[REDACTED:<name>]` (RED-03).

    With the pattern `CARD` it also replaces numbers that are payment cards'. The default patterns cost time in
    proportion to the text (RED-21).
    """

    __slots__ = ("_rules",)

    def __init__(
        self,
        patterns: Iterable[Pattern] = DEFAULT_PATTERNS,
        *,
        only: Iterable[str] = ("*",),
        skip: Iterable[str] = (),
    ) -> None:
        """Look for `patterns`.

        Args:
            patterns: your own replace the default ones (RED-08); `(*DEFAULT_PATTERNS, mine)` adds to them. Applied in
                this order, to numbers only `CARD`.
            only: globs over event types; events of other types pass unchanged (RED-14).
            skip: globs over event types that pass unchanged; wins over `only`.

        Raises:
            TypeError: something in `patterns` is no `Pattern`.
            ValueError: a glob is empty.
        """
        self._rules = TextRules(_checked(patterns))
        super().__init__(Walk(None, self._rules, ""), _EventTypes(only, skip))

    def scrub_text(self, text: str) -> str:
        """Return a text with its matches replaced, or the text itself if there are none."""
        return self._rules.mask(text)


class KeyRedactor(_WalkingRedactor):
    """Replaces the value of keys that name a secret, at any depth (RED-10).

    Texts, numbers, mappings and lists are replaced as a whole (RED-13, DEC-09); `None` and booleans stay, since they
    tell whether something is set. The name may also stand beside the value, as headers do: in a tuple
    `("Authorization", ...)` or a mapping `{"name": "Authorization", "value": ...}`.
    """

    __slots__ = ("_keys", "_replacement")

    def __init__(
        self,
        keys: Iterable[str] = SECRET_KEYS,
        *,
        replacement: str = "[REDACTED]",
        only: Iterable[str] = ("*",),
        skip: Iterable[str] = (),
    ) -> None:
        """Look for `keys`.

        Args:
            keys: names of secrets, matched as a whole without case and punctuation (RED-11). Those of `SECRET_KEYS` are
                matched by their words when all of them are given (DEC-09); `{*SECRET_KEYS, "mine"}` adds to them.
            replacement: stands in the place of the value.
            only: globs over event types; events of other types pass unchanged (RED-14).
            skip: globs over event types that pass unchanged; wins over `only`.

        Raises:
            ConfigurationError: a key has neither letters nor digits.
            ValueError: a glob is empty.
        """
        self._keys = SecretKeys(keys)
        self._replacement = replacement
        super().__init__(Walk(self._keys, None, replacement), _EventTypes(only, skip))


class ChainRedactor:
    """Applies redactors from left to right (RED-15). Idempotent where none undoes what another one did."""

    __slots__ = ("_steps", "redactors")

    def __init__(self, *redactors: Redactor) -> None:
        """Chain `redactors`.

        Raises:
            TypeError: something has no `redact`.
        """
        for each in redactors:
            if not callable(getattr(each, "redact", None)):
                raise TypeError(f"ChainRedactor takes redactors, and {type(each).__name__} has no method redact(event)")
        self.redactors = redactors
        self._steps = _merged(redactors)

    def redact(self, event: Event) -> Event:
        """Return the event as the last redactor leaves it, or the event itself if none found anything."""
        for step in self._steps:
            event = step.redact(event)
        return event


def standard_redactor(*, only: Iterable[str] = ("*",), skip: Iterable[str] = ()) -> ChainRedactor:
    """Return key redaction followed by the default patterns (RED-16).

    Args:
        only: globs over event types; events of other types pass unchanged (RED-14).
        skip: globs over event types that pass unchanged; wins over `only`.
    """
    only, skip = _as_tuple(only), _as_tuple(skip)
    return ChainRedactor(KeyRedactor(only=only, skip=skip), PatternRedactor(only=only, skip=skip))


def _merged(redactors: Sequence[Redactor]) -> list[Redactor]:
    """Let key redaction and the patterns after it share one walk, which costs half and comes to the same."""
    steps: list[Redactor] = []
    for redactor in redactors:
        last = steps[-1] if steps else None
        # Exact types: a subclass may do something else.
        if type(last) is KeyRedactor and type(redactor) is PatternRedactor and _same_types(last, redactor):
            walk = Walk(last._keys, redactor._rules, last._replacement)  # noqa: SLF001 - one family
            steps[-1] = _WalkingRedactor(walk, last._types)  # noqa: SLF001 - one family
        else:
            steps.append(redactor)
    return steps


def _same_types(one: _WalkingRedactor, other: _WalkingRedactor) -> bool:
    return one._types.globs == other._types.globs  # noqa: SLF001 - one family


def _as_tuple(globs: Iterable[str]) -> tuple[str, ...]:
    return (globs,) if isinstance(globs, str) else tuple(globs)


def _checked(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    given = tuple(patterns)
    for each in given:
        if not isinstance(each, Pattern):
            raise TypeError(
                f"patterns holds a {type(each).__name__}; wrap a regular expression in Pattern(name, regex)"
            )
    return given


__all__ = [
    "BEARER",
    "CARD",
    "DEFAULT_PATTERNS",
    "EMAIL",
    "JWT",
    "NESTED_PROTECTED_KEYS",
    "PERSONAL_PATTERNS",
    "PROTECTED_KEYS",
    "SECRET",
    "SECRET_KEYS",
    "US_SSN",
    "ChainRedactor",
    "KeyRedactor",
    "Pattern",
    "PatternRedactor",
    "Redactor",
    "standard_redactor",
]
