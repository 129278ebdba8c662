"""Claim checks: a large payload goes to a blob store, the event keeps a stub that points to it (BLB-02 to BLB-04)."""

from __future__ import annotations

from typing import Any, Final

from tracehold.core.errors import BlobIntegrityError
from tracehold.events.blob_store import BlobStore, salted, unsalted
from tracehold.events.event import BlobRef, Event
from tracehold.events.payload_json import decode_payload, encode_payload

CLAIM: Final = "$blob"
"""The key of a stub that holds the digest of the payload's blob."""

KEPT: Final = (
    *("usage", "cost", "tag", "call_id", "name", "state_id"),  # BLB-03
    *("by", "digest"),  # who answered for an approval, and for which arguments (DEC-02)
    *("budget", "ledger"),
)
"""Fields of a payload that its stub keeps, when they are small."""

_ROUTING: Final = ("algo", "parent", "run_tag", "child_run_id", "kind")
"""What the engine folds of its own events, whatever its size: without it a run could not be adopted from its log."""

_NEVER: Final = "aaa.run.completed"
_MEDIA_TYPE: Final = "application/json"
_SMALL_BYTES: Final = 1024
_SMALL_TEXT: Final = 256
_COUNTS: Final = ("steps", "tokens", "cost", "total_tokens", "prompt_tokens", "completion_tokens", "cached_tokens")


async def claim(event: Event, blobs: BlobStore, threshold: int) -> Event:
    """Return the event with its payload in a blob, or as it is when the payload's JSON has at most `threshold` bytes.

    The completion event is never claim-checked: a run's result is in its log. Claiming twice is claiming once, and the
    same payload of the same stream gives the same blob, so that a repeated attempt leaves nothing behind.

    Raises:
        SchemaError: the payload has no JSON.
        OSError: the blob store cannot be written.
    """
    if event.type == _NEVER or _claimed(event) is not None:
        return event
    raw = encode_payload(event.data)
    if len(raw) <= threshold:
        return event
    ref = await blobs.put(salted(event.stream, raw), _MEDIA_TYPE)
    return event.with_(data=_stub(event.data, ref), blobs=(*event.blobs, ref))


async def hydrate(event: Event, blobs: BlobStore) -> Event:
    """Return the event as it was before `claim`; any other event is returned unchanged.

    Raises:
        FileNotFoundError: the blob is gone.
        BlobIntegrityError: its bytes have changed, or it is another stream's.
    """
    ref = _claimed(event)
    if ref is None:
        return event
    raw = unsalted(event.stream, await blobs.get(ref))
    try:
        data = decode_payload(raw)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise BlobIntegrityError(f"the blob {ref.sha256} holds no payload")
    return event.with_(data=data, blobs=tuple(other for other in event.blobs if other is not ref))


def _claimed(event: Event) -> BlobRef | None:
    """Return the blob of a stub. A payload that merely has a field of that name points to none of its event's blobs."""
    if not event.blobs:
        return None
    sha256 = event.data.get(CLAIM)
    return next((ref for ref in reversed(event.blobs) if ref.sha256 == sha256), None)


def _stub(data: dict[str, Any], ref: BlobRef) -> dict[str, Any]:
    small: dict[str, Any] = {
        key: value for key in KEPT if key in data and (value := _small(data[key])) is not _TOO_LARGE
    }
    routing: dict[str, Any] = {key: data[key] for key in _ROUTING if key in data and isinstance(data[key], str | None)}
    return {CLAIM: ref.sha256, **small, **routing}


_TOO_LARGE: Final = object()


def _small(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _SMALL_TEXT else _TOO_LARGE
    if len(encode_payload(value)) <= _SMALL_BYTES:
        return value
    if isinstance(value, dict):
        # Accounting must not lose a count because something long stands beside it.
        return {key: value[key] for key in _COUNTS if isinstance(value.get(key), int | float)}
    return _TOO_LARGE
