"""Pieces that more than one page shows."""

from __future__ import annotations

import json
from typing import Any, Final

import pandas as pd
import streamlit as st

from tracehold_dashboard import data, tables
from tracehold_dashboard import format as fmt
from tracehold_dashboard.settings import load
from tracehold_dashboard.tables import Shown

RUN_COLUMNS: Final = {
    "started_at": Shown("Started (UTC)", width=150),
    "name": Shown("Name", width="medium"),
    "agent": Shown("Agent", width=110),
    "status": Shown("Status", fmt.status, 90),
    "duration_ns": Shown("Duration", fmt.duration, 100),
    "llm_calls": Shown("Model calls", fmt.count, 85),
    "tool_calls": Shown("Tool calls", fmt.count, 80),
    "denials": Shown("Denials", fmt.count, 70, "Decisions of a gate that stopped something"),
    "errors": Shown("Errors", fmt.count, 70),
    "tokens": Shown("Tokens", fmt.count, 90, "Input and output together"),
    "cost": Shown("Cost (USD)", None, 100, "≥ marks a lower bound: some calls have no known cost", right=True),
    "run_id": Shown("Run", lambda value: fmt.short_id(value, 13), 120),
    "tenant": Shown("Tenant", width="small"),
}

_MOST_JSON: Final = 200_000
"""Characters of an event's content that are drawn as a tree; a bigger one would freeze the page."""

_INNER: Final = frozenset({"content_chunk", "content_pos"})
"""Columns of an event that say where the store keeps its content, and nothing to a reader."""

_TRACER: Final = """\
from tracehold import CollectorExporter, Tracer

tracer = Tracer(exporters=[CollectorExporter("{url}")])
with tracer.run("answer a ticket", agent="support"):
    tracer.emit({{"type": "llm_call", "model": "gpt-4o-mini"}})
"""


def runs_for_people(runs: pd.DataFrame) -> pd.DataFrame:
    """Add the two columns that are put together from others: `tokens` and `cost`."""
    tokens = runs["input_tokens"].fillna(0) + runs["output_tokens"].fillna(0)
    known = runs["input_tokens"].notna() | runs["output_tokens"].notna()
    return runs.assign(tokens=tokens.where(known), cost=costs(runs))


def costs(frame: pd.DataFrame) -> list[str]:
    """Write the column `cost_usd`, a lower bound marked; nothing where there was no model call at all."""
    calls = frame["llm_calls"] if "llm_calls" in frame else frame["calls"]
    return [
        fmt.NOTHING if made == 0 else fmt.money(cost, unpriced_calls=unpriced)
        for cost, unpriced, made in zip(frame["cost_usd"], frame["unpriced_calls"], calls, strict=True)
    ]


def welcome() -> None:
    """Say how to send data, on a store that has none."""
    url = load().url
    st.subheader("Nothing recorded yet")
    st.write("The collector is up and its store is empty. Three ways to fill it:")
    demo, native, otlp = st.columns([2, 3, 3], border=True)
    with demo:
        st.markdown("**See it with recorded runs**")
        st.code("make demo", language="shell")
        st.caption(
            "Loads runs of real agents, and two made live: one with a denied tool, one with a rejected approval."
        )
    with native:
        st.markdown("**From Python, with the Tracer**")
        st.code(_TRACER.format(url=url), language="python", wrap_lines=True)
    with otlp:
        st.markdown("**From anything that speaks OpenTelemetry**")
        st.code(
            f"export OTEL_EXPORTER_OTLP_ENDPOINT={url}\nexport OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
            language="shell",
            wrap_lines=True,
        )
        st.caption(
            "Then start your program as always. The GenAI conventions, OpenInference and OpenLLMetry are understood."
        )
    st.button("Look again", icon=":material/refresh:")


def whole_event(event_id: str, key: str) -> None:
    """Show one event whole: its envelope, and what it said."""
    envelope, content = data.event(event_id)
    left, right = st.columns([2, 3], gap="medium")
    with left:
        st.markdown("**Envelope**")
        tables.facts(_envelope(envelope), key=f"{key}_envelope")
    with right:
        st.markdown("**Content**")
        json_or_note(content, "No content: the source sent none, or it was erased.")
        st.download_button(
            "Download as JSON",
            json.dumps({"event": envelope, "content": content}, ensure_ascii=True, indent=2, default=str),
            file_name=f"event-{event_id}.json",
            mime="application/json",
            icon=":material/download:",
            key=f"{key}_download",
            on_click="ignore",
        )


def json_or_note(value: Any, note: str) -> None:
    """Draw a JSON-like value as a tree, long ones as cut text, none at all as `note`."""
    if value is None:
        st.caption(note)
        return
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if len(text) > _MOST_JSON:
        st.caption(f"The first {_MOST_JSON:,} of {len(text):,} characters; the download has all of them.")
        st.code(text[:_MOST_JSON], language=None, height=420)
    elif isinstance(value, dict | list):
        st.json(value, expanded=3)
    else:
        st.code(text, language=None, wrap_lines=True)


def _envelope(envelope: dict[str, Any]) -> list[tuple[str, Any]]:
    """Give the envelope's fields, times and durations readable."""
    pairs: list[tuple[str, Any]] = []
    for name, value in envelope.items():
        if name in _INNER:
            continue
        if name in {"started_at", "received_at"} and isinstance(value, int):
            moment = pd.Timestamp(value, unit="ns")
            pairs.append((f"{name} (UTC)", f"{moment:%Y-%m-%d %H:%M:%S.%f}"))
        elif name == "duration_ns":
            pairs.append(("duration", None if value is None else fmt.duration(value)))
        elif isinstance(value, dict | list):
            pairs.append((name, fmt.compact_json(value) if value else None))
        else:
            pairs.append((name, value))
    return pairs
