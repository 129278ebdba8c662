"""What a stored run state may contain: a table of fields, checked before it is written and after it is read.

A checkpoint decides what runs next, so that nothing in it is taken on trust: a text where a bool belongs would turn
"false" into a yes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tracehold.core.errors import SessionError


class Field(NamedTuple):
    """How a field must look."""

    accepts: Callable[[Any], bool]
    words: str
    required: bool = False


def check(plain: Mapping[str, Any], *, what: str) -> None:
    """Check the fields of a state and of its pending actions; unknown ones pass.

    Args:
        plain: the state as plain values.
        what: how the message begins.

    Raises:
        SessionError: names every field that is missing or of the wrong type, never its value.
    """
    faults = _faults(plain, STATE, "")
    pending = plain.get("pending", [])
    for index, action in enumerate(pending if _is_dicts(pending) else []):
        faults += _faults(action, ACTION, f"pending[{index}].")
    if faults:
        raise SessionError(f"{what}: {'; '.join(faults)}")


def _faults(plain: Mapping[str, Any], table: Mapping[str, Field], prefix: str) -> list[str]:
    return [
        f"{prefix}{name} must be {rule.words}" + ("" if name in plain else ", and is missing")
        for name, rule in table.items()
        if (not rule.accepts(plain[name]) if name in plain else rule.required)
    ]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_null(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_integer(value: object) -> bool:
    return type(value) is int


def _is_integer_or_null(value: object) -> bool:
    return value is None or type(value) is int


def _is_step(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _is_dicts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_decisions(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) and _is_bool(item) for key, item in value.items())


STATE: Final = {
    "messages": Field(_is_dicts, "a list of dicts", required=True),
    "input_text": Field(_is_text, "a text", required=True),
    "remaining": Field(_is_integer, "an integer"),
    "decisions": Field(_is_decisions, "a dict of call id to true or false"),
    "pending": Field(_is_dicts, "a list of actions"),
    "meta": Field(_is_dict, "a dict"),
    "run_id": Field(_is_text_or_null, "a text or null"),
    "step": Field(_is_step, "an integer of at least 0"),
    "completed": Field(_is_bool, "true or false"),
}
"""The fields of `ExecutionState`."""

ACTION: Final = {
    "tool_name": Field(_is_text, "a text", required=True),
    "arguments": Field(_is_dict, "a dict", required=True),
    "call_id": Field(_is_text, "a text", required=True),
    "digest": Field(_is_text_or_null, "a text or null"),
    "requested_at_ns": Field(_is_integer_or_null, "an integer or null"),
    "expires_at_ns": Field(_is_integer_or_null, "an integer or null"),
}
"""The fields of `PendingAction`."""
