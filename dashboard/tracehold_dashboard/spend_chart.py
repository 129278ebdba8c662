"""Draw spend by day, stacked by model."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go

from tracehold_dashboard import format as fmt
from tracehold_dashboard.theme import SERIES

_OTHERS: Final = "all others"


def figure(by_day: pd.DataFrame, measure: str) -> go.Figure:
    """Draw one bar a day.

    Args:
        by_day: rows of the query `spend_by_model_day`.
        measure: the column that gives the height: `cost_usd`, `tokens` or `calls`.

    Returns:
        The figure. Model names are escaped: plotly reads text as HTML of a kind.
    """
    table = by_day.dropna(subset=["day"]).assign(model=by_day["model"].fillna(fmt.UNKNOWN))
    totals = table.groupby("model")[measure].sum().sort_values(ascending=False)
    named = list(totals.index[: len(SERIES) - 1])
    table["series"] = table["model"].where(table["model"].isin(named), _OTHERS)
    chart = go.Figure()
    for place, series in enumerate([*named, *([_OTHERS] if len(totals) > len(named) else [])]):
        days = table[table["series"] == series].groupby("day")[measure].sum()
        label = escape(fmt.compact_json(str(series), 40))
        chart.add_bar(
            name=label,
            x=[str(day) for day in days.index],
            y=[float(value) for value in days],
            marker={"color": SERIES[place], "line": {"width": 0}},
            hovertext=[f"<b>{label}</b><br>{day}<br>{_written(measure, value)}" for day, value in days.items()],
            hoverinfo="text",
        )
    _lay_out(chart, measure)
    return chart


def _written(measure: str, value: Any) -> str:
    return fmt.money(value) if measure == "cost_usd" else f"{fmt.count(value)} {measure}"


def _lay_out(chart: go.Figure, measure: str) -> None:
    chart.update_layout(
        barmode="stack",
        bargap=0.25,
        height=340,
        margin={"l": 0, "r": 0, "t": 8, "b": 0},
        legend={"orientation": "h", "y": -0.15, "x": 0, "traceorder": "normal"},
        showlegend=True,
        xaxis={"type": "date", "fixedrange": True, "dtick": None, "tickformat": "%Y-%m-%d", "nticks": 10},
        yaxis={
            "tickprefix": "$" if measure == "cost_usd" else "",
            "tickformat": ",.2f" if measure == "cost_usd" else ",.3~s",
            "fixedrange": True,
            "rangemode": "tozero",
        },
    )
