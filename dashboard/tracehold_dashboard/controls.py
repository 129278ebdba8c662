"""Controls that more than one page has: the range of time, and the pages of a list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import streamlit as st

_RANGES: Final = {
    "Last hour": timedelta(hours=1),
    "24 hours": timedelta(days=1),
    "7 days": timedelta(days=7),
    "30 days": timedelta(days=30),
    "All": None,
}


def since(key: str) -> str | None:
    """Let a range be chosen; give its start as ISO 8601 in UTC, `None` for all."""
    choice = st.segmented_control("Range", list(_RANGES), default="All", key=key, label_visibility="collapsed")
    length = _RANGES.get(choice or "All")
    if length is None:
        return None
    # To the minute, so that every click within it asks the same question and the answer can be reused.
    start = datetime.now(UTC).replace(second=0, microsecond=0) - length
    return start.isoformat()


def page_offset(total: int, size: int, key: str, noun: str) -> int:
    """Let a page be chosen when there is more than one; give the rows to leave out before it.

    Args:
        total: rows on all pages.
        size: rows a page.
        key: of the widget.
        noun: what the rows are, such as "runs".
    """
    pages = max(1, -(-total // size))
    if pages == 1:
        return 0
    chosen = min(int(st.session_state.get(key, 1)), pages)
    left, right = st.columns([5, 1], vertical_alignment="bottom")
    first = (chosen - 1) * size
    left.caption(f"{first + 1:,} to {min(first + size, total):,} of {total:,} {noun}")
    page = right.number_input(f"Page, of {pages:,}", min_value=1, max_value=pages, value=chosen, key=f"{key}_input")
    if page != chosen:
        st.session_state[key] = int(page)
        st.rerun()
    return first


def rows_before(key: str, size: int) -> int:
    """Give the rows to leave out before the page chosen last; used before the total is known."""
    return (int(st.session_state.get(key, 1)) - 1) * size
