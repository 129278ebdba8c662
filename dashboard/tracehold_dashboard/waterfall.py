"""Draw a run's spans as a waterfall: one bar a span, its label indented by depth, its time to the right."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go

from tracehold_dashboard import format as fmt
from tracehold_dashboard.theme import BLOCKED, ERROR, KINDS

ROW_PX: Final = 24
_LABELS: Final = (0.0, 0.33)
_BARS: Final = (0.34, 0.91)
_TIMES: Final = (0.92, 1.0)
_MOST_INDENT: Final = 14
"""Deeper labels stand no further right: there would be no room for their text; the depth is on hover."""
_LEAST_WIDTH: Final = 0.003
"""A bar's least width as a part of the axis: below it nobody could see or hit it."""
_UNITS: Final = (
    (1_000_000, "ms", 2_000_000_000),
    (1_000_000_000, "s", 600_000_000_000),
    (60_000_000_000, "min", None),
)


def figure(spans: pd.DataFrame, run_ns: int, *, ink: str) -> go.Figure:
    """Draw `spans`, the first on top.

    Args:
        spans: a part of the tree-ordered waterfall, at most some hundred rows.
        run_ns: the time the axis covers, from the run's start, in nanoseconds.
        ink: colour of the labels.

    Returns:
        The figure. Each point's `customdata` is its event id. All text of a trace is escaped: plotly reads text as
        HTML of a kind.
    """
    unit_ns, unit = _unit(run_ns)
    rows = [_row(place, span, run_ns) for place, span in enumerate(spans.to_dict("records"))]
    chart = go.Figure()
    for kind in [kind for kind in KINDS if any(row["kind"] == kind for row in rows)]:
        # A bar with a rim is a trace of its own: in one trace, the legend would wear the first bar's rim.
        plain = [row for row in rows if row["kind"] == kind and not row["colour"]]
        rimmed = [row for row in rows if row["kind"] == kind and row["colour"]]
        for part in filter(None, (plain, rimmed)):
            _add_bars(chart, kind, part, unit_ns, legend=part is plain or not plain)
    for problem, colour in ((None, ink), (ERROR, ERROR), (BLOCKED, BLOCKED)):
        _add_labels(chart, [row for row in rows if row["colour"] == problem], colour)
    _add_times(chart, rows)
    _lay_out(chart, len(rows), max(run_ns, 1) / unit_ns, unit)
    return chart


def _row(place: int, span: dict[Any, Any], run_ns: int) -> dict[str, Any]:
    start = 0 if fmt.is_missing(span["offset_ns"]) else int(span["offset_ns"])
    length = None if fmt.is_missing(span["duration_ns"]) else int(span["duration_ns"])
    open_end = length is None and span["status"] == "started"
    drawn = max(run_ns - start, 0) if open_end else length or 0
    problem = {"error": ERROR, "blocked": BLOCKED}.get(span["status"])
    return {
        "y": place,
        "kind": span["kind"] if span["kind"] in KINDS else "other",
        "start": start,
        "length": max(drawn, int(run_ns * _LEAST_WIDTH)),
        "open": open_end,
        "indent": min(int(span["depth"]), _MOST_INDENT),
        "label": _label(span),
        "time": "running" if open_end else fmt.duration(length) if length is not None else "",
        "hover": _hover(span),
        "colour": problem,
        "event_id": span["event_id"],
    }


def _label(span: dict[Any, Any]) -> str:
    mark = {"error": "✕ ", "blocked": "⊘ "}.get(span["status"], "")
    text = span["name"] if not fmt.is_missing(span["name"]) else span["type"]
    model = "" if fmt.is_missing(span["model"]) else f"  {span['model']}"
    return fmt.plot_text(f"{mark}{text}{model}", 60)


