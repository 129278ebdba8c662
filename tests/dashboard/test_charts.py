"""The charts: right bars, and no text of a trace left unescaped."""

from __future__ import annotations

import json

import pandas as pd
from tracehold_dashboard import spend_chart, waterfall

HOSTILE = "<a href='https://example.org'>x</a>"
SPAN = {
    "tenant": "acme",
    "span_id": "a",
    "event_id": "e1",
    "kind": "tool",
    "type": "tool_call",
    "name": "search",
    "status": "ok",
    "offset_ns": 0,
    "duration_ns": 1_000_000_000,
    "depth": 0,
    "agent": None,
    "model": None,
    "input_tokens": None,
    "output_tokens": None,
    "cost_usd": None,
    "decision": None,
    "rule": None,
    "error_type": None,
    "parent_missing": False,
}


def drawn(*spans, run_ns=4_000_000_000):
    return waterfall.figure(pd.DataFrame([SPAN | span for span in spans]), run_ns, ink="#000000")


def bars(chart):
    return [trace for trace in chart.data if trace.type == "bar"]


def test_a_bar_starts_and_ends_where_its_span_does():
    (bar,) = bars(drawn({"offset_ns": 1_000_000_000}))
    assert (list(bar.base), list(bar.x), list(bar.customdata)) == ([1.0], [1.0], ["e1"])


def test_a_span_that_still_runs_reaches_to_the_end():
    chart = drawn({"offset_ns": 1_000_000_000, "duration_ns": None, "status": "started"})
    assert list(bars(chart)[0].x) == [3.0]
    assert list(chart.data[-1].text) == ["running"]


def test_a_point_in_time_can_be_seen_and_claims_no_duration():
    # FR-23
    chart = drawn({"duration_ns": None})
    assert bars(chart)[0].x[0] > 0
    assert list(chart.data[-1].text) == [""]


def test_errors_and_denials_are_marked_by_more_than_colour():
    traces = drawn({"status": "error"}, {"status": "blocked"}).data
    labels = [text for trace in traces if trace.xaxis == "x" for text in trace.text]
    assert labels == ["✕ search", "⊘ search"]


def test_a_kind_is_in_the_legend_once_and_without_a_rim():
    chart = drawn({"status": "error"}, {})
    assert [(bar.showlegend, list(bar.marker.line.width)) for bar in bars(chart)] == [(True, [0]), (False, [2.5])]


def test_an_unknown_kind_is_drawn_as_other():
    assert [bar.name for bar in bars(drawn({"kind": "new"}))] == ["other"]


def test_text_of_a_trace_is_escaped_in_the_waterfall():
    fields = dict.fromkeys(["name", "type", "agent", "model", "decision", "rule", "error_type", "status"], HOSTILE)
    assert "<a" not in json.dumps(drawn(fields).to_plotly_json(), default=list)


def test_spend_is_stacked_by_model_and_the_rest_is_put_together():
    day = pd.Timestamp("2026-01-01").date()
    rows = [{"day": day, "model": f"m{n}", "cost_usd": float(20 - n), "calls": 1} for n in range(12)]
    chart = spend_chart.figure(pd.DataFrame(rows), "cost_usd")
    assert [trace.name for trace in chart.data] == [*(f"m{n}" for n in range(8)), "all others"]
    assert chart.data[-1].y == (12.0 + 11.0 + 10.0 + 9.0,)


def test_a_model_name_is_escaped_and_an_unknown_model_is_said_to_be():
    day = pd.Timestamp("2026-01-01").date()
    rows = [{"day": day, "model": model, "calls": 2} for model in (HOSTILE, None)]
    text = json.dumps(spend_chart.figure(pd.DataFrame(rows), "calls").to_plotly_json(), default=list)
    assert "<a" not in text
    assert "unknown" in text


def test_a_long_time_is_drawn_by_month():
    days = [pd.Timestamp(day).date() for day in ("2025-01-05", "2025-01-20", "2025-09-01")]
    chart = spend_chart.figure(pd.DataFrame([{"day": day, "model": "m", "calls": 2} for day in days]), "calls")
    assert dict(zip(chart.data[0].x, chart.data[0].y, strict=True)) == {"2025-01-01": 4.0, "2025-09-01": 2.0}


def test_calls_of_unknown_time_alone_draw_an_empty_chart():
    rows = [{"day": None, "model": "m", "calls": 2}]
    assert not spend_chart.figure(pd.DataFrame(rows), "calls").data
