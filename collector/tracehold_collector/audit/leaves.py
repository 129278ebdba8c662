"""What the log commits to of an event: the fixed binary form of its envelope, and the leaf made of it.

The form is written column by column: packed row by row it would take longer than all the hashing.

Version 1. Numbers are big-endian.

    envelope    = 0x01 || presence (uint32) || 8 int64 || float64 || 22 lengths (uint32) || commitment (32) || 22 texts
    digest      = SHA-256(envelope)
    leaf data   = 0x01 || type (1 byte) || received_at (int64) || id (16) || digest (32)
    leaf hash   = SHA-256(0x00 || leaf data)                                                     (RFC 6962, section 2.1)
    commitment  = SHA-256(salt || content), or 32 random bytes for an event that says nothing
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

VERSION: Final = 1
EVENT: Final = 1
"""The type of every leaf so far; the collector's own events are of it as well, in a log of their own."""

HASH_BYTES: Final = 32

LeafType = Literal[1]

WHOLE_NUMBERS: Final = (
    "seq", "started_at", "duration_ns", "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens",
    "reasoning_tokens",
)  # fmt: skip
DECIMALS: Final = ("cost_usd",)
TEXTS: Final = (
    "tenant", "run_id", "trace_id", "span_id", "parent_span_id", "kind", "type", "name", "status", "agent", "user_ref",
    "session_id", "service", "model", "provider", "price_source", "decision", "decided_by", "rule", "error_type",
    "source", "attributes",
)  # fmt: skip
FIELDS: Final = (*WHOLE_NUMBERS, *DECIMALS, *TEXTS)
"""Every column of an event's envelope in the order of their presence bits, the most significant first. Not among them:
id and time of receipt, which stand in the leaf itself, and where the content lies, which changes when it is sealed
again."""

_HAS_CONTENT: Final = 1
_HEADER: Final = np.dtype(
    [
        ("version", "u1"),
        ("presence", ">u4"),
        *((name, ">i8") for name in WHOLE_NUMBERS),
        *((name, ">f8") for name in DECIMALS),
        *((name, ">u4") for name in TEXTS),
        ("commitment", "V32"),
    ]
)
_LEAF: Final = np.dtype(
    [("prefix", "u1"), ("version", "u1"), ("type", "u1"), ("received_at", ">i8"), ("id", "V16"), ("digest", "V32")]
)
_AS_THEY_ARE: Final = pc.JoinOptions(null_handling="replace", null_replacement="")

Bools = npt.NDArray[np.bool_]


def event_digests(
    columns: pa.RecordBatch | pa.Table, commitments: bytes, with_content: Bools | Sequence[bool]
) -> list[bytes]:
    """Return the digest of each event's envelope.

    Args:
        columns: at least the columns named in `FIELDS`, of events.
        commitments: 32 bytes each, one behind the other.
        with_content: whether each says anything, as when it was stored.
    """
    sha256 = hashlib.sha256
    return [sha256(envelope.as_buffer()).digest() for envelope in envelopes(columns, commitments, with_content)]


def envelopes(columns: pa.RecordBatch | pa.Table, commitments: bytes, with_content: Bools | Sequence[bool]) -> pa.Array:
    """Return the binary form of each envelope; the arguments are those of `event_digests`."""
    rows = columns.num_rows
    header: npt.NDArray[Any] = np.zeros(rows, dtype=_HEADER)
    header["version"] = VERSION
    presence = np.asarray(with_content, dtype=np.uint32) * np.uint32(_HAS_CONTENT)
    texts: list[pa.Array] = []
    for place, name in enumerate(FIELDS):
        column = _one_piece(columns.column(name))
        there = _there(column)
        if there is None:  # nowhere: zeros are there already
            if name in TEXTS:
                texts.append(None)
            continue
        presence |= np.uint32(1 << (31 - place)) * there
        if name in TEXTS:
            binary = column.cast(pa.binary())
            header[name] = _lengths(binary) * there
            texts.append(binary)
        else:
            header[name] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    header["presence"] = presence
    header["commitment"] = np.frombuffer(commitments, dtype="V32")
    parts = [text for text in texts if text is not None]
    return pc.binary_join_element_wise(_fixed(header), *parts, b"", options=_AS_THEY_ARE)


def leaf_hashes(kind: LeafType, received_at: int | npt.NDArray[np.int64], ids: bytes, digests: bytes) -> list[bytes]:
    """Return the leaf hash of each record.

    Args:
        kind: what the records are.
        received_at: UTC nanoseconds of their commit, or one each.
        ids: 16 bytes each, one behind the other.
        digests: 32 bytes each.
    """
    width = _LEAF.itemsize
    sha256 = hashlib.sha256
    data = memoryview(_leaves(kind, received_at, ids, digests).tobytes())
    return [sha256(data[start : start + width]).digest() for start in range(0, len(data), width)]


def leaf_data(kind: LeafType, received_at: int | npt.NDArray[np.int64], ids: bytes, digests: bytes) -> list[bytes]:
    """Return the leaf data of each record, 58 bytes: what an entry bundle of the log holds (C2SP tlog-tiles)."""
    return [leaf.tobytes()[1:] for leaf in _leaves(kind, received_at, ids, digests)]


def _leaves(
    kind: LeafType, received_at: int | npt.NDArray[np.int64], ids: bytes, digests: bytes
) -> npt.NDArray[np.void]:
    leaves: npt.NDArray[np.void] = np.zeros(len(ids) // 16, dtype=_LEAF)
    leaves["version"] = VERSION
    leaves["type"] = kind
    leaves["received_at"] = received_at
    leaves["id"] = np.frombuffer(ids, dtype="V16")
    leaves["digest"] = np.frombuffer(digests, dtype="V32")
    return leaves


def _one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _there(column: pa.Array) -> Bools | None:
    """Which values are there; `None` when none is."""
    if column.null_count == len(column):
        return None
    if not column.null_count:
        return np.ones(len(column), dtype=np.bool_)
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _lengths(column: pa.Array) -> npt.NDArray[np.int32]:
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    return np.diff(offsets)


def _fixed(header: npt.NDArray[Any]) -> pa.Array:
    """The rows of `header` as an Arrow column of bytes, not copied."""
    offsets = np.arange(len(header) + 1, dtype=np.int32) * _HEADER.itemsize
    return pa.BinaryArray.from_buffers(pa.binary(), len(header), [None, pa.py_buffer(offsets), pa.py_buffer(header)])
