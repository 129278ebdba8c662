"""Which tools are used and stopped, and what is slow."""

from __future__ import annotations

from typing import Final

import streamlit as st

from tracehold_dashboard import controls, data, tables
from tracehold_dashboard import format as fmt
from tracehold_dashboard.tables import Shown
from tracehold_dashboard.views import parts

_TOOLS: Final = {
    "tool": Shown("Tool", width="large"),
    "calls": Shown("Calls", fmt.count, 90),
    "errors": Shown("Errors", fmt.count, 90),
    "blocked": Shown("Blocked", fmt.count, 90, "Attempts that a gate stopped; nothing ran"),
    "p50_ms": Shown("Median", fmt.milliseconds, 100),
    "p99_ms": Shown("99th percentile", fmt.milliseconds, 120),
    "last_used_at": Shown("Last used (UTC)", width=160),
}
_LATENCY: Final = {
    "kind": Shown("Kind", width=90),
    "name": Shown("Name", width="medium"),
    "model": Shown("Model", width="medium"),
    "count": Shown("Timed events", fmt.count, 110, "Events without a credible duration are left out"),
    "errors": Shown("Errors", fmt.count, 80),
    "p50_ms": Shown("Median", fmt.milliseconds, 100),
    "p90_ms": Shown("90th percentile", fmt.milliseconds, 120),
    "p99_ms": Shown("99th percentile", fmt.milliseconds, 120),
    "max_ms": Shown("Longest", fmt.milliseconds, 100),
}


def render() -> None:
    """Draw the page."""
    st.title("Tools and latency")
    with data.plain_errors():
        if data.frame("overview").iloc[0]["events"] == 0:
            parts.welcome()
            return
        since = controls.since("tools_range")
        st.subheader("Tools", anchor=False)
        tools = data.frame("tools", since=since)
        if tools.empty:
            st.caption("No tool was called in this range.")
        else:
            tables.show(tools, _TOOLS, key=f"tools_{since}")
        st.subheader("What is slow", anchor=False)
        latency = data.frame("latency", since=since)
        if latency.empty:
            st.caption("No event with a known duration in this range.")
        else:
            tables.show(latency, _LATENCY, key=f"latency_{since}")
