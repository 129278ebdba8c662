"""What is spent, on what, day by day. A cost nobody knows is said to be unknown, never counted as nothing."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import data, spend_chart, tables
from tracehold_dashboard import format as fmt
from tracehold_dashboard.tables import Shown
from tracehold_dashboard.views import parts

_ZONES: Final = (
    "UTC",
    "Europe/London",
    "Europe/Berlin",
    "America/New_York",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Australia/Sydney",
)
_MEASURES: Final = {"Cost": "cost_usd", "Tokens": "tokens", "Calls": "calls"}
_BY: Final = {
    "Model": "model",
    "Agent": "agent",
    "Tenant": "tenant",
    "User": "user_ref",
    "Service": "service",
    "Session": "session_id",
    "Run": "run_id",
}
_TOKENS: Final = ("input_tokens", "output_tokens")


def render() -> None:
    """Draw the page."""
    st.title("Spend")
    with data.plain_errors():
        filters = _filters()
        by_day = data.frame("spend_by_model_day", **filters)
        if by_day.empty:
            _nothing()
            return
        by_day["tokens"] = by_day[list(_TOKENS)].fillna(0).sum(axis=1)
        _figures(by_day)
        _budgets()
        _chart(by_day, filters["timezone"])
        _tables(by_day, filters)


def _filters() -> dict[str, Any]:
    today = datetime.now(UTC).date()
    left, middle, right = st.columns([2, 2, 2], vertical_alignment="bottom")
    first = left.date_input("From", value=None, max_value=today + timedelta(days=1), format="YYYY-MM-DD")
    last = middle.date_input("To, inclusive", value=None, max_value=today + timedelta(days=1), format="YYYY-MM-DD")
    zone = right.selectbox("Days of the time zone", _ZONES, accept_new_options=True)
    return {
        "from_day": first if isinstance(first, date) else None,
        "until_day": last + timedelta(days=1) if isinstance(last, date) else None,
        "timezone": zone or "UTC",
    }


def _figures(by_day: pd.DataFrame) -> None:
    unpriced = int(by_day["unpriced_calls"].sum())
    cost = by_day["cost_usd"].sum(min_count=1)
    top = st.columns(4, border=True)
    top[0].metric("Cost", fmt.money(cost, unpriced_calls=unpriced))
    top[1].metric("Model calls", fmt.count(by_day["calls"].sum()))
    top[2].metric("Tokens in / out", " / ".join(fmt.short_count(by_day[name].sum(min_count=1)) for name in _TOKENS))
    top[3].metric("Calls without a known cost", fmt.count(unpriced))
    if unpriced:
        st.warning(
            "1 call has no known cost. It is not free: the cost shown is a lower bound."
            if unpriced == 1
            else f"{unpriced:,} calls have no known cost. They are not free: the cost shown is a lower bound.",
            icon=":material/price_change:",
        )


def _budgets() -> None:
    """Show how the budgets stand, the worst first; nothing where there are none."""
    states = data.budgets()
    if not states:
        return
    st.subheader("Budgets", anchor=False)
    rows = pd.DataFrame(states)
    rows["spent"] = [fmt.money(row["spent_usd"], unpriced_calls=row["unpriced_calls"]) for row in states]
    for name in ("usd", "forecast_usd"):
        rows[name] = [fmt.money(row[name]) if row[name] is not None else fmt.NOTHING for row in states]
    rows["share"] = [f"{row['share']:.0%}" for row in states]
    rows = rows.iloc[sorted(range(len(states)), key=lambda at: -_WORSE.get(states[at]["state"], 0))]
    tables.show(rows, _BUDGET_COLUMNS, key="spend_budgets")


def _chart(by_day: pd.DataFrame, zone: str) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.subheader("Over time, by model", anchor=False)
        measure = st.segmented_control(
            "Measure", list(_MEASURES), default="Cost", key="spend_measure", label_visibility="collapsed"
        )
    st.plotly_chart(
        spend_chart.figure(by_day, _MEASURES[measure or "Cost"]), key="spend_chart", config={"displayModeBar": False}
    )
    # The collector has taken the zone by now, so it is one of the IANA names and not just anything.
    st.caption(f"Days of {zone}. Calls whose time is not known are on no day.")


def _tables(by_day: pd.DataFrame, filters: dict[str, Any]) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.subheader("By what it was spent on", anchor=False)
        by = st.segmented_control("By", list(_BY), default="Model", key="spend_by", label_visibility="collapsed")
    name = by or "Model"
    rows = data.frame("spend", by=_BY[name], **filters)
    rows["cost"] = parts.costs(rows)
    tables.show(rows, {"value": Shown(name, width=250)} | _SPEND_COLUMNS, key=f"spend_table_{name}")
    with st.expander("Day by day, as a table", icon=":material/table_rows:"):
        by_day["cost"] = parts.costs(by_day)
        columns = {
            "day": Shown("Day", width="small"),
            "tenant": Shown("Tenant", width="small"),
            "provider": Shown("Provider", width="small"),
            "model": Shown("Model", width="medium"),
        }
        tables.show(by_day, columns | _SPEND_COLUMNS, key="spend_days")


_WORSE: Final = {"warning": 1, "will be over": 2, "over": 3}
_BUDGET_COLUMNS: Final = {
    "name": Shown("Budget", width=200),
    "state": Shown("State", width=110),
    "spent": Shown("Spent", None, 110, "≥ marks a lower bound: some calls have no known cost", right=True),
    "usd": Shown("Of", None, 100, right=True),
    "share": Shown("Share", None, 80, right=True),
    "forecast_usd": Shown("Forecast", None, 110, "What the period comes to at the pace so far", right=True),
    "period": Shown("Period", width=80),
    "until": Shown("Until (UTC)", width=170),
}

_SPEND_COLUMNS: Final = {
    "cost": Shown("Cost (USD)", None, 110, "≥ marks a lower bound: some calls have no known cost", right=True),
    "calls": Shown("Calls", fmt.count, 80),
    "unpriced_calls": Shown("Without cost", fmt.count, 100, "Calls without a known cost"),
    "input_tokens": Shown("Tokens in", fmt.count, 110),
    "cached_tokens": Shown("Of these cached", fmt.count, 120),
    "output_tokens": Shown("Tokens out", fmt.count, 110),
    "reasoning_tokens": Shown("Of these reasoning", fmt.count, 130),
    "runs": Shown("Runs", fmt.count, 70),
    "last_at": Shown("Latest (UTC)", None, 150),
}


def _nothing() -> None:
    if data.frame("overview").iloc[0]["events"] == 0:
        parts.welcome()
    else:
        st.info("No model call in this range.", icon=":material/payments:")
