"""JSON Schemas of the review of denials and of recorded policies."""

from __future__ import annotations

from typing import Any, Final

from tracehold_collector.review.states import ACTS, MAX_NOTE_CHARS, STATES, VERDICTS

_TEXT: Final[dict[str, Any]] = {"type": "string"}
_MAYBE: Final[dict[str, Any]] = {"type": ["string", "null"]}
_COUNT: Final[dict[str, Any]] = {"type": "integer", "minimum": 0}
_MAYBE_ID: Final[dict[str, Any]] = {"type": ["string", "null"], "format": "uuid"}
_ID: Final[dict[str, Any]] = {"type": "string", "format": "uuid"}
_NOTE: Final[dict[str, Any]] = {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_NOTE_CHARS}
_MAYBE_VERDICT: Final[dict[str, Any]] = {"enum": [*VERDICTS, None]}


def _object(properties: dict[str, Any], *, optional: tuple[str, ...] = (), closed: bool = False) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    shape: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    return shape | ({"additionalProperties": False} if closed else {})


_REVIEW: Final = _object(
    {
        "event_id": _ID,
        "tenant": _TEXT,
        "run_id": _TEXT,
        "received_at": _TEXT,
        "state": {
            "enum": list(STATES),
            "description": "by the acts on it; a reviewed denial is closed once its day is signed off",
        },
        "revision": _COUNT,
        "assignee": _MAYBE,
        "verdict": _MAYBE_VERDICT,
        "verdict_by": _MAYBE,
    }
)
_FIGURES: Final = _object(
    {
        "day": {"type": "string", "format": "date"},
        "tenant": _TEXT,
        "denials": _COUNT,
        "unreviewed": _COUNT,
        "awaiting_sign_off": _COUNT,
        "overdue": _COUNT,
        "signatures": _COUNT,
    }
)
_YOU: Final = _object({"login": _TEXT, "may_review": {"type": "boolean"}})

REVIEW_COMPONENTS: Final[dict[str, dict[str, Any]]] = {
    "ReviewSeen": _object(
        {
            "review": _REVIEW,
            "acts": {"type": "array", "items": {"type": "object"}},
            "retries": {"type": "array", "items": {"type": "object"}},
            "you": _YOU,
            "content_withheld": _TEXT,
        },
        optional=("content_withheld",),
    ),
    "ReviewAct": _object(
        {
            "act": {"enum": list(ACTS)},
            "revision": {**_COUNT, "description": "of the review you saw: the number of acts on it"},
            "assignee": {**_MAYBE, "description": "of assign: a login; left out, yours"},
            "verdict": _MAYBE_VERDICT,
            "note": {**_NOTE, "description": "why; needed for an incident and to reopen"},
            "tenant": {**_MAYBE, "description": "whose denial, where several tenants have one of this id"},
        },
        optional=("assignee", "verdict", "note", "tenant"),
        closed=True,
    ),
    "ReviewDone": _object({"review": _REVIEW, "event_id": _ID}),
    "DaySeen": _object({"day": _FIGURES, "you": _YOU}),
    "DaySignature": _object(
        {
            "denials": _COUNT,
            "unreviewed": _COUNT,
            "awaiting_sign_off": _COUNT,
            "note": _NOTE,
            "tenant": {**_MAYBE, "description": "whose denials, where the key names several tenants"},
        },
        optional=("note", "tenant"),
        closed=True,
    ),
    "DayDone": _object({"day": _FIGURES, "event_id": _ID}),
    "PolicyRegistration": _object(
        {
            "policy": {"type": "object", "description": "what a policy file holds"},
            "agent": {"type": "string", "minLength": 1, "maxLength": 128},
            "note": _NOTE,
            "tenant": {**_MAYBE, "description": "whose agent, where the key names several tenants"},
        },
        optional=("note", "tenant"),
        closed=True,
    ),
    "PolicyRegistered": _object(
        {
            "tenant": _TEXT,
            "agent": _TEXT,
            "policy_digest": _TEXT,
            "previous_digest": _MAYBE,
            "event_id": _MAYBE_ID,
        }
    ),
}
"""By the name they are referred to."""
