"""Tables: which columns, under which heading, written how. Cells are drawn as text, never as HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd
import streamlit as st

from tracehold_dashboard import format as fmt
from tracehold_dashboard.theme import STATUSES

_ROW_PX: Final = 35
_MOST_PX: Final = 600
"""A longer table scrolls within this height, so that what stands below it stays in reach."""


class Shown(NamedTuple):
    """A column as people see it.

    Attributes:
        heading: with the unit or zone, where the value does not say it.
        write: turns a value into text; the value itself stays for sorting.
        width: small, medium, large, or pixels.
        help: a sentence on hover.
        right: a text that stands on the right, as numbers do.
    """

    heading: str
    write: Callable[[Any], str] | None = None
    width: Any = None
    help: str | None = None
    right: bool = False


def show(frame: pd.DataFrame, columns: Mapping[str, Shown], *, key: str, select: bool = False) -> pd.Series[Any] | None:
    """Draw a table.

    Args:
        frame: the rows; columns not named in `columns` are left out.
        columns: by name, in the order to show.
        key: of the widget; new rows need a new key, else an old selection points at them.
        select: let one row be selected.

    Returns:
        The selected row of `frame`, or `None`.
    """
    chosen = [name for name in columns if name in frame.columns]
    table = frame[chosen].reset_index(drop=True)
    # A click anywhere in a row selects it, as the box in front of it does.
    modes = ["single-row", "single-cell"]
    options: dict[str, Any] = {"on_select": "rerun", "selection_mode": modes} if select else {}
    state = st.dataframe(
        _written(table, columns),
        hide_index=True,
        height=min(_ROW_PX * (len(table) + 1) + 3, _MOST_PX),
        placeholder=fmt.NOTHING,
        key=key,
        column_config={name: _config(columns[name], table[name]) for name in chosen},
        **options,
    )
    if not select:
        return None
    rows = [*state.selection.rows, *(cell[0] for cell in state.selection.cells)]
    return frame.iloc[rows[0]] if rows and rows[0] < len(frame) else None


def facts(pairs: Sequence[tuple[str, Any]], *, key: str) -> None:
    """Draw names and values as two plain columns; pairs without a value are left out."""
    known = [(name, str(value)) for name, value in pairs if not fmt.is_missing(value) and value != ""]
    st.dataframe(
        pd.DataFrame(known, columns=["field", "value"]),
        hide_index=True,
        height="content",
        key=key,
        column_config={
            "field": st.column_config.TextColumn("Field", width=150),
            "value": st.column_config.TextColumn("Value", width="large"),
        },
    )


def _written(table: pd.DataFrame, columns: Mapping[str, Shown]) -> Any:
    """Give the table a second face: what is drawn is text, what is sorted stays a number."""
    writers: dict[Any, Any] = {name: columns[name].write for name in table.columns if columns[name].write}
    style = table.style.format(writers, na_rep=fmt.NOTHING)
    for name in ("status", "decision"):
        if name in table.columns:
            style = style.map(_colour, subset=[name])
    return style


def _colour(value: Any) -> str:
    colour = STATUSES.get(str(value), "")
    return f"color: {colour}; font-weight: 600" if colour else ""


def _config(shown: Shown, values: pd.Series[Any]) -> Any:
    options: dict[str, Any] = {"width": shown.width, "help": shown.help}
    if pd.api.types.is_numeric_dtype(values):
        return st.column_config.NumberColumn(shown.heading, **options)
    if pd.api.types.is_datetime64_any_dtype(values):
        return st.column_config.DatetimeColumn(shown.heading, format="YYYY-MM-DD HH:mm:ss", **options)
    return st.column_config.TextColumn(shown.heading, alignment="right" if shown.right else "left", **options)
