"""A CloudEvents 1.0 envelope (structured JSON) -> the engine's own envelope (EVT-01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracehold_collector.normalise.context import ItemError

_SPEC: Final = "1."
_OWN: Final = ("id", "type", "source", "subject", "time", "data")
_EXTENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "stream": ("stream", "streamid"),
    "run_id": ("runid", "run_id"),
    "tenant": ("tenant", "tenantid"),
    "trace_id": ("traceid", "trace_id"),
    "span_id": ("spanid", "span_id"),
    "causation_id": ("causationid", "causation_id"),
    "correlation_id": ("correlationid", "correlation_id"),
    "seq": ("seq", "sequence"),
    "schema_ref": ("schemaref", "dataschema"),
    "blobs": ("blobs",),
    "meta": ("meta",),
}
"""Our field -> the extension attributes that may carry it. CloudEvents wants lower-case letters and digits
only (section 3.1 of the specification, "Attribute Naming Convention"), so `run_id` travels as `runid`."""

_READ: Final = frozenset((*_OWN, "specversion", "datacontenttype", "data_base64", "traceparent"))


def from_cloud_event(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's envelope of a CloudEvent; attributes nobody here knows go to `meta`.

    Args:
        item: one event in the JSON event format.

    Raises:
        ItemError: its `specversion` is not 1.x.
    """
    version = item.get("specversion")
    if not isinstance(version, str) or not version.startswith(_SPEC):
        raise ItemError("a CloudEvent of another version; version 1.0 is read here")
    event: dict[str, Any] = {key: item[key] for key in _OWN if key in item}
    taken = set(_READ)
    for field, names in _EXTENSIONS.items():
        for name in names:
            if name in item:
                event.setdefault(field, item[name])
                taken.add(name)
    if "data" in event and not isinstance(event["data"], dict):
        event["data"] = {"value": event["data"]}
    elif "data_base64" in item:
        event["data"] = {"data_base64": item["data_base64"]}
    parent = item.get("traceparent")
    if isinstance(parent, str) and "trace_id" not in event and parent.count("-") >= 3:  # noqa: PLR2004 - W3C form
        event["trace_id"] = parent.split("-")[1]
    rest = {key: value for key, value in item.items() if key not in taken}
    if rest:
        own = event.get("meta")
        event["meta"] = {**rest, **own} if isinstance(own, dict) else rest
    return event
