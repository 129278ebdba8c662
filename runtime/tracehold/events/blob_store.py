"""What a store of payloads outside the log must do, how a payload is bound to its stream, and a store in memory."""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple, Protocol

from tracehold.core.errors import BlobIntegrityError
from tracehold.events.event import BlobRef

OCTETS: Final = "application/octet-stream"
PLAIN: Final = "plain"
"""The bucket of blobs that are bound to no stream."""

_MARK: Final = b"tracehold-blob1\n"
_SALT_BYTES: Final = 16
_HEADER_BYTES: Final = len(_MARK) + _SALT_BYTES
_URI: Final = re.compile(rf"blob:({PLAIN}|[0-9a-f]{{{2 * _SALT_BYTES}}})/([0-9a-f]{{64}})")


class BlobStore(Protocol):
    """Keeps payloads under the digest of their bytes (BLB-01)."""

    async def put(self, data: bytes, media_type: str = OCTETS) -> BlobRef:
        """Keep `data` and return how to find it; the same bytes are kept once."""

    async def get(self, ref: BlobRef) -> bytes:
        """Return the bytes.

        Raises:
            FileNotFoundError: it is not here.
            BlobIntegrityError: the bytes have changed.
        """

    async def exists(self, ref: BlobRef) -> bool:
        """Whether it is here."""

    async def delete(self, ref: BlobRef) -> None:
        """Remove it; one that is not here is no error."""


class StreamBlobs(Protocol):
    """A blob store that can tell what it holds of a stream: also what no event of the log points to any more."""

    async def of_stream(self, stream: str) -> list[BlobRef]:
        """Return the blobs that are bound to a stream by `salted`."""


class Place(NamedTuple):
    """Where a blob is kept.

    Attributes:
        bucket: the stream it is bound to, as 32 hex digits, or `PLAIN`.
        sha256: its digest, 64 hex digits.
    """

    bucket: str
    sha256: str


def salted(stream: str, data: bytes) -> bytes:
    """Return `data` bound to its stream: identical payloads of two streams are different blobs (BLB-04).

    To erase one run's blob therefore never takes another's, and whoever learns a digest cannot ask whether some other
    run holds the same content.
    """
    return _MARK + _salt(stream) + data


def unsalted(stream: str, blob: bytes) -> bytes:
    """Return what `salted` was given.

    Raises:
        BlobIntegrityError: the blob is bound to another stream, or to none.
    """
    if blob[:_HEADER_BYTES] != _MARK + _salt(stream):
        raise BlobIntegrityError(
            "a payload's blob is not bound to the stream of the event that points to it; it was not read"
        )
    return blob[_HEADER_BYTES:]


def bound_to(ref: BlobRef, stream: str) -> bool | None:
    """Whether a blob belongs to a stream; `None` when its address does not say, as with other programs' stores.

    An event can point to any blob. Whoever erases a stream must not remove what is another's.
    """
    place = place_of(ref)
    if place is None or place.bucket == PLAIN:
        return None
    return place.bucket == _salt(stream).hex()


def bucket_of_stream(stream: str) -> str:
    """Return the bucket in which a stream's blobs are kept."""
    return _salt(stream).hex()


def new_ref(data: bytes, media_type: str) -> BlobRef:
    """Return the reference of bytes that are to be kept.

    Raises:
        TypeError: the media type is no text.
        ValueError: it is empty.
    """
    if not isinstance(media_type, str):
        raise TypeError(f"a media type is a text, not {type(media_type).__name__}")
    if not media_type:
        raise ValueError(f'a media type cannot be empty; for unknown bytes it is "{OCTETS}"')
    sha256 = hashlib.sha256(data).hexdigest()
    bound = data.startswith(_MARK) and len(data) >= _HEADER_BYTES
    bucket = data[len(_MARK) : _HEADER_BYTES].hex() if bound else PLAIN
    return BlobRef(f"blob:{bucket}/{sha256}", sha256, len(data), media_type)


def listed_ref(place: Place, size: int) -> BlobRef:
    """Return the reference of a blob that was found by its place."""
    return BlobRef(f"blob:{place.bucket}/{place.sha256}", place.sha256, size)


def place_of(ref: BlobRef) -> Place | None:
    """Return where a reference points, or `None` when these stores cannot hold it.

    References come out of logs, and so from anybody: nothing but digits and "plain" gets through.
    """
    found = _URI.fullmatch(ref.uri) if isinstance(ref.uri, str) else None
    if found is None or found[2] != ref.sha256:
        return None
    return Place(found[1], found[2])


def check(ref: BlobRef, data: bytes) -> bytes:
    """Return `data` if it is what `ref` promises.

    Raises:
        BlobIntegrityError: it is not.
    """
    if len(data) != ref.size or hashlib.sha256(data).hexdigest() != ref.sha256:
        raise changed(ref)
    return data


def changed(ref: BlobRef) -> BlobIntegrityError:
    """Return the error of a blob whose bytes are not those that were put."""
    return BlobIntegrityError(
        f"the blob {ref.sha256} has changed since it was stored; restore it from a backup, and find who writes there"
    )


def missing(ref: BlobRef) -> FileNotFoundError:
    """Return the error of a blob that is not here."""
    return FileNotFoundError(
        f"no blob {ref.sha256!s:.64} here: it was erased, or this is not the store that the log was written with"
    )


def as_bytes(data: object) -> bytes:
    """Return a copy of `data` that nobody can change.

    Raises:
        TypeError: no bytes.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a blob is made of bytes, not of {type(data).__name__}")
    return bytes(data)


class InMemoryBlobStore:
    """Blobs in memory: for tests, examples and runs whose log is in memory too (BLB-01)."""

    def __init__(self) -> None:
        self._buckets: dict[str, dict[str, bytes]] = {}

    async def put(self, data: bytes, media_type: str = OCTETS) -> BlobRef:
        """Keep `data` and return how to find it; the same bytes are kept once."""
        data = as_bytes(data)
        ref = new_ref(data, media_type)
        place = place_of(ref)
        if place is not None:
            self._buckets.setdefault(place.bucket, {})[place.sha256] = data
        return ref

    async def get(self, ref: BlobRef) -> bytes:
        """Return the bytes.

        Raises:
            FileNotFoundError: it is not here.
            BlobIntegrityError: they are not what `ref` says.
        """
        data = self._find(ref)
        if data is None:
            raise missing(ref)
        return check(ref, data)

    async def exists(self, ref: BlobRef) -> bool:
        """Whether it is here."""
        return self._find(ref) is not None

    async def delete(self, ref: BlobRef) -> None:
        """Remove it; one that is not here is no error."""
        place = place_of(ref)
        if place is not None and (bucket := self._buckets.get(place.bucket)) is not None:
            bucket.pop(place.sha256, None)
            if not bucket:
                del self._buckets[place.bucket]

    async def of_stream(self, stream: str) -> list[BlobRef]:
        """Return the blobs that are bound to a stream."""
        bucket = bucket_of_stream(stream)
        return [listed_ref(Place(bucket, sha), len(data)) for sha, data in self._buckets.get(bucket, {}).items()]

    def _find(self, ref: BlobRef) -> bytes | None:
        place = place_of(ref)
        return self._buckets.get(place.bucket, {}).get(place.sha256) if place is not None else None


def _salt(stream: str) -> bytes:
    text = stream.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=_SALT_BYTES, person=b"tracehold-blob").digest()
