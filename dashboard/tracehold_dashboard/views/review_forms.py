"""Acting on a denial: under whose login, and the forms that fit how its review stands.

What a form sends is bound when it is drawn: a page that is drawn anew after somebody else acted would otherwise send an
act on a state that its reader never saw.
"""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import data
from tracehold_dashboard import format as fmt
from tracehold_dashboard.errors import DashboardError

_KEY: Final = "review_own_key"
_TOLD: Final = "review_told"
_VERDICTS: Final = {
    "justified": "Justified: the gate was right, and nothing more is to be done",
    "false_alarm": "False alarm: the gate stopped what should have been allowed",
    "incident": "Incident: something went wrong; a second person signs it off",
}


def own_key() -> str:
    """Give the key that this session's person entered, empty when none: then the dashboard's own is shown."""
    return str(st.session_state.get(_KEY) or "")


def who_acts() -> None:
    """Say under which login acts are recorded, and let a person enter a key of their own."""
    if own_key():
        left, right = st.columns([4, 1], vertical_alignment="center")
        left.info(
            "You act under the login of the key you entered. It is kept in this browser session only.",
            icon=":material/person:",
        )
        right.button("Forget my key", on_click=_forget)
        return
    st.warning(
        "What you do on this page is recorded under the login of the dashboard's own key: everybody who uses this "
        "dashboard is one and the same login, and no incident can be signed off a second time that way.",
        icon=":material/group:",
    )
    with st.expander("Act under your own login"):
        with st.form("review_key", border=False):
            st.text_input("Your own key", type="password", key="review_key_typed", autocomplete="off")
            st.form_submit_button("Use this key", on_click=_keep)
        st.caption(
            "A key with the roles read and audit, and content to read notes: `tracehold keys create`. It is sent to "
            "the collector only, and forgotten when this browser session ends."
        )


def told() -> None:
    """Show once what became of the last act."""
    found = st.session_state.pop(_TOLD, None)
    if found is None:
        return
    good, text = found
    if good:
        st.success(text, icon=":material/check:")
    else:
        st.error("Nothing was changed.", icon=":material/error:")
        # Not in the box above: Streamlit reads that as Markdown, and the collector's words may quote a name.
        st.code(text, language=None, wrap_lines=True)


def forms(seen: dict[str, Any]) -> None:
    """Draw what can be done about a denial now.

    Args:
        seen: the collector's answer about it; its revision is what the forms act on.
    """
    review, you = seen["review"], seen["you"]
    if not you["may_review"]:
        st.caption("To act on it, a key with the role audit is needed; this one may only look.")
        return
    st.caption("Acts are recorded in the log under this login:")
    st.code(you["login"], language=None)
    name = f"review_{review['event_id']}_{review['revision']}"
    state = review["state"]
    left, right = st.columns([3, 2], gap="medium")
    if state in {"open", "assigned"}:
        with left:
            _verdict_form(review, name)
        with right:
            _assign_form(review, name)
    elif state == "awaiting_sign_off":
        with left:
            _note_form(review, name, "sign_off", "Sign the incident off", "Another login than gave the verdict.")
        with right:
            _reopen_form(review, name)
    else:
        with left:
            _reopen_form(review, name)


def day_form(day: pd.Series[Any]) -> None:
    """Draw the form that signs a day off."""
    text = f"{day['day']:%Y-%m-%d}"
    name = f"review_day_{text}_{day['tenant']}_{day['revision']}"
    with st.form(name):
        st.markdown(f"**Sign {text} off**")
        waiting = int(day["unreviewed"]) + int(day["awaiting_sign_off"])
        if waiting:
            st.warning(f"{fmt.plural(waiting, 'denial')} of this day still wait; the signature says so.")
        st.text_area("Note", key=f"{name}_note", max_chars=4_000)
        seen = {key: int(day[key]) for key in ("denials", "unreviewed", "awaiting_sign_off")}
        st.form_submit_button(
            "Sign this day off", on_click=_sign, args=(text, seen | {"tenant": str(day["tenant"])}, f"{name}_note")
        )


def _verdict_form(review: dict[str, Any], name: str) -> None:
    with st.form(f"{name}_verdict"):
        st.radio("Verdict", list(_VERDICTS), format_func=_VERDICTS.__getitem__, key=f"{name}_found")
        st.text_area("Note", key=f"{name}_note", max_chars=4_000, help="Kept as content. An incident needs one.")
        st.form_submit_button(
            "Give this verdict",
            type="primary",
            on_click=_act,
            args=(review, "verdict"),
            kwargs={"note": f"{name}_note", "verdict": f"{name}_found"},
        )


def _assign_form(review: dict[str, Any], name: str) -> None:
    with st.form(f"{name}_assign"):
        st.text_input("Give it to", key=f"{name}_to", placeholder="yourself", help="The name of a colleague's key")
        st.form_submit_button("Assign", on_click=_act, args=(review, "assign"), kwargs={"assignee": f"{name}_to"})


def _reopen_form(review: dict[str, Any], name: str) -> None:
    _note_form(review, name, "reopen", "Reopen", "Say why. What was said before stays in the log.")


def _note_form(review: dict[str, Any], name: str, act: str, label: str, help_text: str) -> None:
    with st.form(f"{name}_{act}"):
        st.text_area("Note", key=f"{name}_{act}_note", max_chars=4_000, help=help_text)
        st.form_submit_button(label, on_click=_act, args=(review, act), kwargs={"note": f"{name}_{act}_note"})


def _act(review: dict[str, Any], act: str, **fields: str) -> None:
    """Send an act on the state that was drawn; `fields` name the widgets that hold its parts."""
    body: dict[str, Any] = {"act": act, "revision": review["revision"], "tenant": review["tenant"]}
    body |= {part: text for part, widget in fields.items() if (text := _typed(widget))}
    try:
        done = data.review_act(review["event_id"], body, own_key())
    except DashboardError as error:
        st.session_state[_TOLD] = (False, f"{error}\n{error.hint}".strip())
    else:
        st.session_state[_TOLD] = (True, f"Recorded: the denial is {fmt.words(done['state'])} now.")


def _sign(day: str, seen: dict[str, Any], note: str) -> None:
    text = _typed(note)
    try:
        data.sign_day(day, seen | ({"note": text} if text else {}), own_key())
    except DashboardError as error:
        st.session_state[_TOLD] = (False, f"{error}\n{error.hint}".strip())
    else:
        st.session_state[_TOLD] = (True, f"Recorded: {day} is signed off.")


def _typed(widget: str) -> str:
    return str(st.session_state.get(widget) or "").strip()


def _keep() -> None:
    st.session_state[_KEY] = _typed("review_key_typed")
    st.session_state["review_key_typed"] = ""


def _forget() -> None:
    st.session_state.pop(_KEY, None)
