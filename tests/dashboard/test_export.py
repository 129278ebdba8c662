"""CSV that a spreadsheet opens without running what a trace said."""

from __future__ import annotations

import pandas as pd
import pytest
from tracehold_dashboard import export


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_formula_is_made_harmless(start):
    frame = pd.DataFrame({"reason": [f"{start}cmd()"], "at_ns": [-5]})
    text = export.csv(frame).decode()
    assert f"'{start}cmd()" in text
    assert ",-5" in text


def test_a_missing_text_stays_empty():
    frame = pd.DataFrame({"reason": [None, "no"], "name": ["a", "b"]})
    assert export.csv(frame).decode().splitlines() == ["reason,name", ",a", "no,b"]
