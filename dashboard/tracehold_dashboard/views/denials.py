"""The auditor's page: what was stopped, by which rule or person, with what arguments, and what happened next."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import content as said
from tracehold_dashboard import controls, data, export, links, tables
from tracehold_dashboard import format as fmt
from tracehold_dashboard.tables import Shown
from tracehold_dashboard.views import parts

_SIZE: Final = 50
_MOST_EXPORTED: Final = 10_000

COLUMNS: Final = {
    "at": Shown("When (UTC)", width=150),
    "name": Shown("Tool", width=110),
    "decision": Shown("Decision", fmt.words, 100),
    "decided_by": Shown("Decided by", width=110),
    "rule": Shown("Rule", width=120),
    "reason": Shown("Reason", width=190),
    "arguments": Shown("Arguments", width=150),
    "agent": Shown("Agent", width=100),
    "next_event": Shown("What happened next", width=190, help="The run's next event: type, name and status"),
    "run_id": Shown("Run", lambda value: fmt.short_id(value, 13), 120),
    "tenant": Shown("Tenant", width="small"),
}


def render() -> None:
    """Draw the page."""
    st.title("Gate denials")
    st.caption("Every attempt that a permission, an approval, a guardrail, a limit or an argument check stopped.")
    with data.plain_errors():
        filters = _filters()
        key = f"denials_{hash(tuple(filters.items()))}"
        offset = controls.rows_before(key, _SIZE)
        found = data.frame("gate_denials", **filters, limit=_SIZE, offset=offset)
        if found.empty:
            _nothing()
            return
        found = with_words(found)
        columns = dict(COLUMNS)
        if found["tenant"].nunique() < 2:  # noqa: PLR2004 - one tenant needs no column
            del columns["tenant"]
        chosen = tables.show(found, columns, key=f"{key}_{offset}", select=True)
        controls.pager(int(found.iloc[0]["total"]), _SIZE, key, "denial")
        _export(filters, key)
        _detail(chosen)


def with_words(denials: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `reason` and `arguments` from the events' contents."""
    contents = data.contents(tuple(denials["event_id"]))
    known = [contents.get(event_id) for event_id in denials["event_id"]]
    arguments = [said.arguments(content) for content in known]
    words = denials.copy()
    words["reason"] = pd.Series([said.reason(content) for content in known], index=words.index, dtype="object")
    words["arguments"] = pd.Series(
        [None if value is None else fmt.compact_json(value) for value in arguments], index=words.index, dtype="object"
    )
    return words


def _filters() -> dict[str, Any]:
    top = st.columns([2, 2, 2, 2], vertical_alignment="bottom")
    decision = top[0].selectbox(
        "Decision",
        [
            "denied",
            "rejected",
            "unconfirmed",
            "expired",
            "invalid_args",
            "unknown_tool",
            "tripped",
            "limited",
            "cancelled",
        ],
        index=None,
        placeholder="Any",
        format_func=fmt.words,
    )
    tool = top[1].text_input("Tool", links.asked("name") or "", placeholder="Any")
    rule = top[2].text_input("Rule", links.asked("rule") or "", placeholder="Any")
    agent = top[3].text_input("Agent", links.asked("agent") or "", placeholder="Any")
    return {
        "since": controls.since("denials_range"),
        "decision": decision,
        "name": tool.strip() or None,
        "rule": rule.strip() or None,
        "agent": agent.strip() or None,
        "run_id": links.asked("run_id"),
    }


def _nothing() -> None:
    if data.frame("overview").iloc[0]["events"] == 0:
        parts.welcome()
    else:
        st.info(
            "No denial fits. No gate stopped anything in this range, or the filters leave it out.",
            icon=":material/check:",
        )


def _export(filters: dict[str, Any], key: str) -> None:
    def table() -> bytes:
        return export.csv(
            with_words(data.frame("gate_denials", **filters, limit=_MOST_EXPORTED)).drop(columns=["total"])
        )

    st.download_button(
        "Download as CSV",
        table,
        file_name="gate-denials.csv",
        mime="text/csv",
        icon=":material/download:",
        key=f"{key}_csv",
        on_click="ignore",
        help=f"All rows that fit the filters, at most {_MOST_EXPORTED:,}, with reason and arguments",
    )


def _detail(denial: pd.Series[Any] | None) -> None:
    st.subheader("One denial", anchor=False)
    if denial is None:
        st.caption("Select a row to see its reason and arguments whole, and what happened next.")
        return
    content = data.contents((denial["event_id"],)).get(denial["event_id"])
    left, right = st.columns(2, gap="medium")
    with left:
        tables.facts(
            [
                ("When", fmt.moment(denial["at"])),
                ("Tool", denial["name"]),
                ("Decision", fmt.words(denial["decision"])),
                ("Decided by", denial["decided_by"]),
                ("Rule", denial["rule"]),
                ("Policy", denial["policy_digest"]),
                ("Agent", denial["agent"]),
                ("User (pseudonym)", denial["user_ref"]),
                ("Tenant", denial["tenant"]),
                ("Run", denial["run_id"]),
                ("Event", denial["event_id"]),
                ("What happened next", denial["next_event"] or "nothing: it was the run's last event"),
            ],
            key=f"denial_{denial['event_id']}",
        )
        links.run_link("Open the run at this event", denial["run_id"], denial["tenant"], denial["event_id"])
        links.page_link(links.REVIEW, "Review this denial", event_id=denial["event_id"], tenant=denial["tenant"])
        if not fmt.is_missing(denial["next_event_id"]):
            links.run_link("Open what happened next", denial["run_id"], denial["tenant"], denial["next_event_id"])
    with right:
        st.markdown("**Reason**")
        parts.json_or_note(said.reason(content), "The source gave no reason, or the content was erased.")
        st.markdown("**Arguments**")
        parts.json_or_note(said.arguments(content), "No arguments were recorded, or the content was erased.")
