"""A stretch of a log as it comes from whoever keeps it: nothing in it is believed yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Window:
    """The leaves [first, first + the number of hashes) of a log, and their events.

    Attributes:
        first: index of the first leaf.
        hashes: the leaf hashes as the store has them, 32 bytes each, up to the first hole.
        rows: events in the order of their leaves: `event_id` (16 bytes), `received_at`, `leaf_index`, `commitment`, the
            fields of the envelope, `content_state` as `store.log_rows` says, and `salt` and `content` when asked for.
        erased: the erasures that the event of a leaf fell under, by index.
    """

    first: int
    hashes: bytes
    rows: pa.Table
    erased: Mapping[int, Sequence[str]] = field(default_factory=dict)


class ClaimedHead(NamedTuple):
    """A tree head, and what its row says of it: size, root, and when it was signed (UTC nanoseconds)."""

    size: int
    root: bytes
    signed_at: int
    note: str


@dataclass(frozen=True, slots=True)
class Erasure:
    """What the store says of an erasure; the log has to say the same.

    Attributes:
        expired: whether a retention policy was the ground.
        root: the root over the leaf hashes of what was erased, once it is complete.
    """

    expired: bool
    root: bytes | None


@dataclass(frozen=True, slots=True)
class LogState:
    """What there is of a log.

    Attributes:
        tenant: whose.
        size: leaves.
        heads: its tree heads, in any order, as the store has them.
        notes: copies of tree heads, signed notes, from wherever they are kept.
        erasures: by id.
        before: events from before the log began.
        added: ids of events beside the log.
        repeated: leaves that several events claim.
        misdated: leaves whose hash has another time than their event.
        full: the roots of full subtrees that the store keeps: level (1 is 256 leaves), index of the first, hashes.
        disagreeing: runs whose sums are not those of their events.
    """

    tenant: str
    size: int
    heads: Sequence[ClaimedHead] = ()
    notes: Sequence[str] = ()
    erasures: Mapping[str, Erasure] = field(default_factory=dict)
    before: int = 0
    added: Sequence[str] = ()
    repeated: Sequence[int] = ()
    misdated: Sequence[int] = ()
    full: Sequence[tuple[int, int, bytes]] = ()
    disagreeing: Sequence[str] = ()


class LogSource(Protocol):
    """Where a log is read: an open store, or a collector over HTTP."""

    def state(self, tenant: str) -> LogState:
        """Return what there is of a tenant's log."""
        ...

    def frontier(self, tenant: str, size: int) -> Sequence[bytes]:
        """Return the roots of the full subtrees that the first `size` leaves are made of, the largest first."""
        ...

    def windows(self, tenant: str, first: int, end: int) -> Iterator[Window]:
        """Yield the stretches that [first, end) is made of, in order."""
        ...
