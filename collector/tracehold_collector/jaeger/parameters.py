"""The values that Jaeger's query parameters take: Go's durations, moments in several units, ids, tags.

Each reader returns what it means and refuses what it cannot read, naming the parameter and what it takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import orjson
from tracehold.core.clock import NS_PER_MS, NS_PER_S

from tracehold_collector.core.errors import QueryError

MAX_NS: Final = (1 << 63) - 1
MAX_TRACES: Final = 1500
"""Traces of one search at most, which is the most that Jaeger's UI asks for."""
MAX_TAGS: Final = 50
MAX_TRACE_IDS: Final = 200

NS_PER_US: Final = 1_000

_INTEGER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_LIMIT: Final = re.compile(r"\d{1,10}", re.ASCII)
_UNITS: Final = {
    "ns": 1,
    "us": NS_PER_US,
    "µs": NS_PER_US,
    "μs": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
_DAYS: Final = {"d": 24 * 3600 * NS_PER_S, "w": 7 * 24 * 3600 * NS_PER_S}
_PART: Final = r"(\d{1,19}(?:\.\d{0,19})?|\.\d{1,19})(ns|us|µs|μs|ms|s|m|h|d|w)"
_DURATION: Final = re.compile(rf"\+?(?:{_PART})+", re.ASCII)
_PARTS: Final = re.compile(_PART, re.ASCII)
_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2})(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_TRACE_ID: Final = re.compile(r"[0-9a-f]{1,32}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def duration_ns(name: str, text: str, *, days: bool = False) -> int:
    """Return a duration as Go writes it, such as 1.5s or 2m30s, in nanoseconds.

    Args:
        name: the parameter's, for the message.
        text: the value.
        days: whether days and weeks count too, as in the `lookback` of Jaeger's UI.
    """
    if text.lstrip("+") == "0":
        return 0
    total = Fraction(0)
    if not _DURATION.fullmatch(text) or (not days and ("d" in text or "w" in text)):
        raise QueryError(f"{name} takes a duration that is not negative, such as 1.5s, 100ms or 2m30s")
    for amount, unit in _PARTS.findall(text):
        total += Fraction(f"0{amount}" if amount.startswith(".") else amount.rstrip(".")) * (_UNITS | _DAYS)[unit]
    if total > MAX_NS:
        raise QueryError(f"{name} is longer than 292 years; give a shorter one")
    return int(total)


def epoch_ns(name: str, text: str, unit_ns: int) -> int:
    """Return a moment counted in `unit_ns` since the epoch as nanoseconds; one beyond 64 bits is the last there is."""
    unit = "microseconds" if unit_ns == NS_PER_US else "milliseconds"
    if not _INTEGER.fullmatch(text) or abs(number := int(text)) > MAX_NS:
        raise QueryError(
            f"{name} takes a whole number of {unit} since 1970, such as {1_780_000_000 * NS_PER_S // unit_ns}"
        )
    return max(-MAX_NS, min(number * unit_ns, MAX_NS))


def moment_ns(name: str, text: str) -> int:
    """Return an RFC 3339 moment in nanoseconds since the epoch; one beyond 64 bits is the last there is."""
    match = _MOMENT.fullmatch(text)
    try:
        moment = datetime.fromisoformat((match[1] + match[3]).upper()) if match else None
        seconds = int((moment - _EPOCH).total_seconds()) if moment else None
    except (ValueError, OverflowError):
        seconds = None
    if match is None or seconds is None:
        raise QueryError(f"{name} takes an RFC 3339 time with a zone, such as 2026-03-29T12:00:00Z")
    return max(-MAX_NS, min(seconds * NS_PER_S + int((match[2] or "").ljust(9, "0")), MAX_NS))


def trace_limit(name: str, text: str) -> int:
    """Return how many traces are asked for at most."""
    if not _LIMIT.fullmatch(text) or not 0 < int(text) <= MAX_TRACES:
        raise QueryError(f"{name} takes a whole number from 1 to {MAX_TRACES}")
    return int(text)


def flag(name: str, text: str) -> bool:
    """Return a yes or no in the words that Go's programs take."""
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if text in {"", "0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise QueryError(f"{name} takes true or false")


def trace_id(name: str, text: str) -> str:
    """Return a trace id as 32 lower-case hex digits; a shorter one is filled up with zeros, as Jaeger writes it."""
    lowered = text.lower()
    if not _TRACE_ID.fullmatch(lowered):
        raise QueryError(f"{name} takes a trace id: 1 to 32 hex digits; got {len(text)} characters")
    return lowered.rjust(32, "0")


def plain_text(name: str, text: str) -> str:
    """Return a text that the store can compare with."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise QueryError(f"{name} holds characters that are no valid text") from None
    return text


def tag_map(name: str, text: str) -> dict[str, str]:
    """Return tags given as a JSON object of texts."""
    try:
        found: Any = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise QueryError(f'{name} takes a JSON object of texts, such as {{"tracehold.decision":"denied"}}')
    return found


def tag_pairs(name: str, texts: Sequence[str]) -> dict[str, str]:
    """Return tags given one by one as key:value; a value may hold colons."""
    found = {}
    for text in texts:
        key, colon, value = text.partition(":")
        if not colon or not key:
            raise QueryError(f"{name} takes key:value, such as error:true")
        found[plain_text(name, key)] = plain_text(name, value)
    return found
