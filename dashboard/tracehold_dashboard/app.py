"""The Streamlit script: sets the frame and runs the page that is asked for."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from tracehold_dashboard import links
from tracehold_dashboard.views import denials, erasures, overview, review, run, runs, search, spend, tools

ASSETS = Path(__file__).with_name("assets")

# Files of this package, and not icons by name: Streamlit would fetch those for the browser's tab from the network.
st.set_page_config(page_title="Tracehold", page_icon=str(ASSETS / "icon.png"), layout="wide")
st.html(ASSETS / "style.css")
st.logo(str(ASSETS / "logo.svg"), size="large")

PAGES = {
    links.OVERVIEW: st.Page(overview.render, title="Overview", icon=":material/dashboard:", default=True),
    links.RUNS: st.Page(runs.render, title="Runs", icon=":material/list:", url_path="runs"),
    links.RUN: st.Page(run.render, title="Run", icon=":material/waterfall_chart:", url_path="run"),
    links.SEARCH: st.Page(search.render, title="Search", icon=":material/search:", url_path="search"),
    links.DENIALS: st.Page(denials.render, title="Gate denials", icon=":material/block:", url_path="denials"),
    links.REVIEW: st.Page(review.render, title="Review", icon=":material/fact_check:", url_path="review"),
    links.ERASURES: st.Page(erasures.render, title="Erasures", icon=":material/delete_forever:", url_path="erasures"),
    links.SPEND: st.Page(spend.render, title="Spend", icon=":material/payments:", url_path="spend"),
    links.TOOLS: st.Page(tools.render, title="Tools and latency", icon=":material/speed:", url_path="tools"),
}

links.register(PAGES)
# The first page's address is "/": Streamlit gives it no other. Whoever types its name gets there all the same.
by_name = st.Page(links.to_overview, title="Overview", url_path=links.OVERVIEW, visibility="hidden")
st.navigation([*PAGES.values(), by_name], position="top").run()