def _hover(span: dict[Any, Any]) -> str:
    lines = [
        ("", span["name"] if not fmt.is_missing(span["name"]) else span["type"]),
        ("", f"{span['kind']} · {span['type']} · {span['status']}"),
        ("starts after ", fmt.duration(span["offset_ns"])),
        ("took ", None if fmt.is_missing(span["duration_ns"]) else fmt.duration(span["duration_ns"])),
        ("agent ", span["agent"]),
        ("model ", span["model"]),
        ("tokens in ", None if fmt.is_missing(span["input_tokens"]) else fmt.count(span["input_tokens"])),
        ("tokens out ", None if fmt.is_missing(span["output_tokens"]) else fmt.count(span["output_tokens"])),
        ("cost ", None if fmt.is_missing(span["cost_usd"]) else fmt.money(span["cost_usd"])),
        ("decision ", span["decision"]),
        ("rule ", span["rule"]),
        ("error ", span["error_type"]),
        ("depth ", str(span["depth"])),
    ]
    if span.get("parent_missing"):
        lines.append(("", "its parent is not in this run"))
    known = [fmt.plot_text(f"{label}{value}", 90) for label, value in lines if not fmt.is_missing(value)]
    return "<br>".join([f"<b>{known[0]}</b>", *known[1:]])


def _unit(run_ns: int) -> tuple[int, str]:
    for size, name, below in _UNITS:
        if below is None or run_ns < below:
            return size, name
    raise AssertionError("the last unit has no upper end")  # pragma: no cover


def _add_bars(chart: go.Figure, kind: str, rows: list[dict[str, Any]], unit_ns: int, *, legend: bool) -> None:
    chart.add_bar(
        name=kind,
        legendgroup=kind,
        showlegend=legend,
        orientation="h",
        y=[row["y"] for row in rows],
        base=[row["start"] / unit_ns for row in rows],
        x=[row["length"] / unit_ns for row in rows],
        width=0.62,
        customdata=[row["event_id"] for row in rows],
        hovertext=[row["hover"] for row in rows],
        hoverinfo="text",
        marker={
            "color": KINDS[kind],
            "opacity": [0.45 if row["open"] else 1.0 for row in rows],
            "line": {
                "color": [row["colour"] or KINDS[kind] for row in rows],
                "width": [2.5 if row["colour"] else 0 for row in rows],
            },
        },
        unselected={"marker": {"opacity": 0.55}},
        xaxis="x2",
    )


def _add_labels(chart: go.Figure, rows: list[dict[str, Any]], colour: str) -> None:
    if not rows:
        return
    chart.add_scatter(
        mode="text",
        x=[row["indent"] for row in rows],
        y=[row["y"] for row in rows],
        text=[row["label"] for row in rows],
        textposition="middle right",
        textfont={"size": 13, "color": colour},
        customdata=[row["event_id"] for row in rows],
        hovertext=[row["hover"] for row in rows],
        hoverinfo="text",
        unselected={"textfont": {"color": colour}},
        showlegend=False,
        xaxis="x",
    )


def _add_times(chart: go.Figure, rows: list[dict[str, Any]]) -> None:
    chart.add_scatter(
        mode="text",
        x=[1] * len(rows),
        y=[row["y"] for row in rows],
        text=[row["time"] for row in rows],
        textposition="middle left",
        textfont={"size": 12},
        hoverinfo="skip",
        showlegend=False,
        xaxis="x3",
    )


def _lay_out(chart: go.Figure, rows: int, length: float, unit: str) -> None:
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}
    chart.update_layout(
        height=rows * ROW_PX + 90,
        margin={"l": 0, "r": 0, "t": 64, "b": 8},
        barmode="overlay",
        bargap=0,
        dragmode=False,
        hovermode="closest",
        hoverlabel={"align": "left"},
        legend={
            "orientation": "h",
            "x": _BARS[0],
            "xanchor": "left",
            "y": 1,
            "yanchor": "top",
            "yref": "container",
        },
        showlegend=True,
        yaxis=hidden | {"range": [rows - 0.5, -0.5]},
        xaxis=hidden | {"domain": _LABELS, "range": [-0.2, 22]},
        xaxis2={
            "domain": _BARS,
            "range": [0, length * 1.01],
            "side": "top",
            "ticksuffix": f" {unit}",
            "nticks": 6,
            "exponentformat": "none",
            "separatethousands": True,
            "fixedrange": True,
            "zeroline": False,
        },
        xaxis3=hidden | {"domain": _TIMES, "range": [0, 1]},
    )
