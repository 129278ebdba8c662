"""The list of runs: filters, sorting, pages; a click on a row opens the run."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import controls, data, links, tables
from tracehold_dashboard.views import parts

_SIZE: Final = 50
_SORTS: Final = {
    "Newest first": ("started_at", "desc"),
    "Oldest first": ("started_at", "asc"),
    "Longest first": ("duration_ns", "desc"),
    "Dearest first": ("cost_usd", "desc"),
    "Most tokens first": ("tokens", "desc"),
    "Most denials first": ("denials", "desc"),
    "Most errors first": ("errors", "desc"),
    "Most events first": ("events", "desc"),
}
_GATES: Final = {"Any": None, "With denials": True, "Without": False}


def render() -> None:
    """Draw the page."""
    st.title("Runs")
    with data.plain_errors():
        filters = _filters()
        key = f"runs_{hash(tuple(filters.items()))}"
        runs = data.frame("runs", **filters, limit=_SIZE, offset=controls.rows_before(key, _SIZE))
        if runs.empty:
            _nothing()
            return
        columns = dict(parts.RUN_COLUMNS)
        if runs["tenant"].nunique() < 2:  # noqa: PLR2004 - one tenant needs no column
            del columns["tenant"]
        chosen = tables.show(
            parts.runs_for_people(runs), columns, key=f"{key}_{controls.rows_before(key, _SIZE)}", select=True
        )
        controls.pager(int(runs.iloc[0]["total"]), _SIZE, key, "run")
        if chosen is not None:
            links.to_run(chosen["run_id"], chosen["tenant"])


def _filters() -> dict[str, Any]:
    facets = data.frame("facets")
    top = st.columns([3, 2, 2, 2, 2], vertical_alignment="bottom")
    search = top[0].text_input("Search", links.asked("search") or "", placeholder="run id, name or agent")
    status = _choice(top[1], "Status", "status", facets)
    agent = _choice(top[2], "Agent", "agent", facets)
    service = _choice(top[3], "Service", "service", facets)
    gates = top[4].selectbox("Gate denials", list(_GATES))
    bottom = st.columns([8, 3], vertical_alignment="center")
    with bottom[0]:
        since = controls.since("runs_range")
    sort, direction = _SORTS[bottom[1].selectbox("Sort", list(_SORTS), label_visibility="collapsed")]
    return {
        "search": search.strip() or None,
        "status": status,
        "agent": agent,
        "service": service,
        "has_denials": _GATES[gates],
        "since": since,
        "sort": sort,
        "direction": direction,
        "session_id": links.asked("session_id"),
        "user_ref": links.asked("user_ref"),
    }


def _choice(place: Any, label: str, field: str, facets: pd.DataFrame) -> str | None:
    values: list[str] = facets.loc[facets["field"] == field, "value"].tolist()
    asked = links.asked(field)
    if asked and asked not in values:
        values.append(asked)
    chosen: str | None = place.selectbox(
        label, values, index=values.index(asked) if asked else None, placeholder="Any", key=f"runs_{field}"
    )
    return chosen


def _nothing() -> None:
    if data.frame("overview").iloc[0]["events"] == 0:
        parts.welcome()
    else:
        st.info("No run fits these filters.", icon=":material/filter_alt_off:")
