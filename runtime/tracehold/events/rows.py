"""Events as stored: an envelope, which stays, and a content, which a scrub empties (ERA-04).

Both stores keep the content as JSON text from the moment of the append. So nobody who changes a dict later changes
the log, what cannot be stored is refused before anything is, and both give back the same (STO-14).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final, TypeAlias

import orjson

from tracehold.core import strictjson
from tracehold.core.errors import SchemaError
from tracehold.events.event import BlobRef, Event
from tracehold.events.scrubbing import ERASED, is_marker

Envelope: TypeAlias = tuple[
    str, str, str, str, str | None, str | None, str | None, str | None, str | None, str | None, str
]
"""The values of `ENVELOPE_FIELDS`, in order; the time as text."""

ENVELOPE_FIELDS: Final = (
    "id",
    "type",
    "source",
    "time",
    "run_id",
    "tenant",
    "trace_id",
    "span_id",
    "causation_id",
    "correlation_id",
    "schema_ref",
)

Picked: TypeAlias = tuple[str, str, str, datetime, Any, Any, Any, Any, Any, Any, str]
"""The values of `ENVELOPE_FIELDS`, in order; the time as it is."""

_pick: Final[Callable[[dict[str, Any]], Any]] = itemgetter(*ENVELOPE_FIELDS)
_TYPES: Final = frozenset({str, type(None)})
_OPTIONAL: Final = frozenset(ENVELOPE_FIELDS[4:10])
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_PRECISE: Final = " "
"""Begins a content that only the standard library's decoder reads exactly: lone surrogates, integers of any size."""


def pick_envelope(event: Event) -> Picked:
    """Return what a scrub leaves of an event; `stream` and `seq` belong to the store.

    Raises:
        SchemaError: a field is no text, holds a lone surrogate, or the time has no time zone (EVT-01).
    """
    picked: Picked = _pick(event.__dict__)
    time = picked[3]
    # Quick looks that pass for what this library makes; whatever fails one is looked at field by field.
    if type(time) is not datetime or time.tzinfo is not UTC:
        _refuse_bad_field(picked)
        picked = (*picked[:3], time.astimezone(UTC), *picked[4:])
    texts = picked[:3] + picked[4:]
    if not _TYPES.issuperset(map(type, texts)) or None in picked[:3] or picked[10] is None:
        _refuse_bad_field(picked)
    try:
        orjson.dumps(texts)
    except TypeError:
        _refuse_bad_field(picked)
        raise
    return picked


def encode_envelope(event: Event) -> Envelope:
    """Return what `pick_envelope` does, with the time as text.

    Raises:
        SchemaError: as `pick_envelope`.
    """
    picked = pick_envelope(event)
    return (*picked[:3], encode_time(picked[3]), *picked[4:])


def encode_time(time: datetime) -> str:
    """Return a UTC time as ISO 8601 with microseconds, which sorts."""
    return time.isoformat(timespec="microseconds")


def encode_content(event: Event) -> str:
    """Return data, meta, blobs and subject as one JSON text.

    Raises:
        SchemaError: they hold what JSON cannot: NaN, an object, two keys that are one text, a cycle (STO-14).
    """
    content: dict[str, Any] = {"data": event.data}
    if event.meta:
        content["meta"] = event.meta
    if event.blobs:
        content["blobs"] = [[blob.uri, blob.sha256, blob.size, blob.media_type] for blob in event.blobs]
    if event.subject is not None:
        content["subject"] = event.subject
    try:
        raw = orjson.dumps(content, option=_OPTIONS)
    except (TypeError, RecursionError):
        return _encode_precisely(content)
    # orjson writes NaN as null.
    if b"null" in raw and _has_not_finite(content):
        return _encode_precisely(content)  # which refuses, and says where
    return raw.decode()


def build(stream: str, seq: int, picked: Picked, content: str, *, erased: bool, dup: bool = False) -> Event:
    """Return the event that was stored, built anew: nothing in it is shared with the log."""
    fields = strictjson.loads(content) if content.startswith(_PRECISE) else orjson.loads(content)
    data = fields["data"]
    blobs = fields.get("blobs")
    made = object.__new__(Event)
    values = made.__dict__
    values.update(zip(ENVELOPE_FIELDS, picked, strict=True))
    values["stream"] = stream
    values["seq"] = seq
    values["data"] = {ERASED: True} | data if erased and not is_marker(picked[1], picked[0], stream) else data
    values["meta"] = fields.get("meta") or {}
    values["blobs"] = tuple([BlobRef(*blob) for blob in blobs]) if blobs else ()
    values["subject"] = fields.get("subject")
    values["dup"] = dup
    return made


def decode_envelope(row: Envelope) -> Picked:
    """Return columns as `build` takes them."""
    return (*row[:3], datetime.fromisoformat(row[3]), *row[4:])


def _encode_precisely(content: dict[str, Any]) -> str:
    try:
        return _PRECISE + strictjson.dumps(content, name="event", ascii_only=True)
    except strictjson.UnholdableError as error:
        raise SchemaError(f"an event cannot be stored: {error}. Nothing was stored") from error


def _has_not_finite(content: dict[str, Any]) -> bool:
    # A list of what is left instead of a recursion: four times as fast, and every payload with a null comes by here.
    left: list[Any] = [content]
    for container in left:
        for value in container.values() if isinstance(container, dict) else container:
            kind = type(value)
            if kind is str or kind is int or value is None:
                continue
            if isinstance(value, float):
                if not math.isfinite(value):
                    return True
            elif isinstance(value, dict | list | tuple):
                left.append(value)
    return False


def _refuse_bad_field(picked: Picked) -> None:
    for name, value in zip(ENVELOPE_FIELDS, picked, strict=True):
        if name == "time":
            if not isinstance(value, datetime) or value.utcoffset() is None:
                raise SchemaError("an event's time has no time zone; give it datetime.now(UTC). Nothing was stored")
        elif not (isinstance(value, str) or (value is None and name in _OPTIONAL)):
            raise SchemaError(f"an event's {name} is of type {type(value).__name__}, not a text. Nothing was stored")
        elif value is not None:
            _refuse_surrogates(name, value)


def _refuse_surrogates(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"an event's {name} holds a lone surrogate, which no file can keep; repair the text first. "
            "Nothing was stored"
        ) from error
