"""The event envelope: one immutable fact of a stream (EVT).

CloudEvents 1.0 names where it has them: `id`, `source`, `type`, `subject`, `time`, `data`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeAlias

import orjson

from tracehold.core.clock import now_ns
from tracehold.core.ids import new_event_id

MetaValue: TypeAlias = str | int | float | bool


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return new_event_id(now_ns())


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Points to a payload held outside the log (EVT-05).

    Attributes:
        uri: where the store keeps it.
        sha256: of the stored bytes, hexadecimal.
        size: bytes.
        media_type: of the content.
    """

    uri: str
    sha256: str
    size: int
    media_type: str = "application/octet-stream"


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event (EVT-01). Immutable: `with_` and `caused` make others.

    Attributes:
        id: unique in its stream; default sorts by creation time (EVT-02).
        type: such as "aaa.run.started"; types starting with `aaa.` are the library's (EVT-06).
        source: who produced it.
        subject: what it is about, or `None`.
        time: aware UTC.
        stream: the log it belongs to; a run's is its run id.
        run_id, tenant: whose it is.
        trace_id, span_id: W3C ids, or `None`.
        causation_id: the event that caused it.
        correlation_id: what groups it with others.
        seq: its place in the stream, from 0; -1 until stored.
        schema_ref: `name/vN` of its payload's schema, or "".
        data: the payload; JSON.
        blobs: payloads held outside the log.
        meta: trusted application data; flat.
        dup: whether this is a stored event that was returned because its id existed; never persisted (EVT-04).
    """

    type: str
    id: str = field(default_factory=_new_id)
    source: str = "aaa"
    subject: str | None = None
    time: datetime = field(default_factory=_now)
    stream: str = "default"
    run_id: str | None = None
    tenant: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    seq: int = -1
    schema_ref: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    blobs: tuple[BlobRef, ...] = ()
    meta: dict[str, MetaValue] = field(default_factory=dict)
    dup: bool = False

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some fields changed. Not checked: for fields we made ourselves."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.__dict__.update(changes)
        return made

    def caused(self, type: str, data: Mapping[str, Any] | None = None, **kw: Any) -> Self:  # noqa: A002 - documented
        """Return an event caused by this one (EVT-03).

        It inherits stream, run, tenant, trace and meta; its id depends only on this id, its type and data, so that a
        repeated reaction gives the same event.

        Args:
            type: of the new event.
            data: its payload.
            kw: further fields, which win.
        """
        payload = dict(data or {})
        changes: dict[str, Any] = {
            "id": derived_id(self.id, type, payload),
            "type": type,
            "data": payload,
            "time": _now(),
            "subject": None,
            "span_id": None,
            "causation_id": self.id,
            "correlation_id": self.correlation_id or self.id,
            "seq": -1,
            "schema_ref": "",
            "blobs": (),
            "dup": False,
        }
        return self.with_(**(changes | kw))


FIELDS: Final = tuple(one.name for one in fields(Event))


def derived_id(*parts: object) -> str:
    """Return an id that depends on nothing but `parts`, which are JSON values: 32 hex digits."""
    text = orjson.dumps(parts, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    return hashlib.blake2b(text, digest_size=16).hexdigest()
