"""Events as CloudEvents 1.0 in structured JSON, and back.

CloudEvents allows attributes of text, boolean or 32-bit integer only, under names of lower-case letters and digits. So
`run_id` travels as `runid`, each entry of `meta` as an attribute of its own where name and value permit, and the rest
of `meta`, like the references to blobs, as JSON text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

from tracehold.core import strictjson
from tracehold.core.copying import copy_json
from tracehold.events.event import BlobRef, Event, MetaValue

SPEC_VERSION: Final = "1.0"
JSON: Final = "application/json"

_FIELDS: Final = {
    "stream": "stream",
    "runid": "run_id",
    "tenant": "tenant",
    "traceid": "trace_id",
    "spanid": "span_id",
    "causationid": "causation_id",
    "correlationid": "correlation_id",
    "seq": "seq",
}
"""Extension attribute to the field that travels in it."""

_BLOBS: Final = "blobs"
_META: Final = "meta"
_MORE_META: Final = "metajson"
_BARE: Final = "bareof"
"""Entry of `meta` that says which member a payload came from that was no JSON object: "data" or "data_base64"."""

_CORE: Final = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data")
_READ: Final = frozenset(
    (*_CORE, "data_base64", *_FIELDS, "schemaref", _BLOBS, _META, _MORE_META, _BARE, "traceparent")
)
_RESERVED: Final = _READ | {"tracestate", "streamid", "tenantid", "sequence", "dup"}
"""Names that an entry of `meta` does not travel under: receivers take them for something else."""
_NAME: Final = re.compile(r"[a-z0-9]{1,20}")
_TEXT: Final = re.compile("[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_INT_MAX: Final = 2**31 - 1
_ABSOLUTE: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?(Z|[+-]\d\d:\d\d)", re.IGNORECASE)
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}.*")


def to_cloudevent(event: Event) -> dict[str, Any]:
    """Return the event as a CloudEvent in the JSON event format: a dict to be written as JSON.

    `from_cloudevent` makes the same event of it, but for `dup`, which is never persisted (EVT-04).
    """
    made: dict[str, Any] = {
        "specversion": SPEC_VERSION,
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    if event.subject is not None:
        made["subject"] = event.subject
    for attribute, name in _FIELDS.items():
        value = getattr(event, name)
        if value is not None and not (name == "seq" and value < 0):
            made[attribute] = value
    if event.schema_ref:
        # `dataschema` must be a URI; "order/v2" is none.
        made["dataschema" if _ABSOLUTE.match(event.schema_ref) else "schemaref"] = event.schema_ref
    if event.blobs:
        rows = [[ref.uri, ref.sha256, ref.size, ref.media_type] for ref in event.blobs]
        made[_BLOBS] = strictjson.dumps(rows, name="blobs", ascii_only=True)
    meta = dict(event.meta)
    _put_data(made, event.data, meta)
    _put_meta(made, meta)
    return made


def from_cloudevent(ce: Mapping[str, Any] | str | bytes) -> Event:
    """Return the event that a CloudEvent says.

    Attributes that are none of our fields go to `meta`. Data that is no JSON object becomes `{"value": ...}`, binary
    data `{"data_base64": ...}`. Without a time, it is now. The sender chooses all fields, the tenant too: whoever takes
    events from outside decides whether to believe it.

    Args:
        ce: a CloudEvent in the JSON event format, parsed or not.

    Raises:
        ValueError: no CloudEvent of version 1, or one whose attributes cannot be an event's. The message says which.
    """
    event = _parsed(ce)
    version = event.get("specversion")
    if not isinstance(version, str) or not version.startswith("1."):
        raise ValueError('no CloudEvent of version 1: "specversion" must be "1.0"')
    fields: dict[str, Any] = {name: event.get(name) for name in ("id", "source", "type")}
    if missing := [name for name, value in fields.items() if value is None]:
        raise ValueError(f"a CloudEvent needs {', '.join(missing)}")
    fields |= {name: event[attribute] for attribute, name in _FIELDS.items() if event.get(attribute) not in (None, "")}
    _take_trace(fields, event.get("traceparent"))
    schema = event.get("schemaref") or event.get("dataschema")
    meta = _meta(event)
    try:
        return Event(
            **fields,
            subject=event.get("subject") or None,
            time=_time(event["time"]) if event.get("time") is not None else None,
            schema_ref=schema or "",
            data=_data(event, meta),
            blobs=_blobs(event.get(_BLOBS)),
            meta=meta,
        )
    except TypeError as error:
        raise ValueError(f"a CloudEvent cannot be an event: {error}") from error


def _put_data(made: dict[str, Any], data: dict[str, Any], meta: dict[str, MetaValue]) -> None:
    bare = meta.pop(_BARE, None)
    media_type = meta.pop("datacontenttype", None)
    if _was_bare(bare, data, media_type):
        if media_type is not None:
            made["datacontenttype"] = media_type
        made[bare] = copy_json(data[_bare_key(bare)])
        return
    if bare is not None:
        meta[_BARE] = bare
    if media_type is not None:
        meta["datacontenttype"] = media_type
    made["datacontenttype"] = JSON
    made["data"] = copy_json(data)


def _was_bare(member: Any, data: dict[str, Any], media_type: Any) -> TypeGuard[str]:
    """Whether a payload stood bare in the member of that name, and would be read from there as it is now."""
    if member not in ("data", "data_base64") or data.keys() != {_bare_key(member)}:
        return False
    if not (media_type is None or (isinstance(media_type, str) and _TEXT.fullmatch(media_type))):
        return False
    bare = data[_bare_key(member)]
    return isinstance(bare, str) if member == "data_base64" else not isinstance(bare, dict | None)


def _bare_key(member: str) -> str:
    return "value" if member == "data" else member


def _put_meta(made: dict[str, Any], meta: dict[str, MetaValue]) -> None:
    more: dict[str, MetaValue] = {}
    for key, value in meta.items():
        if _NAME.fullmatch(key) and key not in _RESERVED and _is_attribute(value):
            made[key] = value
        else:
            more[key] = value
    if more:
        made[_MORE_META] = strictjson.dumps(more, name="meta", ascii_only=True)


def _is_attribute(value: MetaValue) -> bool:
    """Whether CloudEvents has a type for the value (section 3.2)."""
    if isinstance(value, str):
        return _TEXT.fullmatch(value) is not None
    return isinstance(value, bool) or (isinstance(value, int) and -_INT_MAX - 1 <= value <= _INT_MAX)


def _parsed(ce: Mapping[str, Any] | str | bytes) -> Mapping[str, Any]:
    if isinstance(ce, bytes | bytearray):
        ce = bytes(ce).decode("utf-8-sig")
    if isinstance(ce, str):
        ce = strictjson.loads(ce)
    if not isinstance(ce, Mapping):
        raise ValueError(f"a CloudEvent is a JSON object, not {type(ce).__name__}")  # noqa: TRY004 - of the input
    return ce


def _take_trace(fields: dict[str, Any], parent: object) -> None:
    """Take the trace of the Distributed Tracing extension when no attribute of ours names one."""
    found = _TRACEPARENT.fullmatch(parent) if isinstance(parent, str) else None
    if found is not None and "trace_id" not in fields:
        fields["trace_id"] = found[1]
        fields.setdefault("span_id", found[2])


def _time(text: object) -> datetime:
    found = _TIME.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("a CloudEvent's time is a text as RFC 3339 has it, with a zone")
    seconds, fraction, zone = found.groups()
    return datetime.fromisoformat(f"{seconds}.{(fraction or '0'):0<6}{zone.replace('z', 'Z')}")


def _data(event: Mapping[str, Any], meta: dict[str, MetaValue]) -> dict[str, Any]:
    media_type = event.get("datacontenttype")
    member = "data" if event.get("data") is not None else "data_base64"
    data = event.get(member)
    if isinstance(data, dict) and member == "data":
        if isinstance(media_type, str) and media_type != JSON:
            meta["datacontenttype"] = media_type
        found: dict[str, Any] = copy_json(data)
        return found
    if data is None:
        return {}
    meta[_BARE] = member
    if isinstance(media_type, str):
        meta["datacontenttype"] = media_type
    return {_bare_key(member): copy_json(data)}


def _meta(event: Mapping[str, Any]) -> dict[str, MetaValue]:
    meta: dict[str, Any] = {key: event[key] for key in event if key not in _READ and event[key] is not None}
    own = event.get(_META)
    if isinstance(own, Mapping):  # as producers write it that do not mind the types of CloudEvents
        meta |= own
    elif own is not None:
        meta[_META] = own
    more = event.get(_MORE_META)
    if more is not None:
        parsed = strictjson.loads(more) if isinstance(more, str) else None
        if not isinstance(parsed, dict):
            raise ValueError(f'"{_MORE_META}" of a CloudEvent must be a JSON object as text')
        meta |= parsed
    return meta


def _blobs(told: object) -> tuple[BlobRef, ...]:
    if told is None:
        return ()
    rows = strictjson.loads(told) if isinstance(told, str) else told
    if not isinstance(rows, list):
        raise ValueError('"blobs" of a CloudEvent must be a JSON array')  # noqa: TRY004 - of the input
    return tuple(_blob(row) for row in rows)


def _blob(row: object) -> BlobRef:
    """Read a reference, written as a list here and as an object by other producers."""
    if isinstance(row, Mapping):
        row = [row.get("uri"), row.get("sha256"), row.get("size"), row.get("media_type", "application/octet-stream")]
    match row:
        case [str() as uri, str() as sha256, int() as size, str() as media_type]:
            return BlobRef(uri, sha256, size, media_type)
    raise ValueError('an entry of "blobs" of a CloudEvent needs uri, sha256, size and media type')
