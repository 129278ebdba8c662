"""What a leaf commits to, held against the format written down byte by byte."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.audit.leaves import (
    DECIMALS,
    EVENT,
    FIELDS,
    TEXTS,
    WHOLE_NUMBERS,
    envelopes,
    event_digests,
    leaf_data,
    leaf_hashes,
)

WHOLE = st.none() | st.integers(-(2**63), 2**63 - 1)
TEXT = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ROW = st.fixed_dictionaries(
    {
        **dict.fromkeys(WHOLE_NUMBERS, WHOLE),
        **dict.fromkeys(DECIMALS, st.none() | st.floats()),
        **dict.fromkeys(TEXTS, TEXT),
    }
)
ROWS = st.lists(st.tuples(ROW, st.binary(min_size=32, max_size=32), st.booleans()), min_size=1, max_size=4)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    kinds = {**dict.fromkeys(WHOLE_NUMBERS, pa.int64()), **dict.fromkeys(DECIMALS, pa.float64())}
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name, pa.string())) for name in FIELDS})


def written(row: dict[str, Any], commitment: bytes, said: bool) -> bytes:
    """The format as the module's docstring has it, an event at a time."""
    presence = sum(1 << (31 - place) for place, name in enumerate(FIELDS) if row[name] is not None) | said
    texts = [(row[name] or "").encode() for name in TEXTS]
    return b"".join(
        (
            b"\x01",
            struct.pack(">I", presence),
            *(struct.pack(">q", row[name] or 0) for name in WHOLE_NUMBERS),
            *(struct.pack(">d", row[name] or 0.0) for name in DECIMALS),
            *(struct.pack(">I", len(text)) for text in texts),
            commitment,
            *texts,
        )
    )


@given(ROWS)
def test_the_form_is_the_one_that_is_written_down(rows: list[tuple[dict[str, Any], bytes, bool]]) -> None:
    events, commitments, said = zip(*rows, strict=True)
    made = envelopes(table(list(events)), b"".join(commitments), list(said))
    assert made.to_pylist() == [written(*row) for row in rows]


@given(ROWS, st.integers(0, 2**62), st.data())
def test_leaves_are_made_of_id_time_and_digest(
    rows: list[tuple[dict[str, Any], bytes, bool]], received_at: int, data: st.DataObject
) -> None:
    ids = [data.draw(st.binary(min_size=16, max_size=16)) for _ in rows]
    digests = [hashlib.sha256(written(*row)).digest() for row in rows]
    events, commitments, said = zip(*rows, strict=True)
    assert event_digests(table(list(events)), b"".join(commitments), list(said)) == digests
    expected = [
        b"\x01\x01" + struct.pack(">q", received_at) + event_id + digest
        for event_id, digest in zip(ids, digests, strict=True)
    ]
    assert leaf_data(EVENT, received_at, b"".join(ids), b"".join(digests)) == expected
    hashes = [hashlib.sha256(b"\0" + leaf).digest() for leaf in expected]
    assert leaf_hashes(EVENT, received_at, b"".join(ids), b"".join(digests)) == hashes


@given(ROWS, st.sampled_from(FIELDS))
def test_a_value_that_is_unknown_is_told_from_nought_and_from_no_text(
    rows: list[tuple[dict[str, Any], bytes, bool]], name: str
) -> None:
    row, commitment, said = rows[0]
    empty: Any = "" if name in TEXTS else 0
    two = [{**row, name: None}, {**row, name: empty}]
    one, other = event_digests(table(two), commitment * 2, [said, said])
    assert one != other


def test_rows_may_be_a_slice_of_a_larger_table() -> None:
    rows = [{name: f"{name}{n}" if name in TEXTS else n for name in FIELDS} for n in range(6)]
    rows[4]["rule"] = None
    commitments = bytes(range(32)) * 2
    part = table(rows).slice(3, 2)
    expected = [written(rows[3], bytes(range(32)), True), written(rows[4], bytes(range(32)), False)]
    assert envelopes(part, commitments, [True, False]).to_pylist() == expected
