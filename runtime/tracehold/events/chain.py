"""The hash chain of a stream (DEC-08): an edited, missing or moved event does not fit the hash that follows it.

Each event has a digest over a random salt and its content, and a chain hash over the chain hash before it, that
digest and its envelope. A scrub takes content and salt and leaves both hashes: the chain still verifies, and the
digest of an erased content tells nothing, since nobody knows the salt.

Whoever can write to the file can also compute the whole chain anew; against that, heads must be kept elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import orjson

from tracehold.events.rows import Envelope

ROOT: Final = bytes(32)
"""Stands before the first event of a stream and before the first act."""

SALT_BYTES: Final = 16


def content_digest(salt: bytes, content: str) -> bytes:
    """Return SHA-256 over salt and content."""
    return hashlib.sha256(salt + content.encode()).digest()


def link(before: bytes, digest: bytes, stream: str, seq: int, envelope: Envelope) -> bytes:
    """Return the chain hash of an event: SHA-256 over the one before, its digest, and its envelope as a JSON array."""
    return hashlib.sha256(before + digest + orjson.dumps((stream, seq, *envelope))).digest()


def name_digest(stream: str) -> bytes:
    """Return what a deleted stream leaves of its name: whoever knows the name can find its deletion."""
    return hashlib.sha256(stream.encode()).digest()


def count_link(before: bytes, no: int, digest: bytes) -> bytes:
    """Return the chain hash of the count of streams: SHA-256 over the one before, a number and a name's digest."""
    return hashlib.sha256(before + b"%d " % no + digest).digest()


def remains_digest(contents: Iterable[tuple[int, int, str]]) -> bytes:
    """Return SHA-256 over what erasures left in each event they emptied: seq, how it was emptied, content; in order."""
    total = hashlib.sha256()
    for left in contents:
        total.update(orjson.dumps(left) + b"\n")
    return total.digest()


@dataclass(frozen=True, slots=True)
class Act:
    """A documented erasure: what is allowed to differ from what was appended.

    Attributes:
        kind: "scrub", "replace" or "delete".
        stream_no: the stream's number.
        name_digest: of its name.
        last_seq: its last number then.
        head: its chain hash then.
        remains: digest of what scrubs and replacements left; empty for a deletion.
        at: UTC, ISO 8601.
    """

    kind: str
    stream_no: int
    name_digest: bytes
    last_seq: int
    head: bytes
    remains: bytes
    at: str

    def link(self, before: bytes) -> bytes:
        """Return the chain hash of this act."""
        fields = (
            self.kind,
            self.stream_no,
            self.name_digest.hex(),
            self.last_seq,
            self.head.hex(),
            self.remains.hex(),
            self.at,
        )
        return hashlib.sha256(before + orjson.dumps(fields)).digest()


@dataclass(frozen=True, slots=True)
class ChainProblem:
    """Something that does not fit.

    Attributes:
        stream: its name, or `None` when the file no longer tells.
        seq: the event's number, or `None`.
        what: a sentence.
    """

    stream: str | None
    seq: int | None
    what: str


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What `verify_chain` found.

    Attributes:
        streams: checked.
        events: checked.
        erased: of these, emptied or replaced by a documented erasure.
        deleted: streams that left a tombstone.
        heads: the last chain hash of each stream as hexadecimal digits; kept elsewhere, they prove a later rewrite.
        problems: empty when all is as it was appended.
        notes: sentences on what this check cannot tell; no alarm.
    """

    streams: int
    events: int
    erased: int
    deleted: int
    heads: dict[str, str]
    problems: tuple[ChainProblem, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems
