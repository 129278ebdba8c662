"""Colours, chosen to stay apart on a light and on a dark ground and for colour-blind readers."""

from __future__ import annotations

from typing import Final

KINDS: Final = {
    "run": "#94a3b8",
    "agent": "#64748b",
    "llm": "#3b82f6",
    "tool": "#14b8a6",
    "gate": "#f59e0b",
    "approval": "#eab308",
    "guardrail": "#f97316",
    "retrieval": "#8b5cf6",
    "memory": "#a78bfa",
    "context": "#7dd3fc",
    "task": "#0ea5e9",
    "session": "#cbd5e1",
    "score": "#84cc16",
    "erasure": "#db2777",
    "other": "#a8a29e",
}
"""A colour a kind; the list is closed (design: Data)."""

STATUSES: Final = {
    "ok": "#15803d",
    "error": "#dc2626",
    "blocked": "#d97706",
    "suspended": "#7c3aed",
    "cancelled": "#78716c",
    "started": "#2563eb",
    "unset": "#78716c",
}

ERROR: Final = "#dc2626"
BLOCKED: Final = "#d97706"


def ink(*, dark: bool) -> str:
    """Give the colour of a chart's text on a dark or a light ground."""
    return "#e2e8f0" if dark else "#1f2937"


SERIES: Final = (
    "#3b82f6",
    "#14b8a6",
    "#f59e0b",
    "#8b5cf6",
    "#ec4899",
    "#84cc16",
    "#0ea5e9",
    "#f97316",
    "#64748b",
)
"""Colours of a chart's series in order; the last is for "all others"."""
