"""Decisions and statuses: the source's words turned into ours, nothing guessed to be a denial (DEC-01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from tracehold.observability.event_types import DECISIONS, DENIALS, Kind, Status

_KINDS: Final[dict[str, Kind]] = {kind: kind for kind in get_args(Kind)}

STATUS_WORDS: Final[dict[str, Status]] = {
    "ok": "ok",
    "success": "ok",
    "succeeded": "ok",
    "completed": "ok",
    "partial": "ok",
    "finished": "ok",
    "error": "error",
    "failed": "error",
    "failure": "error",
    "timeout": "error",
    "budget_exceeded": "error",
    "blocked": "blocked",
    "suspended": "suspended",
    "cancelled": "cancelled",
    "canceled": "cancelled",
    "started": "started",
    "unset": "unset",
}
"""What a source says about an outcome -> our status. Denials stand in `DENIALS` and are `blocked`."""

GATED: Final = frozenset({"llm", "tool"})
"""Kinds that, once stopped, are one event of kind `gate` (design: Words)."""


_DENY_WORDS: Final = frozenset({"deny", "denied", "block", "blocked"})
_ALLOW_WORDS: Final = frozenset({"allow", "allowed"})


def read_kind(word: object) -> Kind | None:
    """Return one of our kinds, or `None` for anything else."""
    return _KINDS.get(word) if isinstance(word, str) else None


def read_status(word: object) -> Status | None:
    """Return our status for a source's word, or `None` for a word nobody here knows."""
    return STATUS_WORDS.get(word.lower()) if isinstance(word, str) else None


def read_decision(word: object) -> str | None:
    """Return one of DEC-01's decisions, or `None`: another word is never guessed to be one."""
    if not isinstance(word, str):
        return None
    text = word.lower()
    return text if text in DECISIONS else None


def gate(kind: Kind, decision: str | None) -> Kind:
    """Return the kind of an event with `decision`: a stopped call is a gate, nothing was executed (FR-61)."""
    return "gate" if decision in DENIALS and kind in GATED else kind


def stated_decision(fields: Mapping[str, Any]) -> tuple[str | None, Any]:
    """Return the decision that attributes state, and its rule, raw.

    Only our own attribute, or a policy decision together with the rule that made it, is a decision.

    Args:
        fields: as `classify.fields_of` gives them.
    """
    decision = read_decision(fields.get("decision"))
    if decision is not None:
        return decision, fields.get("rule")
    word, rule = fields.get("policy_decision"), fields.get("policy_rule")
    if isinstance(word, str) and isinstance(rule, str):
        if word.lower() in _DENY_WORDS:
            return "denied", rule
        if word.lower() in _ALLOW_WORDS:
            return "allowed", rule
    return None, fields.get("rule")
