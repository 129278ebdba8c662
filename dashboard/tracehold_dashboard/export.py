"""Tables as CSV files that people open in a spreadsheet."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def csv(frame: pd.DataFrame) -> bytes:
    """Write a frame as CSV in UTF-8.

    A text that a spreadsheet would run as a formula gets an apostrophe in front: traces hold what an attacker told
    the agent (OWASP: CSV injection).
    """
    text = frame.select_dtypes(exclude=["number", "datetime", "bool"]).columns
    safe = frame.assign(**{name: frame[name].map(_harmless) for name in text})
    return safe.to_csv(index=False).encode("utf-8", "replace")


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
