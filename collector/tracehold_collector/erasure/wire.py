"""Erasures, previews and holds as JSON objects: times as ISO 8601 in UTC, unknown as null."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from tracehold_collector.core.times import iso_utc
from tracehold_collector.erasure.holds import Hold
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.service import Preview
from tracehold_collector.erasure.words import BASIS_TEXTS

_TIMES: Final = frozenset({"since", "until", "received_at", "due_at"})


def record_json(record: ErasureRecord, now_ns: int) -> dict[str, Any]:
    """Return all that is known about an erasure, with its status, and whether it is overdue."""
    told = _plain(record)
    del told["steps"]
    return {
        **told,
        "status": record.status,
        "overdue": record.overdue(now_ns),
        "basis_text": BASIS_TEXTS[record.basis],
        "steps": [{"step": step, "at": iso_utc(at)} for step, at in record.steps if step != "lot"],
    }


def hold_json(hold: Hold) -> dict[str, Any]:
    """Return a legal hold."""
    told = _plain(hold)
    scope = told.pop("scope")
    return {**told, "scope": scope["kind"], "value": scope["value"], "active": hold.active}


def preview_json(preview: Preview) -> dict[str, Any]:
    """Return what an erasure would come to."""
    return _plain(preview)


def _plain(thing: Any) -> dict[str, Any]:
    return {each.name: _value(each.name, getattr(thing, each.name)) for each in fields(thing)}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and not isinstance(value, bool) and (name in _TIMES or name.endswith(("_at", "_since"))):
        return iso_utc(value)
    if isinstance(value, tuple | list):
        return [_value(name, item) for item in value]
    return _plain(value) if hasattr(value, "__dataclass_fields__") else value
