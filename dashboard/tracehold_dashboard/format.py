"""Numbers and times as people read them. Unknown is said, never shown as 0."""

from __future__ import annotations

import json
import math
from datetime import datetime
from html import escape
from typing import Any, Final

import pandas as pd

UNKNOWN: Final = "unknown"
NOTHING: Final = "\N{EN DASH}"

_US: Final = 1_000
_MS: Final = 1_000_000
_S: Final = 1_000_000_000
_MINUTE: Final = 60 * _S
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def is_missing(value: object) -> bool:
    """Tell whether `value` stands for SQL's NULL, in any of the shapes pandas gives it."""
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def duration(ns: Any) -> str:
    """Write nanoseconds in the unit that fits: "340 ms", "1.24 s", "2 min 05 s"."""
    if is_missing(ns):
        return NOTHING
    whole = int(ns)
    if whole == 0:
        return "0 s"
    if whole < _US:
        return f"{whole} ns"
    if whole < _MS:
        return f"{whole / _US:.0f} µs"
    if whole < 10 * _MS:
        return f"{whole / _MS:.1f} ms"
    # From here on the value is rounded before the unit is chosen, so that 999.6 ms is not "1000 ms".
    if round(whole / _MS) < 1000:  # noqa: PLR2004 - ms in a second
        return f"{whole / _MS:.0f} ms"
    if whole < _MINUTE - _S // 200:
        return f"{whole / _S:.2f} s"
    if whole < _HOUR:
        seconds = round(whole / _S)
        return f"{seconds // 60} min {seconds % 60:02d} s"
    if whole < _DAY:
        minutes = round(whole / _MINUTE)
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(whole / _HOUR)
    return f"{hours // 24} d {hours % 24} h"


def milliseconds(ms: Any) -> str:
    """Write milliseconds as `duration` does."""
    return NOTHING if is_missing(ms) else duration(float(ms) * _MS)


def count(number: Any) -> str:
    """Write a whole number with separators: "12,345"."""
    return NOTHING if is_missing(number) else f"{int(number):,}"


def short_count(number: Any) -> str:
    """Write a whole number in at most five places: "12.3 k", "4.56 M"."""
    if is_missing(number):
        return NOTHING
    value = float(number)
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= 10 * size or (unit != "k" and abs(value) >= size):
            return f"{value / size:.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{int(number):,}"


def money(usd: Any, *, unpriced_calls: Any = 0) -> str:
    """Write US dollars: "$0.0042", "$12.34". A sum some calls are missing from is a lower bound, "≥ $12.34"."""
    if is_missing(usd):
        return UNKNOWN
    value = float(usd)
    places = 2 if abs(value) >= 1 or value == 0 else 4
    too_small = value != 0 and round(value, places) == 0
    text = f"< ${10**-places:.{places}f}" if too_small else f"${value:,.{places}f}"
    return f"≥ {text}" if not is_missing(unpriced_calls) and int(unpriced_calls) > 0 else text


def moment(value: Any) -> str:
    """Write a UTC time to the second, with its zone: "2026-01-01 12:00:05 UTC"."""
    if is_missing(value):
        return UNKNOWN
    at = value if isinstance(value, datetime) else pd.Timestamp(value)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def short_id(text: Any, length: int = 13) -> str:
    """Cut a long id at its front part, marked by an ellipsis."""
    if is_missing(text):
        return NOTHING
    return text if len(text) <= length + 1 else f"{text[:length]}…"


def words(value: Any) -> str:
    """Write a value of the closed lists as words: "invalid_args" as "invalid args"."""
    return NOTHING if is_missing(value) else str(value).replace("_", " ")


def plot_text(value: Any, length: int) -> str:
    """Write text for a chart: on one line, cut, and escaped, because plotly reads text as HTML of a kind.

    Quotes stay: plotly does not turn their entities back.
    """
    return escape(compact_json(str(value), length), quote=False)


def plural(number: int, noun: str) -> str:
    """Write a count with its noun: "1 run", "2,000 runs"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def status(value: Any) -> str:
    """Write a run's status as people say it: a run that has only started is running."""
    return "running" if value == "started" else words(value)


def compact_json(value: Any, length: int = 300) -> str:
    """Write a JSON-like value on one line, cut at `length` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"
