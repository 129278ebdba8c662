"""The compliance officer's page: the register of erasures with the overdue ones first, and one of them opened."""

from __future__ import annotations

import json
from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import data, links, tables
from tracehold_dashboard import format as fmt
from tracehold_dashboard.tables import Shown

_REGISTER: Final = {
    "state": Shown("Status", width=160),
    "due": Shown("Due", width=170, help="One month after the person asked (GDPR Art. 12(3))"),
    "scope": Shown("Scope", fmt.words, 90),
    "scope_value": Shown("Which", width=180, help="A person or session by its pseudonym"),
    "mode": Shown("Mode", width=80, help="Scrub: what was said. Delete: that it was, too"),
    "basis_text": Shown("Ground", width=230),
    "requester": Shown("Asked for by", width=120),
    "received_at": Shown("Received (UTC)", width=150),
    "tenant": Shown("Tenant", width=100),
    "id": Shown("Erasure", lambda value: fmt.short_id(value, 13), 120),
}
_PLACES: Final = {
    "place": Shown("Place", width=180),
    "found": Shown("Found", fmt.count, 90),
    "removed": Shown("Removed", fmt.count, 90),
    "emptied": Shown("Emptied", fmt.count, 90),
    "resealed": Shown("Sealed again", fmt.count, 110),
    "error": Shown("Not reached", width=260),
}
_RECIPIENTS: Final = {
    "kind": Shown("What", fmt.words, 120),
    "name": Shown("Who or where", width=260),
    "since": Shown("Since (UTC)", width=150),
    "until": Shown("Until (UTC)", width=150),
    "note": Shown("What to do", width=300),
}
_STEPS: Final = {"at": Shown("When (UTC)", width=170), "step": Shown("Step", fmt.words, 160)}


def render() -> None:
    """Draw the page."""
    st.title("Erasures")
    st.caption(
        "Every request to erase what was recorded, the overdue ones first. Reports are signed with the log's key."
    )
    with data.plain_errors():
        register = data.erasure_register()
        if not register:
            st.info("Nobody asked for an erasure yet. `tracehold erase preview` says what one would come to.")
            return
        _figures(register)
        found = _chosen_rows(register)
        if not found:
            st.info("No erasure fits.", icon=":material/check:")
            return
        frame = pd.DataFrame([_row(entry) for entry in found])
        columns = dict(_REGISTER)
        if frame["tenant"].nunique() < 2:  # noqa: PLR2004 - one tenant needs no column
            del columns["tenant"]
        # New rows need a new key: an old selection would open another erasure than was chosen.
        chosen = tables.show(frame, columns, key=f"erasures_{hash(tuple(frame['id']))}", select=True)
        asked = links.asked("erasure_id")
        erasure_id = str(chosen["id"]) if chosen is not None else asked
        if erasure_id is None:
            st.caption("Choose a row to see its steps, what was done where, and its report.")
        else:
            _open(erasure_id)


def _figures(register: list[dict[str, Any]]) -> None:
    overdue = [entry for entry in register if entry["overdue"]]
    waiting = [entry for entry in register if entry["days_left"] is not None]
    columns = st.columns(4)
    columns[0].metric("Requests", len(register))
    columns[1].metric("Open", len(waiting))
    columns[2].metric("Overdue", len(overdue))
    columns[3].metric("Done late", sum(entry["late"] for entry in register))
    if overdue:
        st.error(
            f"{fmt.plural(len(overdue), 'request')} should have been done by now (GDPR Art. 12(3)).",
            icon=":material/warning:",
        )


