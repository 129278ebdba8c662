"""One run: its figures, its waterfall, its events, and one event whole."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import controls, data, links, tables, theme, tree, waterfall
from tracehold_dashboard import format as fmt
from tracehold_dashboard.tables import Shown
from tracehold_dashboard.views import parts

_SPANS_A_PAGE: Final = 300
_MOST_SPANS: Final = 100_000
"""Spans that are put into a tree; more are counted in the totals and said to be left out."""
_EVENTS_A_PAGE: Final = 200

_EVENT_COLUMNS: Final = {
    "offset_ns": Shown("After", fmt.duration, 90, "Time from the run's start"),
    "kind": Shown("Kind", width=90),
    "type": Shown("Type", width=110),
    "name": Shown("Name", width=150),
    "status": Shown("Status", width=90),
    "duration_ns": Shown("Duration", fmt.duration, 90),
    "agent": Shown("Agent", width=95),
    "model": Shown("Model", width=150),
    "input_tokens": Shown("Tokens in", fmt.count, 85),
    "output_tokens": Shown("Tokens out", fmt.count, 85),
    "cost_usd": Shown("Cost", fmt.money, 80),
    "decision": Shown("Decision", fmt.words, 100),
    "rule": Shown("Rule", width=120),
    "error_type": Shown("Error", width=110),
    "seq": Shown("Seq", fmt.count, 60, "The source's own number"),
}


def render() -> None:
    """Draw the page."""
    run_id = links.asked("run_id")
    if run_id is None:
        _ask_for_a_run()
        return
    with data.plain_errors():
        runs = data.frame("run", run_id=run_id, tenant=links.asked("tenant"))
        if runs.empty:
            _no_agents_run(run_id)
            return
        run = _one_of(runs)
        _header(run)
        where = {"run_id": run_id, "tenant": run["tenant"]}
        view = st.segmented_control(
            "View", ["Waterfall", "Events"], default="Waterfall", key="run_view", label_visibility="collapsed"
        )
        chosen = _events(where) if view == "Events" else _waterfall(where, run)
        _detail(chosen or links.asked("event_id"))


def _no_agents_run(run_id: str) -> None:
    """Show what people did here under this id, such as a review or an erasure; else say that there is nothing."""
    where = {"run_id": run_id, "tenant": links.asked("tenant")}
    st.title("Run")
    if data.frame("run_events", **where, limit=1).empty:
        st.warning("No run has this id, or this key may not see it.", icon=":material/search_off:")
        st.code(run_id, language=None)
        links.page_link(links.RUNS, "All runs")
        return
    st.info("This is no agent's run: these are acts of people in Tracehold.", icon=":material/person:")
    st.code(run_id, language=None)
    _detail(_events(where) or links.asked("event_id"))


def _ask_for_a_run() -> None:
    st.title("Run")
    run_id = st.text_input("Run id", placeholder="paste a run id, or choose a run from the list").strip()
    if run_id:
        links.to_run(run_id)
    links.page_link(links.RUNS, "All runs")


def _one_of(runs: pd.DataFrame) -> pd.Series[Any]:
    if len(runs) == 1:
        return runs.iloc[0]
    st.info("Several tenants have a run of this id.", icon=":material/group:")
    tenant = st.selectbox("Tenant", runs["tenant"].tolist())
    chosen: pd.Series[Any] = runs[runs["tenant"] == tenant].iloc[0]
    return chosen


def _header(run: pd.Series[Any]) -> None:
    st.title("Run", anchor=False)
    # st.code and not st.title: a name is the trace's, and a title is read as Markdown.
    st.code(f"{run['name'] if not fmt.is_missing(run['name']) else '(no name)'}   {run['run_id']}", language=None)
    top = st.columns(6, border=True)
    top[0].metric("Status", fmt.status(run["status"]))
    top[1].metric("Duration", fmt.duration(run["duration_ns"]))
    top[2].metric("Model / tool calls", f"{fmt.count(run['llm_calls'])} / {fmt.count(run['tool_calls'])}")
    top[3].metric("Denials / errors", f"{fmt.count(run['denials'])} / {fmt.count(run['errors'])}")
    top[4].metric(
        "Tokens in / out", f"{fmt.short_count(run['input_tokens'])} / {fmt.short_count(run['output_tokens'])}"
    )
    top[5].metric("Cost", parts.costs(run.to_frame().T)[0], help="≥ marks a lower bound: some calls have no known cost")
    with st.expander("About this run", icon=":material/info:"):
        tables.facts(
            [
                ("Started", fmt.moment(run["started_at"])),
                ("Last received", fmt.moment(run["received_at"])),
                ("Events", fmt.count(run["events"])),
                ("Tenant", run["tenant"]),
                ("Agent", run["agent"]),
                ("Service", run["service"]),
                ("User (pseudonym)", run["user_ref"]),
                ("Session (pseudonym)", run["session_id"]),
                ("Trace id", run["trace_id"]),
                ("Came in by", run["source"]),
                ("Calls without a known cost", fmt.count(run["unpriced_calls"])),
            ],
            key="run_facts",
        )
        if not fmt.is_missing(run["session_id"]):
            links.page_link(links.RUNS, "Runs of the same session", session_id=run["session_id"])
        if not fmt.is_missing(run["user_ref"]):
            links.page_link(links.RUNS, "Runs about the same user", user_ref=run["user_ref"])


def _waterfall(where: dict[str, Any], run: pd.Series[Any]) -> str | None:
    spans = data.frame("waterfall", **where, limit=_MOST_SPANS)
    ordered = tree.in_tree_order(spans)
    shown = _chosen(ordered)
    if shown.empty:
        st.info("No span fits.", icon=":material/filter_alt_off:")
        return None
    total = int(spans.iloc[0]["total"])
    if total > len(spans):
        st.warning(
            f"The waterfall holds the first {len(spans):,} of {total:,} spans; the figures above count them all."
        )
    key = f"spans_{where['run_id']}_{len(shown)}"
    first = min(controls.rows_before(key, _SPANS_A_PAGE), len(shown) - 1)
    page = shown.iloc[first : first + _SPANS_A_PAGE]
    run_ns = max(_length(spans), 0 if fmt.is_missing(run["duration_ns"]) else int(run["duration_ns"]))
    state: Any = st.plotly_chart(
        waterfall.figure(page, run_ns, ink=theme.ink(dark=st.context.theme.type == "dark")),
        key=f"{key}_{first}",
        on_select="rerun",
        selection_mode="points",
        config={"displayModeBar": False},
    )
    controls.pager(len(shown), _SPANS_A_PAGE, key, "span")
    points = state.selection.points if state else []
    return str(points[0]["customdata"]) if points and points[0].get("customdata") else None


def _chosen(spans: pd.DataFrame) -> pd.DataFrame:
    """Let spans be searched and folded."""
    left, middle, right, last = st.columns([3, 4, 2, 2], vertical_alignment="bottom")
    search = left.text_input("Search", placeholder="name, type, model or agent", key="spans_search").strip().lower()
    present = sorted(spans["kind"].unique())
    kinds = middle.multiselect("Kinds", present, placeholder="All", key="spans_kinds")
    deepest = int(spans["depth"].max()) if len(spans) else 0
    levels = right.number_input("Fold below level", 0, deepest, value=deepest, key=f"spans_levels_{deepest}")
    problems = last.toggle("Only problems", key="spans_problems", help="Errors and whatever a gate stopped")
    keep = spans["depth"] <= levels
    if search:
        found = pd.Series(data=False, index=spans.index)
        for name in ("name", "type", "model", "agent"):
            found |= spans[name].fillna("").astype(str).str.lower().str.contains(search, regex=False)
        keep &= found
    if kinds:
        keep &= spans["kind"].isin(kinds)
    if problems:
        keep &= spans["status"].isin(["error", "blocked"])
    return spans[keep]


def _length(spans: pd.DataFrame) -> int:
    ends = spans["offset_ns"].fillna(0) + spans["duration_ns"].fillna(0)
    return int(ends.max())


def _events(where: dict[str, Any]) -> str | None:
    key = f"events_{where['run_id']}"
    offset = controls.rows_before(key, _EVENTS_A_PAGE)
    events = data.frame("run_events", **where, limit=_EVENTS_A_PAGE, offset=offset)
    if events.empty:
        return None
    used = {name: shown for name, shown in _EVENT_COLUMNS.items() if events[name].notna().any()}
    chosen = tables.show(events, used, key=f"{key}_{offset}", select=True)
    controls.pager(int(events.iloc[0]["total"]), _EVENTS_A_PAGE, key, "event")
    return None if chosen is None else str(chosen["event_id"])


def _detail(event_id: str | None) -> None:
    st.subheader("Event", anchor=False)
    if event_id is None:
        st.caption("Click a bar, a label or a row to see the event whole.")
        return
    parts.whole_event(event_id, key=f"event_{event_id}")
