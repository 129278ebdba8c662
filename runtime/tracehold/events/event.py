"""The event envelope: one immutable fact of a stream (EVT).

CloudEvents 1.0 names where it has them: `id`, `source`, `type`, `subject`, `time`, `data`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeAlias

from tracehold.events.derived_ids import derived_id
from tracehold.events.event_ids import new_id

MetaValue: TypeAlias = str | int | float | bool

_now = datetime.now
_REQUIRED: Final = ("type", "id", "source", "stream")
_OPTIONAL: Final = ("run_id", "tenant", "trace_id", "span_id", "causation_id", "correlation_id")
# What CloudEvents 1.0 excludes from attributes (section 3.2, "String"), and what no store could hold.
_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


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


@dataclass(frozen=True, kw_only=True, init=False)
class Event:
    """One event (EVT-01). Immutable: `with_` and `caused` make others.

    The constructor checks what it is given; an event is not checked again. Equal events have equal fields. The text
    form of an event leaves out what it says (`subject`, `data`, `meta`), so that no log line holds content by accident.

    `data` and `meta` are copied, what stands deeper inside `data` is not: hand over what you no longer change.

    Attributes:
        id: unique in its stream; default sorts by creation time (EVT-02).
        type: such as "aaa.run.started"; types starting with `aaa.` are the library's (EVT-06).
        source: who produced it.
        subject: what it is about, or `None`.
        time: aware UTC; another zone is converted.
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

    Raises:
        TypeError: a field of another type, or one that does not exist.
        ValueError: an empty text, control characters or lone surrogates in an id, a time without a zone, a number in
            `meta` that is not finite, a negative `seq` other than -1.
    """

    type: str
    id: str
    source: str
    subject: str | None = field(repr=False)
    time: datetime
    stream: str
    run_id: str | None
    tenant: str | None
    trace_id: str | None
    span_id: str | None
    causation_id: str | None
    correlation_id: str | None
    seq: int
    schema_ref: str
    data: dict[str, Any] = field(repr=False)
    blobs: tuple[BlobRef, ...]
    meta: dict[str, MetaValue] = field(repr=False)
    dup: bool

    # Written by hand: what dataclasses generate for a frozen class takes three times as long, unchecked.
    def __init__(
        self,
        *,
        type: str,  # noqa: A002 - documented
        id: str | None = None,  # noqa: A002 - documented
        source: str = "aaa",
        subject: str | None = None,
        time: datetime | None = None,
        stream: str = "default",
        run_id: str | None = None,
        tenant: str | None = None,
        trace_id: str | None = None,
        span_id: str | None = None,
        causation_id: str | None = None,
        correlation_id: str | None = None,
        seq: int = -1,
        schema_ref: str = "",
        data: Mapping[str, Any] | None = None,
        blobs: Sequence[BlobRef] = (),
        meta: Mapping[str, MetaValue] | None = None,
        dup: bool = False,
    ) -> None:
        given: dict[str, Any] = {
            "type": type,
            "id": new_id() if id is None else id,
            "source": source,
            "subject": subject,
            "time": _now(UTC) if time is None else time,
            "stream": stream,
            "run_id": run_id,
            "tenant": tenant,
            "trace_id": trace_id,
            "span_id": span_id,
            "causation_id": causation_id,
            "correlation_id": correlation_id,
            "seq": seq,
            "schema_ref": schema_ref,
            "data": {} if data is None else data,
            "blobs": blobs,
            "meta": {} if meta is None else meta,
            "dup": dup,
        }
        _check(given)
        self.__dict__.update(given)

    def __hash__(self) -> int:
        """Equal events have one hash; payloads, which have none, take no part."""
        return hash((self.id, self.type, self.stream, self.seq))

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some fields changed. Not checked: for fields we made ourselves."""
        made = object.__new__(self.__class__)
        made.__dict__.update(self.__dict__, **changes)
        return made

    def caused(self, type: str, data: Mapping[str, Any] | None = None, **kw: Any) -> Self:  # noqa: A002 - documented
        """Return an event caused by this one (EVT-03).

        It inherits stream, run, tenant, trace and meta; its id depends only on this id, its type and data, so that a
        repeated reaction gives the same event.

        Args:
            type: of the new event.
            data: its payload.
            kw: further fields, which win; checked as the constructor does.

        Raises:
            TypeError: a field of another type, or one that does not exist; `data` that is no JSON.
            ValueError: as the constructor.
        """
        payload = dict(data) if data else {}
        made = {
            **self.__dict__,
            "type": type,
            "data": payload,
            "time": _now(UTC),
            "subject": None,
            "span_id": None,
            "causation_id": self.id,
            "correlation_id": self.correlation_id or self.id,
            "seq": -1,
            "schema_ref": "",
            "blobs": (),
            "dup": False,
        }
        if type.__class__ is not str or not type or kw:
            if unknown := kw.keys() - made.keys():
                raise TypeError(f"an event has no field {', '.join(sorted(unknown))}; its fields: {', '.join(FIELDS)}")
            _check(made | kw)
            made |= kw
        if "id" not in kw:
            made["id"] = derived_id(self.id, type, payload)
        event = object.__new__(self.__class__)
        event.__dict__.update(made)
        return event


