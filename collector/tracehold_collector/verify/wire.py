"""A log on its way over HTTP: what there is of it as JSON, its windows as Arrow streams."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import orjson
import pyarrow as pa

from tracehold_collector.core.errors import AuditError
from tracehold_collector.core.hidden import without_hidden
from tracehold_collector.verify.window import ClaimedHead, Erasure, LogState, Window

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
_FIRST: Final = b"tracehold.first"
_HASHES: Final = b"tracehold.hashes"
_ERASED: Final = b"tracehold.erased"


def state_json(state: LogState) -> dict[str, Any]:
    """Return a state as JSON can hold it."""
    return {
        "tenant": state.tenant,
        "size": state.size,
        "heads": [
            {"size": head.size, "root": _text(head.root), "signed_at": head.signed_at, "note": head.note}
            for head in state.heads
        ],
        "notes": list(state.notes),
        "erasures": {
            name: {"expired": erasure.expired, "root": None if erasure.root is None else _text(erasure.root)}
            for name, erasure in state.erasures.items()
        },
        "before": state.before,
        "added": list(state.added),
        "repeated": list(state.repeated),
        "misdated": list(state.misdated),
        "full": [[level, first, _text(hashes)] for level, first, hashes in state.full],
        "disagreeing": list(state.disagreeing),
    }


def read_state(said: dict[str, Any]) -> LogState:
    """Return the state that `state_json` wrote.

    Raises:
        AuditError: it is none.
    """
    try:
        return LogState(
            str(said["tenant"]),
            int(said["size"]),
            [
                ClaimedHead(int(head["size"]), _bytes(head["root"]), int(head["signed_at"]), str(head["note"]))
                for head in said["heads"]
            ],
            [str(note) for note in said["notes"]],
            {
                str(name): Erasure(bool(one["expired"]), None if one["root"] is None else _bytes(one["root"]))
                for name, one in said["erasures"].items()
            },
            int(said["before"]),
            [str(one) for one in said["added"]],
            [int(one) for one in said["repeated"]],
            [int(one) for one in said["misdated"]],
            [(int(level), int(first), _bytes(hashes)) for level, first, hashes in said["full"]],
            [str(one) for one in said["disagreeing"]],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AuditError(f"the collector's answer about its log cannot be read: {type(error).__name__}") from error


def write_window(window: Window) -> bytes:
    """Return a window as one Arrow stream."""
    erased = {str(index): list(erasures) for index, erasures in window.erased.items()}
    table = without_hidden(window.rows).replace_schema_metadata(
        {_FIRST: str(window.first).encode(), _HASHES: window.hashes, _ERASED: orjson.dumps(erased)}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def read_window(written: bytes) -> Window:
    """Return the window that `write_window` wrote.

    Raises:
        AuditError: it is none.
    """
    try:
        with pa.ipc.open_stream(written) as stream:
            table = stream.read_all()
        said = table.schema.metadata or {}
        erased = {int(index): list(map(str, erasures)) for index, erasures in orjson.loads(said[_ERASED]).items()}
        return Window(int(said[_FIRST]), said[_HASHES], table, erased)
    except (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError) as error:
        raise AuditError(f"the collector's answer about its log cannot be read: {type(error).__name__}") from error


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("no base64") from error
