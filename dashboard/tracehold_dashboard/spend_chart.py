"""Draw spend over time, stacked by model."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go

from tracehold_dashboard import format as fmt
from tracehold_dashboard.theme import SERIES

_OTHERS: Final = "all others"
_DAY_MS: Final = 86_400_000
_FEWEST_DAYS: Final = 14
"""The axis holds at least so many: a single day would be one bar as wide as the page."""
_MOST_DAYS: Final = 120
"""Over a longer time a bar is a month: a day would be thinner than a line."""
_SMALL_USD: Final = 0.05
"""Below it, the axis needs four places to tell its marks apart."""


def figure(by_day: pd.DataFrame, measure: str) -> go.Figure:
    """Draw one bar a day, or a month where there are too many days.

    Args:
        by_day: rows of the query `spend_by_model_day`.
        measure: the column that gives the height: `cost_usd`, `tokens` or `calls`.

    Returns:
        The figure. Model names are escaped: plotly reads text as HTML of a kind.
    """
    table = by_day.assign(model=by_day["model"].fillna(fmt.UNKNOWN)).dropna(subset=["day"])
    table["bar"] = pd.to_datetime(table["day"])
    monthly = len(table) > 0 and (table["bar"].max() - table["bar"].min()).days > _MOST_DAYS
    if monthly:
        table["bar"] = table["bar"].dt.to_period("M").dt.to_timestamp()
    totals = table.groupby("model")[measure].sum().astype(float).sort_values(ascending=False)
    named = list(totals.index[: len(SERIES) - 1])
    table["series"] = table["model"].where(table["model"].isin(named), _OTHERS)
    chart = go.Figure()
    for place, series in enumerate([*named, *([_OTHERS] if len(totals) > len(named) else [])]):
        bars = table[table["series"] == series].groupby("bar")[measure].sum()
        _add_series(chart, str(series), bars, measure, colour=SERIES[place], monthly=monthly)
    peak = 0.0 if table.empty else float(table.groupby("bar")[measure].sum().max())
    _lay_out(chart, measure, peak)
    chart.update_xaxes(_months() if monthly else _days(table["bar"]))
    return chart


def _add_series(
    chart: go.Figure, series: str, bars: pd.Series[Any], measure: str, *, colour: str, monthly: bool
) -> None:
    label = fmt.plot_text(series, 40)
    written = "%B %Y" if monthly else "%Y-%m-%d"
    chart.add_bar(
        name=label,
        x=[str(bar.date()) for bar in bars.index],
        y=[float(value) for value in bars],
        width=int((22 if monthly else 0.75) * _DAY_MS),
        marker={"color": colour, "line": {"width": 0}},
        hovertext=[
            f"<b>{label}</b><br>{bar.strftime(written)}<br>{_written(measure, value)}"
            for bar, value in zip(bars.index, bars, strict=True)
        ],
        hoverinfo="text",
    )


def _days(bars: pd.Series[Any]) -> dict[str, Any]:
    """Lay out the axis of days, the latest at its right end."""
    if bars.empty:
        return {"type": "date"}
    last = bars.max()
    first = min(bars.min(), last - pd.Timedelta(days=_FEWEST_DAYS - 1))
    half = pd.Timedelta(hours=12)
    return {
        "type": "date",
        "range": [str(first - half), str(last + half)],
        "tickformat": "%Y-%m-%d",
        "dtick": _DAY_MS * max(1, -(-((last - first).days + 1) // 10)),
        "tick0": str(last),
    }


def _months() -> dict[str, Any]:
    return {"type": "date", "tickformat": "%b %Y", "nticks": 12}


def _written(measure: str, value: Any) -> str:
    return fmt.money(value) if measure == "cost_usd" else f"{fmt.count(value)} {measure}"


def _lay_out(chart: go.Figure, measure: str, peak: float) -> None:
    money = measure == "cost_usd"
    chart.update_layout(
        barmode="stack",
        height=340,
        margin={"l": 0, "r": 0, "t": 8, "b": 0},
        legend={"orientation": "h", "y": -0.15, "x": 0, "traceorder": "normal"},
        showlegend=True,
        xaxis={"fixedrange": True},
        yaxis={
            "tickprefix": "$" if money else "",
            "tickformat": (",.2f" if peak >= _SMALL_USD else ",.4f") if money else ",.3~s",
            "fixedrange": True,
            "rangemode": "tozero",
        },
    )
