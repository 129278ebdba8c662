"""Takes out of Arrow tables what stands beneath their nulls: memory of what was there before, other tenants' rows too.

Where a value is null, Arrow says nothing about the bytes in its place, and DuckDB leaves there what its vectors held
last. Arrow's stream format sends them along; text forms do not.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def without_hidden(table: pa.Table) -> pa.Table:
    """Return the same table with zeros beneath its nulls; columns of lists and structs are left as they are."""
    columns = [_cleaned(column) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _cleaned(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if not column.null_count or pa.types.is_nested(kind) or pa.types.is_null(kind):
        return column
    empty = _empty(kind)
    if empty is None:
        return column
    # Filled first: to put nulls into a column keeps what was beneath them.
    return pc.if_else(pc.is_valid(column), pc.fill_null(column, empty), pa.scalar(None, kind))


def _empty(kind: pa.DataType) -> pa.Scalar | None:
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        return pa.scalar("", kind)
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return pa.scalar(b"", kind)
    if pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(kind.bit_width // 8 + 1))])[0]
    return None
