"""Turn parameter values, as text or as Python objects, into what DuckDB binds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any, Final

_INT64: Final = range(-(2**63), 2**63)
_TRUE: Final = frozenset({"true", "1", "yes"})
_FALSE: Final = frozenset({"false", "0", "no"})

EARLIEST: Final = datetime(1678, 1, 1)  # noqa: DTZ001 - DuckDB's TIMESTAMP is naive; here it is UTC by contract
"""First moment a TIMESTAMP parameter takes: nanoseconds in 64 bits reach from 1677-09-21 to 2262-04-11."""
LATEST: Final = datetime(2262, 1, 1)  # noqa: DTZ001 - as above
"""First moment a TIMESTAMP parameter no longer takes."""


def convert(type_name: str, value: object) -> Any:
    """Convert `value` to the Python object DuckDB binds for `type_name`.

    Args:
        type_name: one of `TYPES`.
        value: text as it stands in a URL or on a command line, or a Python object of the type. Not `None`.

    Returns:
        str, int, float, bool, naive UTC `datetime`, `date`, or list of str.

    Raises:
        ValueError: the value is not one of that type; the text says what is, and never repeats the value.
    """
    return _CONVERTERS[type_name](value)


def _varchar(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"takes text, got {type(value).__name__}")  # noqa: TRY004 - one error kind for callers
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("takes text without lone surrogates (it cannot be written as UTF-8)")
    return value


def _bigint(value: object) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str):
        digits = value.strip().removeprefix("-")
        # The length guard keeps int() from its own limit on very long digit strings.
        if digits.isascii() and digits.isdigit() and len(digits) <= 19:  # noqa: PLR2004 - digits of 2**63
            number = int(value)
    if number is None or number not in _INT64:
        raise ValueError("takes a whole number of at most 64 bits, such as 100")
    return number


def _double(value: object) -> float:
    number = math.nan
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = math.nan
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise ValueError("takes a finite number, such as 0.5")
    return number


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUE | _FALSE:
        return value.strip().lower() in _TRUE
    raise ValueError("takes true or false")


def _timestamp(value: object) -> datetime:
    moment: datetime | None = None
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, date):
        moment = datetime.combine(value, time())
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            moment = None
    if moment is not None and moment.tzinfo is not None:
        try:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            moment = None
    if moment is None or not EARLIEST <= moment < LATEST:
        raise ValueError(
            "takes an ISO 8601 date or time, UTC unless it names an offset, between the years 1678 and 2261, "
            "such as 2026-03-29 or 2026-03-29T12:00:00Z"
        )
    return moment


def _date(value: object) -> date:
    day: date | None = None
    if isinstance(value, date) and not isinstance(value, datetime):
        day = value
    elif isinstance(value, str):
        try:
            day = date.fromisoformat(value.strip())
        except ValueError:
            day = None
    if day is None or not EARLIEST.date() <= day < LATEST.date():
        raise ValueError("takes an ISO 8601 date between the years 1678 and 2261, such as 2026-03-29")
    return day


def _timezone(value: object) -> str:
    import pytz  # noqa: PLC0415 - belongs to the extra `queries`; DuckDB needs it for the same zones

    name = _varchar(value)
    if name not in pytz.all_timezones_set:
        raise ValueError("takes the name of a time zone of the IANA database, such as UTC or Europe/Berlin")
    return name


def _varchar_list(value: object) -> list[str]:
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except ValueError:
                value = None
        else:
            value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(item, str) for item in value):
        raise ValueError('takes a list of texts, such as a,b or ["a", "b"]')
    return [_varchar(item) for item in value]


_CONVERTERS: Final[dict[str, Callable[[object], Any]]] = {
    "VARCHAR": _varchar,
    "BIGINT": _bigint,
    "DOUBLE": _double,
    "BOOLEAN": _boolean,
    "TIMESTAMP": _timestamp,
    "DATE": _date,
    "TIMEZONE": _timezone,
    "VARCHAR[]": _varchar_list,
}

TYPES: Final = frozenset(_CONVERTERS)
"""The types a parameter may have. `TIMEZONE` is a VARCHAR that names a zone of the IANA database."""
