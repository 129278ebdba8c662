"""The front page: what is held, how it is going, and what needs a look."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from tracehold_dashboard import controls, data, links, tables
from tracehold_dashboard import format as fmt
from tracehold_dashboard.tables import Shown
from tracehold_dashboard.views import denials, parts


def render() -> None:
    """Draw the page."""
    st.title("Overview")
    with data.plain_errors():
        if data.frame("overview").iloc[0]["events"] == 0:
            parts.welcome()
            return
        since = controls.since("overview_range")
        totals = data.frame("overview", since=since).iloc[0]
        _figures(totals)
        if totals["events"] == 0:
            st.info("Nothing was recorded in this range. Choose a longer one.", icon=":material/schedule:")
            _gaps(since)
            return
        _recent_runs(since)
        _recent_denials(since)
        _unmapped(since)
        _gaps(since)


def _figures(totals: pd.Series[Any]) -> None:
    first = st.columns(4, border=True)
    first[0].metric("Runs", fmt.count(totals["runs"]), help="Executions of an agent that started in this range")
    first[1].metric("Running or waiting", fmt.count(totals["running"] + totals["suspended"]))
    first[2].metric("Gate denials", fmt.count(totals["denials"]), help="Decisions that stopped something")
    first[3].metric(
        "Failed runs", fmt.count(totals["failed"]), help=f"{fmt.count(totals['errors'])} events failed in all"
    )
    second = st.columns(4, border=True)
    second[0].metric("Model calls", fmt.count(totals["llm_calls"]))
    second[1].metric("Tool calls", fmt.count(totals["tool_calls"]))
    tokens = [totals[name] for name in ("input_tokens", "output_tokens") if not fmt.is_missing(totals[name])]
    second[2].metric(
        "Tokens", fmt.short_count(sum(tokens)) if tokens else fmt.UNKNOWN, help="Input and output together"
    )
    second[3].metric(
        "Spend",
        fmt.money(totals["cost_usd"], unpriced_calls=totals["unpriced_calls"]) if totals["llm_calls"] else fmt.money(0),
        help=f"{fmt.count(totals['unpriced_calls'])} model calls have no known cost",
    )
    first_at, last_at = fmt.moment(totals["first_at"]), fmt.moment(totals["last_at"])
    st.caption(f"{fmt.count(totals['events'])} events, from {first_at} to {last_at}")


def _recent_runs(since: str | None) -> None:
    runs = data.frame("runs", since=since, limit=8)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"):
        st.subheader("Recent runs", anchor=False)
        links.page_link(links.RUNS, "All runs")
    columns = {name: shown for name, shown in parts.RUN_COLUMNS.items() if name not in {"tenant", "run_id"}}
    chosen = tables.show(parts.runs_for_people(runs), columns, key=f"overview_runs_{since}", select=True)
    if chosen is not None:
        links.to_run(chosen["run_id"], chosen["tenant"])


def _recent_denials(since: str | None) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"):
        st.subheader("Recent gate denials", anchor=False)
        links.page_link(links.DENIALS, "All denials")
    found = data.frame("gate_denials", since=since, limit=5)
    if found.empty:
        st.caption("No gate stopped anything in this range.")
        return
    columns = {
        name: denials.COLUMNS[name] for name in ("at", "name", "decision", "decided_by", "rule", "agent", "next_event")
    }
    chosen = tables.show(found, columns, key=f"overview_denials_{since}", select=True)
    if chosen is not None:
        links.to_run(chosen["run_id"], chosen["tenant"], chosen["event_id"])


def _unmapped(since: str | None) -> None:
    found = data.frame("unmapped", since=since, limit=10)
    if found.empty:
        return
    st.subheader("Not understood", anchor=False)
    st.caption(
        "Stored whole, and of kind `other`: no rule says what these are. They are in no count of calls or spend."
    )
    tables.show(
        found,
        {
            "source": Shown("Came in by", width="small"),
            "service": Shown("Service"),
            "type": Shown("Type"),
            "name": Shown("Name"),
            "events": Shown("Events", fmt.count, "small"),
            "runs": Shown("Runs", fmt.count, "small"),
            "last_at": Shown("Latest (UTC)"),
        },
        key=f"overview_unmapped_{since}",
    )


def _gaps(since: str | None) -> None:
    found = data.frame("gaps", since=since, limit=20)
    found = found[found["started_at"].notna()]  # before the store began, nothing is missing
    if found.empty:
        return
    st.subheader("Not recorded", anchor=False)
    st.caption("When the collector did not run, told senders to come back, or its clock jumped.")
    tables.show(
        found,
        {
            "cause": Shown("Cause", fmt.words),
            "started_at": Shown("From (UTC)"),
            "ended_at": Shown("To (UTC)"),
            "duration_ns": Shown("For", fmt.duration, 100),
            "refused": Shown("Requests sent away", fmt.count, "small"),
        },
        key=f"overview_gaps_{since}",
    )