FIELDS: Final = tuple(one.name for one in fields(Event))


def _check(given: dict[str, Any]) -> None:
    """Check the fields of an event and put `time`, `data`, `blobs` and `meta` into their stored form."""
    for name in _REQUIRED:
        text = given[name]
        # Nearly all ids are plain ASCII, which takes a third of the time of the pattern.
        if text.__class__ is not str or not text or not (text.isascii() and text.isprintable()):
            _check_text(name, text)
    for name in _OPTIONAL:
        text = given[name]
        if text is not None and (text.__class__ is not str or not text or not (text.isascii() and text.isprintable())):
            _check_text(name, text, optional=True)
    subject = given["subject"]
    if subject is not None and (not isinstance(subject, str) or not subject):
        raise _wrong(
            "subject", "a text that is not empty, or None", subject, ValueError if subject == "" else TypeError
        )
    if given["schema_ref"] != "":
        _check_text("schema_ref", given["schema_ref"])
    time = given["time"]
    if time.__class__ is not datetime or time.tzinfo is not UTC:
        given["time"] = _in_utc(time)
    seq = given["seq"]
    if seq.__class__ is not int or seq < -1:
        raise _wrong(
            "seq", "an integer from 0, or -1 until stored", seq, ValueError if isinstance(seq, int) else TypeError
        )
    data = given["data"]
    if not isinstance(data, Mapping):
        raise _wrong("data", "a dict", data)
    given["data"] = dict(data)
    if given["blobs"] != ():
        given["blobs"] = _refs(given["blobs"])
    given["meta"] = _flat(given["meta"])
    if given["dup"].__class__ is not bool:
        raise _wrong("dup", "a bool", given["dup"])


def _check_text(name: str, text: object, *, optional: bool = False) -> None:
    if not isinstance(text, str):
        raise _wrong(name, "a text or None" if optional else "a text", text)
    if not text:
        raise ValueError(f"Event.{name} is empty; {'leave it out, or give' if optional else 'give'} it a text")
    if _UNFIT.search(text):
        raise ValueError(f"Event.{name} holds a control character or half a surrogate pair; remove it")


def _in_utc(time: object) -> datetime:
    if not isinstance(time, datetime):
        raise _wrong("time", "a datetime", time)
    if time.utcoffset() is None:
        # To guess a zone would move the fact by hours, silently.
        raise ValueError("Event.time has no time zone; use datetime.now(UTC), or time.replace(tzinfo=...)")
    return time.astimezone(UTC)


def _refs(blobs: object) -> tuple[BlobRef, ...]:
    if not isinstance(blobs, Sequence) or not all(isinstance(ref, BlobRef) for ref in blobs):
        raise _wrong("blobs", "a sequence of BlobRef", blobs)
    return tuple(blobs)


def _flat(meta: object) -> dict[str, MetaValue]:
    if not isinstance(meta, Mapping):
        raise _wrong("meta", "a flat dict", meta)
    for key, value in meta.items():
        if not isinstance(key, str):
            raise _wrong("meta", "a dict whose keys are texts", key)
        if not isinstance(value, str | int | float):  # a bool is an int
            raise _wrong("meta", "a flat dict of str, int, float and bool", value)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("Event.meta holds a number that is not finite, which JSON has no form for")
    return dict(meta)


def _wrong(name: str, wanted: str, got: object, error: type[Exception] = TypeError) -> Exception:
    # Never the value itself: it may be content.
    return error(f"Event.{name} must be {wanted}, not {got.__class__.__name__}")
