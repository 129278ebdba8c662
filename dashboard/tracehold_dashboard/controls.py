"""Controls that more than one page has: the range of time, and the pages of a list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import streamlit as st

from tracehold_dashboard import format as fmt

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


def rows_before(key: str, size: int) -> int:
    """Give the rows to leave out before the page chosen last, for asking before `pager` is drawn.

    Args:
        key: of the pager. It must change with the filters, so that other rows begin on their first page.
        size: rows a page.
    """
    return (int(st.session_state.get(key, 1)) - 1) * size


def pager(total: int, size: int, key: str, noun: str) -> None:
    """Draw which rows are shown, and the pages when there is more than one.

    Args:
        total: rows on all pages.
        size: rows a page.
        key: as given to `rows_before`.
        noun: what one row is, such as "run".
    """
    pages = max(1, -(-total // size))
    first = min(rows_before(key, size), (pages - 1) * size)
    if pages == 1:
        st.caption(fmt.plural(total, noun))
        return
    left, right = st.columns([2, 1], vertical_alignment="center")
    left.caption(f"{first + 1:,} to {min(first + size, total):,} of {fmt.plural(total, noun)}")
    with right.container(horizontal_alignment="right"):
        st.pagination(pages, key=key)