def _chosen_rows(register: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left, middle, _ = st.columns([2, 2, 4], vertical_alignment="bottom")
    states = sorted({entry["status"] for entry in register})
    status = left.selectbox("Status", states, index=None, placeholder="Any")
    overdue = middle.toggle("Overdue only")
    return [
        entry
        for entry in register
        if (status is None or entry["status"] == status) and (entry["overdue"] or not overdue)
    ]


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    days = entry["days_left"]
    due = _moment(entry["due_at"])
    if days is not None:
        due = f"{due[:10]}, {'OVERDUE' if entry['overdue'] else fmt.plural(days, 'day') + ' left'}"
    state = entry["status"] + (", late" if entry["late"] else "")
    return entry | {"state": state, "due": due, "received_at": _moment(entry["received_at"])}


def _open(erasure_id: str) -> None:
    file = data.erasure_report(erasure_id)
    report = file["report"]
    erasure, request, done = report["erasure"], report["request"], report["done"]
    st.subheader("One erasure")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        tables.facts(_facts(erasure, request, done, report), key=f"facts_{erasure_id}")
    with right:
        _downloads(erasure_id, file)
        steps = pd.DataFrame([step | {"at": _moment(step["at"])} for step in report["steps"]])
        tables.show(steps, _STEPS, key=f"steps_{erasure_id}")
        links.run_link("The log's own record of it", erasure["run_id"], erasure["tenant"])
    _part("What was done where", report["places"], _PLACES, f"places_{erasure_id}", "Nothing yet.")
    st.markdown("**What stayed, and why**")
    # As code: a table would cut it, and Markdown would read what a name holds.
    st.code("\n".join(_stayed(each) for each in report["stayed"]) or "Nothing.", language=None, wrap_lines=True)
    told = [
        each | {"since": _moment(each["since"]), "until": _moment(each["until"])}
        for each in [*report["recipients"], *report["backups"]]
    ]
    none = "Nobody that this collector knows of."
    _part("Who may have a copy, and is to be told", told, _RECIPIENTS, f"recipients_{erasure_id}", none)


def _facts(
    erasure: dict[str, Any], request: dict[str, Any], done: dict[str, Any], report: dict[str, Any]
) -> list[tuple[str, Any]]:
    manifest, remains = report["manifest"], report["remains"]
    return [
        ("Erasure", erasure["id"]),
        ("Status", erasure["status"]),
        ("Scope", " ".join(part for part in (erasure["scope"], erasure["scope_value"]) if part)),
        ("Mode", erasure["mode"]),
        ("Ground", request["basis_text"]),
        ("Asked for by", request["requester"]),
        ("Approved by", request["approver"]),
        ("Refused", request["refused_why"]),
        ("Received", _moment(request["received_at"])),
        ("Due", _moment(request["due_at"])),
        ("Unreadable since", _moment(done["unreadable_since"])),
        ("Completed", _moment(done["completed_at"])),
        ("Bytes gone since", _moment(done["bytes_gone_since"])),
        ("Found", f"{manifest['events']:,} events of {manifest['runs']:,} runs"),
        ("Remains found", None if remains is None else f"{sum(remains['found'].values())} in {remains['files']} files"),
        ("Root of its leaves", report["evidence"]["erased_leaves_root"]),
    ]


def _downloads(erasure_id: str, file: dict[str, Any]) -> None:
    text = json.dumps(file, indent=2, ensure_ascii=False) + "\n"
    left, right = st.columns(2)
    left.download_button(
        "Report (JSON, signed)",
        text,
        file_name=f"erasure-{erasure_id}.json",
        mime="application/json",
        icon=":material/download:",
        key=f"json_{erasure_id}",
    )
    right.download_button(
        "Report (PDF)",
        lambda: data.erasure_report_pdf(erasure_id),
        file_name=f"erasure-{erasure_id}.pdf",
        mime="application/pdf",
        icon=":material/picture_as_pdf:",
        key=f"pdf_{erasure_id}",
    )
    st.caption("Checked offline by `tracehold erasure verify-report FILE --key VKEY`. SHA-256 of its canonical JSON:")
    st.code(file["sha256"], language=None, wrap_lines=True)


def _part(heading: str, rows: list[dict[str, Any]], columns: dict[str, Shown], key: str, none: str) -> None:
    st.markdown(f"**{heading}**")
    if rows:
        tables.show(pd.DataFrame(rows), columns, key=key)
    else:
        st.caption(none)


def _stayed(each: dict[str, Any]) -> str:
    until = f" Until {_moment(each['until'])}." if each["until"] else ""
    return f"{each['what']}: {each['why']}.{until}"


def _moment(text: str | None) -> str:
    """To the second, as the tables write times."""
    return "" if text is None else f"{text[:10]} {text[11:19]}"
