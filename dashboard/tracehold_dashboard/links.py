"""Ways from one page to another. A link carries ids, so that it can be sent to somebody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import streamlit as st

from tracehold_dashboard.format import is_missing

OVERVIEW: Final = "overview"
RUNS: Final = "runs"
RUN: Final = "run"
DENIALS: Final = "denials"
REVIEW: Final = "review"
ERASURES: Final = "erasures"
SPEND: Final = "spend"
TOOLS: Final = "tools"
SEARCH: Final = "search"

_STATE: Final = "tracehold_pages"


def register(pages: Mapping[str, Any]) -> None:
    """Keep the app's pages, so that one page can lead to another without importing it."""
    st.session_state[_STATE] = dict(pages)


def to_overview() -> None:
    """Go to the first page at once."""
    st.switch_page(_page(OVERVIEW))


def to_run(run_id: str, tenant: str | None = None, event_id: str | None = None) -> None:
    """Go to a run, and to one of its events, at once."""
    st.switch_page(_page(RUN), query_params=_present(run_id=run_id, tenant=tenant, event_id=event_id))


def run_link(label: str, run_id: str, tenant: str | None = None, event_id: str | None = None) -> None:
    """Draw a link to a run. `label` is ours, never text of a trace: Streamlit reads it as Markdown."""
    st.page_link(
        _page(RUN),
        label=label,
        icon=":material/waterfall_chart:",
        query_params=_present(run_id=run_id, tenant=tenant, event_id=event_id),
    )


def page_link(name: str, label: str, **params: str | None) -> None:
    """Draw a link to a page. `label` is ours, as for `run_link`."""
    st.page_link(_page(name), label=label, icon=":material/arrow_forward:", query_params=_present(**params))


def asked(name: str) -> str | None:
    """Give a parameter of the page's address, `None` when it is not there."""
    return st.query_params.get(name) or None


def _page(name: str) -> Any:
    return st.session_state[_STATE][name]


def _present(**params: str | None) -> dict[str, str]:
    return {name: str(value) for name, value in params.items() if not is_missing(value)}
