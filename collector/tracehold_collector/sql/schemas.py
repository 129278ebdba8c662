"""The columns of a table, as text that JSON can hold."""

from __future__ import annotations

import base64

import pyarrow as pa


def text_of(schema: pa.Schema) -> str:
    """Return a schema as text that JSON can hold."""
    return base64.b64encode(schema.serialize()).decode("ascii")


def schema_of(text: str) -> pa.Schema:
    """Return the schema that `text_of` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
