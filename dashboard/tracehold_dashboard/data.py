"""What the pages ask the collector, remembered for a few seconds, and how they say that it failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard.api import Client
from tracehold_dashboard.errors import DashboardError, NotAllowedError, NotFoundError, UnreachableError
from tracehold_dashboard.settings import Settings, load

_FRESH_S: Final = 5
"""A page asks the same thing again at every click; within this time the answer is reused."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say what went wrong in plain words, and end the page there."""
    try:
        yield
    except DashboardError as error:
        _say(error)
        st.stop()
    except ValueError as error:
        # Settings that cannot be used: the only thing a page reads besides the collector.
        st.error("The dashboard's settings cannot be used.", icon=":material/error:")
        st.code(str(error), language=None)
        st.stop()


def frame(query: str, **params: Any) -> pd.DataFrame:
    """Run a named query; its rows are the caller's own copy. Raises `DashboardError`."""
    settings = load()
    return _frame(settings, settings.url, query, tuple(sorted(params.items())))


def csv(query: str, **params: Any) -> bytes:
    """Run a named query and give CSV. Raises `DashboardError`."""
    with Client(load()) as client:
        return client.csv(query, **params)


def event(event_id: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Give one event, envelope and content. Raises `DashboardError`."""
    with Client(load()) as client:
        return client.event(event_id)


def contents(event_ids: tuple[str, ...]) -> dict[str, dict[str, Any] | None]:
    """Give contents by event id. Raises `DashboardError`."""
    settings = load()
    return _contents(settings, settings.url, event_ids)


def search(text: str, **params: Any) -> Iterator[dict[str, Any]]:
    """Look for a text in what events said; yields what the collector tells as it comes. Raises `DashboardError`."""
    with Client(load()) as client:
        yield from client.search(text, **params)


def review(event_id: str, tenant: str, key: str) -> dict[str, Any]:
    """Give the review of a denial as the owner of `key` sees it; an empty key is the dashboard's. Raises as `frame`."""
    with Client(_as(key)) as client:
        return client.review(event_id, tenant)


def review_act(event_id: str, act: dict[str, Any], key: str) -> dict[str, Any]:
    """Act on a denial as the owner of `key`, and forget what was asked before. Raises `DashboardError`."""
    with Client(_as(key)) as client:
        done = client.review_act(event_id, act)
    _frame.clear()
    return done


def sign_day(day: str, seen: dict[str, Any], key: str) -> dict[str, Any]:
    """Sign a day off as the owner of `key`, and forget what was asked before. Raises `DashboardError`."""
    with Client(_as(key)) as client:
        done = client.sign_day(day, seen)
    _frame.clear()
    return done


def erasure_register() -> list[dict[str, Any]]:
    """Give the register of erasures, the overdue ones first. Raises `DashboardError`."""
    with Client(load()) as client:
        return client.erasure_register()


def erasure_report(erasure_id: str) -> dict[str, Any]:
    """Give the signed report of an erasure. Raises `DashboardError`."""
    with Client(load()) as client:
        return client.erasure_report(erasure_id)


def erasure_report_pdf(erasure_id: str) -> bytes:
    """Give the report of an erasure as a PDF. Raises `DashboardError`."""
    with Client(load()) as client:
        return client.erasure_report_pdf(erasure_id)


def _as(key: str) -> Settings:
    settings = load()
    return replace(settings, api_key=key) if key else settings


def budgets() -> list[dict[str, Any]]:
    """Give how the budgets stand. Raises `DashboardError`."""
    with Client(load()) as client:
        return client.budgets()


@st.cache_data(ttl=_FRESH_S, max_entries=100, show_spinner=False)
def _frame(_settings: Settings, url: str, query: str, params: tuple[tuple[str, Any], ...]) -> pd.DataFrame:  # noqa: ARG001 - the address is part of what is remembered, the key is not
    with Client(_settings) as client:
        return client.frame(query, **dict(params))


@st.cache_data(ttl=_FRESH_S, max_entries=20, show_spinner=False)
def _contents(_settings: Settings, url: str, event_ids: tuple[str, ...]) -> dict[str, dict[str, Any] | None]:  # noqa: ARG001 - as above
    with Client(_settings) as client:
        return client.contents(event_ids)


def _say(error: DashboardError) -> None:
    headline, icon = "The collector could not answer.", ":material/error:"
    if isinstance(error, UnreachableError):
        headline, icon = "The collector cannot be reached.", ":material/cloud_off:"
    elif isinstance(error, NotAllowedError):
        headline, icon = "The collector needs a key.", ":material/key:"
    elif isinstance(error, NotFoundError):
        headline, icon = "Not found.", ":material/search_off:"
    st.error(headline, icon=icon)
    # Not in the box above: Streamlit reads that as Markdown, and the collector's words may quote an id.
    st.code(f"{error}\n{error.hint}".strip(), language=None, wrap_lines=True)
    if isinstance(error, UnreachableError):
        st.button("Try again", icon=":material/refresh:")
