"""Nothing stands beneath the nulls of an Arrow answer: neither other tenants' rows, nor anything else of the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tracehold_collector.core.hidden import without_hidden

BENEATH = b"mark-of-" * 8
FIXED = (pa.int64(), pa.uint8(), pa.float64(), pa.int32(), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.date32())


def sent(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def column(kind: Any) -> pa.Array:
    """All null but the last, over memory that says something."""
    length = len(BENEATH) * 8 // kind.bit_width
    valid = bytes(-(-length // 8) - 1) + bytes([1 << (length - 1) % 8])
    return pa.Array.from_buffers(kind, length, [pa.py_buffer(valid), pa.py_buffer(BENEATH)])


@pytest.mark.parametrize("kind", [*FIXED, pa.binary(16)], ids=str)
def test_what_stands_beneath_nulls_is_not_sent(kind: Any) -> None:
    table = pa.table({"c": column(kind)})
    clean = without_hidden(table)
    assert BENEATH[:24] in sent(table)
    assert BENEATH[:24] not in sent(clean)
    assert clean.equals(table)
    assert clean.schema.equals(table.schema)


def test_text_beneath_a_null_is_not_sent() -> None:
    offsets = np.array([0, 2, 10, 12], dtype=np.int32)
    buffers = [pa.py_buffer(bytes([0b101])), pa.py_buffer(offsets), pa.py_buffer(b"abmark-of-zz")]
    table = pa.table({"c": pa.Array.from_buffers(pa.string(), 3, buffers)})
    clean = without_hidden(table)
    assert b"mark-of" not in sent(clean)
    assert clean.to_pylist() == [{"c": "ab"}, {"c": None}, {"c": "zz"}]


def test_columns_that_hide_nothing_are_the_same_objects() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "c": pa.nulls(2), "d": [[1], None]})
    assert without_hidden(table).equals(table)
