"""Identifiers: of events (16 bytes, the same event always the same), traces and spans (W3C hex)."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-f]{16}")
_EVENT_ID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16


def digest_id(tenant: str, *parts: str) -> bytes:
    """Return 16 bytes that depend on the tenant, on every part, and on where each part ends."""
    fields = [part.encode("utf-8", "replace") for part in (tenant, *parts)]
    message = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return hashlib.blake2b(message, digest_size=16, person=b"tracehold-event").digest()


def span_event_id(tenant: str, trace_id: str, span_id: str) -> bytes:
    """Return the 16-byte id of an OTLP span: of its tenant, trace id (32 hex digits) and span id (16)."""
    digest = _span_hash(tenant).copy()
    digest.update((trace_id + span_id).encode("ascii"))
    return digest.digest()


@lru_cache(maxsize=1024)
def _span_hash(tenant: str) -> hashlib.blake2b:
    raw = tenant.encode("utf-8", "replace")
    return hashlib.blake2b(len(raw).to_bytes(4, "big") + raw, digest_size=16, person=b"tracehold-otlp")


def span_digest(text: str) -> str:
    """Return a W3C span id (16 hex digits) for a source that names its spans otherwise."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8, person=b"tracehold-span").hexdigest()


def read_event_id(value: object) -> bytes | None:
    """Return the 16 bytes of 32 hex digits or of a UUID's text, any case; else `None`."""
    if not isinstance(value, str):
        return None
    text = value.lower()
    return bytes.fromhex(text.replace("-", "")) if _EVENT_ID.fullmatch(text) else None


def read_trace_id(value: object) -> str | None:
    """Return a valid W3C trace id in lower case, else `None`; all zeros is no trace id."""
    text = value.lower() if isinstance(value, str) else ""
    return text if _TRACE_ID.fullmatch(text) and text != _NO_TRACE else None


def read_span_id(value: object) -> str | None:
    """Return a valid W3C span id in lower case, else `None`; all zeros is no span id."""
    text = value.lower() if isinstance(value, str) else ""
    return text if _SPAN_ID.fullmatch(text) and text != _NO_SPAN else None
