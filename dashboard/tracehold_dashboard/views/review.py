"""The reviewer's page: the queue of denials, one of them opened with all there is to judge it by, and the days."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import content as said
from tracehold_dashboard import controls, data, links, tables
from tracehold_dashboard import format as fmt
from tracehold_dashboard.tables import Shown
from tracehold_dashboard.views import parts, review_forms

_SIZE: Final = 50
_STATES: Final = ("open", "assigned", "reviewed", "awaiting_sign_off", "closed")
_VERDICTS: Final = ("justified", "false_alarm", "incident")

QUEUE: Final = {
    "at": Shown("When (UTC)", width=150),
    "name": Shown("Tool", width=110),
    "decision": Shown("Decision", fmt.words, 90),
    "rule": Shown("Rule", width=120),
    "agent": Shown("Agent", width=100),
    "state": Shown("Review", fmt.words, 120),
    "waits": Shown("Due", width=80, help="Overdue: received more than 24 hours ago, and no verdict or sign-off yet"),
    "assignee": Shown("With", width=110),
    "verdict": Shown("Verdict", fmt.words, 100),
    "tried": Shown("Tried again", width=140, help="Later attempts at the same tool in the run, and whether one ran"),
    "tenant": Shown("Tenant", width="small"),
}

_RETRIES: Final = {
    "at": Shown("When (UTC)", width=170),
    "way": Shown("How", fmt.words, 110),
    "name": Shown("Tool", width=120),
    "agent": Shown("Agent", width=110),
    "outcome": Shown("Outcome", fmt.words, 90),
    "alike": Shown("What it asked for", width=230),
}

_ACTS: Final = {
    "at": Shown("When (UTC)", width=170),
    "act": Shown("Act", fmt.words, 100),
    "by": Shown("By", width=130),
    "assignee": Shown("With", width=120),
    "verdict": Shown("Verdict", fmt.words, 100),
    "note": Shown("Note", width=300),
}


def render() -> None:
    """Draw the page."""
    st.title("Review of denials")
    st.caption("Each denial is looked at by a person, who says what it was. Incidents need a second person.")
    review_forms.who_acts()
    review_forms.told()
    part = st.segmented_control(
        "Part", ["Queue", "Days"], default="Queue", key="review_part", label_visibility="collapsed"
    )
    with data.plain_errors():
        if part == "Days":
            _days()
        else:
            _queue()


def _queue() -> None:
    filters = _filters()
    key = f"review_{hash(tuple(filters.items()))}"
    offset = controls.rows_before(key, _SIZE)
    found = data.frame("review_queue", **filters, limit=_SIZE, offset=offset)
    if found.empty:
        _nothing(filters)
        return
    found = found.assign(
        waits=_texts(found, ["overdue" if overdue else None for overdue in found["overdue"]]),
        tried=_texts(found, [_tried(row) for _, row in found.iterrows()]),
    )
    columns = dict(QUEUE)
    if found["tenant"].nunique() < 2:  # noqa: PLR2004 - one tenant needs no column
        del columns["tenant"]
    # New rows need a new key: an old selection would open another denial than was chosen.
    chosen = tables.show(found, columns, key=f"{key}_{hash(tuple(found['event_id']))}", select=True)
    controls.pager(int(found.iloc[0]["total"]), _SIZE, key, "denial")
    if filters["event_id"] is not None:
        chosen = found.iloc[0]
        links.page_link(links.REVIEW, "Back to the whole queue")
    _detail(chosen)


def _filters() -> dict[str, Any]:
    top = st.columns([2, 2, 2, 2, 2], vertical_alignment="bottom")
    state = top[0].selectbox("Review", _STATES, index=None, placeholder="Any", format_func=fmt.words)
    verdict = top[1].selectbox("Verdict", _VERDICTS, index=None, placeholder="Any", format_func=fmt.words)
    assignee = top[2].text_input("With", placeholder="Anybody")
    agent = top[3].text_input("Agent", links.asked("agent") or "", placeholder="Any")
    overdue = top[4].toggle("Overdue only")
    return {
        "state": state,
        "verdict": verdict,
        "assignee": assignee.strip() or None,
        "agent": agent.strip() or None,
        "overdue": True if overdue else None,
        "since": controls.since("review_range"),
        "event_id": links.asked("event_id"),
        "tenant": links.asked("tenant"),
    }


def _nothing(filters: dict[str, Any]) -> None:
    if not any(filters.values()) and data.frame("overview").iloc[0]["events"] == 0:
        parts.welcome()
    else:
        st.info("No denial fits: nothing waits here.", icon=":material/check:")


def _texts(frame: pd.DataFrame, texts: list[str | None]) -> pd.Series[Any]:
    return pd.Series(texts, index=frame.index, dtype="object")


def _tried(row: pd.Series[Any]) -> str | None:
    if not row["retries"]:
        return None
    return f"{row['retries']}, {'got through' if row['got_through'] else 'stopped again'}"


def _detail(denial: pd.Series[Any] | None) -> None:
    st.subheader("One denial", anchor=False)
    if denial is None:
        st.caption("Select a row to see why it was stopped and what the agent tried afterwards, and to give a verdict.")
        return
    event_id, tenant = str(denial["event_id"]), str(denial["tenant"])
    seen = data.review(event_id, tenant, review_forms.own_key())
    left, right = st.columns(2, gap="medium")
    with left:
        _facts(denial)
    with right:
        content = data.contents((event_id,)).get(event_id)
        st.markdown("**Reason**")
        parts.json_or_note(said.reason(content), "The source gave no reason, or the content was erased.")
        st.markdown("**Arguments**")
        parts.json_or_note(said.arguments(content), "No arguments were recorded, or the content was erased.")
    st.markdown("**What the agent tried afterwards**")
    _retries(seen["retries"], event_id)
    st.markdown("**The review so far**")
    _acts(seen["acts"], event_id)
    review_forms.forms(seen)


def _facts(denial: pd.Series[Any]) -> None:
    tables.facts(
        [
            ("Review", fmt.words(denial["state"])),
            ("With", denial["assignee"]),
            ("Verdict", _verdict(denial)),
            ("When", fmt.moment(denial["at"])),
            ("Received", fmt.moment(denial["received_at"])),
            ("Tool", denial["name"]),
            ("Decision", fmt.words(denial["decision"])),
            ("Decided by", denial["decided_by"]),
            ("Rule", denial["rule"]),
            ("Policy", denial["policy_digest"]),
            ("Agent", denial["agent"]),
            ("Tenant", denial["tenant"]),
            ("Run", denial["run_id"]),
            ("Event", denial["event_id"]),
        ],
        key=f"review_facts_{denial['event_id']}",
    )
    links.run_link("Open the run at this event", denial["run_id"], denial["tenant"], denial["event_id"])


def _verdict(denial: pd.Series[Any]) -> str | None:
    if fmt.is_missing(denial["verdict"]):
        return None
    return f"{fmt.words(denial['verdict'])}, by {denial['verdict_by']}"


def _retries(retries: list[dict[str, Any]], event_id: str) -> None:
    if not retries:
        st.caption("Nothing that looks like another try.")
        return
    frame = pd.DataFrame(retries)
    frame = frame.assign(alike=_texts(frame, [_alike(retry) for retry in retries]))
    frame["at"] = pd.to_datetime(frame["at"], utc=True, format="ISO8601").dt.tz_localize(None)
    tables.show(frame, _RETRIES, key=f"review_retries_{event_id}")
    if any(retry["got_through"] for retry in retries):
        st.warning("At least one of these got through: it ran, and no gate stopped it.", icon=":material/warning:")


def _alike(retry: dict[str, Any]) -> str | None:
    if retry["same_arguments"]:
        return "the same arguments"
    if retry["shared"]:
        return "the same " + ", ".join(retry["shared"])
    return "other arguments" if retry["same_arguments"] is False else None


def _acts(acts: list[dict[str, Any]], event_id: str) -> None:
    if not acts:
        st.caption("Nobody has looked at it yet.")
        return
    frame = pd.DataFrame(acts)
    frame["at"] = pd.to_datetime(frame["at"], utc=True, format="ISO8601").dt.tz_localize(None)
    tables.show(frame, _ACTS, key=f"review_acts_{event_id}_{len(acts)}")


DAYS: Final = {
    "day": Shown("Day (UTC)", lambda value: f"{value:%Y-%m-%d}", 110, "The day on which the collector received them"),
    "denials": Shown("Denials", fmt.count, 80),
    "unreviewed": Shown("Without verdict", fmt.count, 115),
    "awaiting_sign_off": Shown("Awaiting sign-off", fmt.count, 125),
    "overdue": Shown("Overdue", fmt.count, 80),
    "justified": Shown("Justified", fmt.count, 80),
    "false_alarms": Shown("False alarms", fmt.count, 95),
    "incidents": Shown("Incidents", fmt.count, 80),
    "reviewers": Shown("Reviewed by", width=170),
    "signed_by": Shown("Signed off by", width=120),
    "signed_at": Shown("Signed off (UTC)", width=150),
    "changed_after": Shown("Changed after", fmt.count, 105, "Denials that somebody acted on after the signature"),
    "tenant": Shown("Tenant", width="small"),
}


def _days() -> None:
    found = data.frame("review_days", limit=90)
    if found.empty:
        st.caption("No denial came in yet.")
        return
    columns = dict(DAYS)
    if found["tenant"].nunique() < 2:  # noqa: PLR2004 - as above
        del columns["tenant"]
    chosen = tables.show(found, columns, key=f"review_days_{hash(tuple(found['day']))}", select=True)
    if chosen is None:
        st.caption("Select a day to sign it off.")
    else:
        review_forms.day_form(chosen)
