"""A log record as it came, whatever the encoding: what both OTLP decoders hand to the normaliser."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from tracehold_collector.normalise.span_item import Shared


@dataclass(slots=True)
class LogItem:
    """One OTLP log record.

    Attributes:
        trace_id, span_id: lower-case hex, valid, or `None`: the span it was written in.
        time_ns, observed_ns: as sent, not judged; 0 when not sent.
        severity: OTLP's number, 1 to 24; 0 when not sent. 17 and more is an error.
        event_name: as sent; empty when not sent.
        body: JSON-like, or `None`.
        attributes: JSON-like values; a bytes value is what `decode` made of it.
        extra: everything else that a faithful copy needs, under the names it has in the content; absent when default.
        shared: what its resource and scope say.
        scope_name: raw.
        origin: digest of resource and scope as sent.
        size_hint: bytes of its encoded form, when known.
        replaced: whether texts held invalid Unicode that was replaced (FR-15).
    """

    trace_id: str | None
    span_id: str | None
    time_ns: int
    observed_ns: int
    severity: int
    event_name: str
    body: Any
    attributes: dict[str, Any]
    extra: dict[str, Any]
    shared: Shared
    scope_name: Any
    origin: bytes
    size_hint: int | None = None
    replaced: bool = False

    def digest(self) -> bytes:
        """Return 16 bytes that depend on all the record says, and on whose it is; the encoding makes no difference."""
        said = (
            self.trace_id,
            self.span_id,
            self.time_ns,
            self.observed_ns,
            self.severity,
            self.event_name,
            self.body,
            self.attributes,
            self.extra,
        )
        return _digest(self.origin, said)


def origin_digest(resource: dict[str, Any], scope: dict[str, Any]) -> bytes:
    """Return 16 bytes for what the records of one resource and scope share, for `LogItem.origin`."""
    return _digest(b"", (resource, scope))


def _digest(prefix: bytes, said: object) -> bytes:
    packed = orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(prefix + packed, digest_size=16, person=b"tracehold-log").digest()
