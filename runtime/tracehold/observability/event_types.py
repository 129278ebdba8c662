"""Types of Tracer events, kinds and outcomes of events, decisions of gates: as data (TRC-22, DEC-01).

A type outside this set is recorded all the same; the set is what readers can rely on.
"""

from __future__ import annotations

from typing import Final, Literal

LLM_CALL: Final = "llm_call"
TOOL_CALL: Final = "tool_call"
RUN_ERROR: Final = "run_error"
CONTEXT_BLOCK: Final = "context_block"
CONTEXT_REDUCE: Final = "context_reduce"
CONTEXT_COMPACT: Final = "context_compact"
SUMMARIZE_FAILED: Final = "summarize_failed"
MEMORY_SEARCH: Final = "memory_search"
RAG_RETRIEVE: Final = "rag_retrieve"
RAG_QUERY_TRANSFORM_FAILED: Final = "rag_query_transform_failed"
RAG_CONTEXTUALIZE_FAILED: Final = "rag_contextualize_failed"
INDEX_SYNC_PENDING: Final = "index_sync_pending"
INDEX_SYNC_RECONCILE: Final = "index_sync_reconcile"

DOCUMENTED_EVENT_TYPES: Final = frozenset(
    {
        LLM_CALL,
        TOOL_CALL,
        RUN_ERROR,
        CONTEXT_BLOCK,
        CONTEXT_REDUCE,
        CONTEXT_COMPACT,
        SUMMARIZE_FAILED,
        MEMORY_SEARCH,
        RAG_RETRIEVE,
        RAG_QUERY_TRANSFORM_FAILED,
        RAG_CONTEXTUALIZE_FAILED,
        INDEX_SYNC_PENDING,
        INDEX_SYNC_RECONCILE,
    }
)
"""The types of the documented runtime (TRC-22)."""

RUN_START: Final = "run_start"
RUN_END: Final = "run_end"
GUARDRAIL_TRIP: Final = "guardrail_trip"
APPROVAL_REQUEST: Final = "approval_request"
APPROVAL_DECISION: Final = "approval_decision"
RUN_SUSPEND: Final = "run_suspend"
POLICY_CHANGED: Final = "policy_changed"
SPAN: Final = "span"

EVENT_TYPES: Final = DOCUMENTED_EVENT_TYPES | {
    RUN_START,
    RUN_END,
    GUARDRAIL_TRIP,
    APPROVAL_REQUEST,
    APPROVAL_DECISION,
    RUN_SUSPEND,
    POLICY_CHANGED,
    SPAN,
}
"""The documented types and ours (DEC-01, DEC-18)."""

DECISIONS: Final = frozenset(
    {
        "allowed",
        "denied",
        "rejected",
        "unconfirmed",
        "suspended",
        "expired",
        "invalid_args",
        "unknown_tool",
        "tripped",
        "limited",
        "cancelled",
    }
)
"""What a gate may say (DEC-01)."""

DENIALS: Final = DECISIONS - {"allowed", "suspended"}
"""The decisions that stopped something (DEC-01)."""

Kind = Literal[
    "run",
    "agent",
    "llm",
    "tool",
    "gate",
    "approval",
    "guardrail",
    "retrieval",
    "memory",
    "context",
    "task",
    "session",
    "score",
    "erasure",
    "other",
]
"""Ours, and closed (design: Data)."""

Status = Literal["started", "ok", "error", "blocked", "suspended", "cancelled", "unset"]
"""`started` marks the opening half of a span that another event of the same span id ends: it is not counted again.
`blocked` together with a decision is a denial (DEC-01): an attempt was
stopped, and this event is the one that says so. `unset` is OTLP's own default and counts as neither good nor bad."""
