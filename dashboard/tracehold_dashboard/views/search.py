"""Search in what events said: hits as they are found; a click on one opens its run there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import controls, data, links, tables
from tracehold_dashboard import format as fmt
from tracehold_dashboard.errors import DashboardError
from tracehold_dashboard.tables import Shown

_HITS: Final = 100
_MOST_CHARS: Final = 500
_KINDS: Final = ("llm", "tool", "gate", "approval", "guardrail", "agent", "run", "retrieval", "memory", "other")
_STATE: Final = "search_found"

_COLUMNS: Final = {
    "at": Shown("At (UTC)", width=150),
    "kind": Shown("Kind", width=80),
    "name": Shown("Name", width=150),
    "excerpt": Shown("What was said", width="large"),
    "path": Shown("Where", width=200, help="The place in the event's content"),
    "more_places": Shown("More", fmt.count, 60, "Further places of the same event that say it"),
    "agent": Shown("Agent", width=100),
    "run_id": Shown("Run", lambda value: fmt.short_id(value, 13), 120),
    "tenant": Shown("Tenant", width="small"),
}


@dataclass(slots=True)
class _Found:
    """What was found for one question; `end` is `None` while it is looked for, and when that was broken off."""

    asked: dict[str, Any]
    hits: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] | None = None


def render() -> None:
    """Draw the page."""
    st.title("Search")
    with data.plain_errors():
        asked = _asked()
        if asked is None:
            st.caption(
                "Looks in prompts, replies, arguments, results and reasons, the newest first. Upper and lower case are "
                "the same. Who searched is noted; the words are not."
            )
            return
        found: _Found | None = st.session_state.get(_STATE)
        if found is None or found.asked != asked:
            found = st.session_state[_STATE] = _Found(asked)
            _look(found)
        _show(found)


def _asked() -> dict[str, Any] | None:
    facets = data.frame("facets")
    top = st.columns([5, 2, 2, 3], vertical_alignment="bottom")
    text = top[0].text_input("Text", links.asked("text") or "", max_chars=_MOST_CHARS, placeholder="what was said")
    kind = top[1].selectbox("Kind", _KINDS, index=None, placeholder="Any")
    agents: list[str] = facets.loc[facets["field"] == "agent", "value"].tolist()
    agent = top[2].selectbox("Agent", agents, index=None, placeholder="Any")
    run_id = top[3].text_input("Run", links.asked("run_id") or "", placeholder="any")
    since = controls.since("search_range")
    if not text.strip():
        return None
    return {"text": text, "kind": kind, "agent": agent, "run_id": run_id.strip() or None, "since": since}


def _look(found: _Found) -> None:
    """Ask, or ask on, and show how far it is; another click on the page ends it, for the collector too."""
    cursor = found.end["cursor"] if found.end else None
    found.end = None
    place = st.empty()
    try:
        for told in data.search(**found.asked, limit=_HITS, cursor=cursor):
            if hit := told.get("hit"):
                found.hits.append(hit)
            elif progress := told.get("progress"):
                share = progress["events"] / progress["of"] if progress["of"] else 1.0
                place.progress(min(1.0, share), _far(progress, len(found.hits)))
            found.end = told.get("done", found.end)
    except DashboardError:
        del st.session_state[_STATE]  # asked again by the next click
        raise
    place.empty()


def _show(found: _Found) -> None:
    hits, end = found.hits, found.end
    if hits:
        frame = pd.DataFrame(hits).assign(at=pd.to_datetime([hit["at"] for hit in hits], utc=True).tz_localize(None))
        columns = dict(_COLUMNS)
        if frame["tenant"].nunique() < 2:  # noqa: PLR2004 - one tenant needs no column
            del columns["tenant"]
        chosen = tables.show(frame, columns, key=f"search_{hash(str(found.asked))}_{len(hits)}", select=True)
        if chosen is not None:
            links.to_run(chosen["run_id"], chosen["tenant"], chosen["event_id"])
    if end is None:
        st.warning("The search was broken off.", icon=":material/stop_circle:")
        st.button("Search again", on_click=lambda: st.session_state.pop(_STATE, None))
        return
    st.caption(_summary(end, len(hits)))
    if not end["complete"] and st.button("Look further back", icon=":material/history:"):
        _look(found)
        st.rerun()


def _far(progress: dict[str, Any], hits: int) -> str:
    reached = (progress["reached"] or "")[:19].replace("T", " ")
    return f"{hits:,} found; {progress['events']:,} of {progress['of']:,} events, back to {reached}"


def _summary(end: dict[str, Any], hits: int) -> str:
    reached = (end["reached"] or "")[:19].replace("T", " ")
    text = f"{fmt.plural(hits, 'event')} found."
    if not end["complete"]:
        why = (
            "the collector was stopped"
            if end["stopped_by"] == "stop"
            else f"the limit of {end['stopped_by']} was reached"
        )
        text += f" Looked back to {reached} UTC, then {why}."
    if end["unread"]:
        text += f" {fmt.plural(end['unread'], 'event')} could not be read, such as erased ones."
    return text
