"""The process that runs one statement: `python -m tracehold_collector.sql.child`, its standard input a socket.

It holds no data, no environment and no files; rows come over the socket, those the asker may see and no others.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import Any, Final

import orjson

from tracehold_collector.sql.frames import ANSWER, DONE, FAULT, READY, Channel, ClosedError


class _NoPandas:
    """Keeps pyarrow from importing pandas: it would be two thirds of the start, for nothing that is used here."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


sys.meta_path.insert(0, _NoPandas)

import duckdb  # noqa: E402 - after pandas is out of the way
import pyarrow as pa  # noqa: E402

from tracehold_collector.sql.check import RefusedError, judge  # noqa: E402
from tracehold_collector.sql.confine import confine  # noqa: E402
from tracehold_collector.sql.engine import open_engine  # noqa: E402
from tracehold_collector.sql.remote import Source  # noqa: E402
from tracehold_collector.sql.schemas import schema_of  # noqa: E402

_BATCH_ROWS: Final = 10_000
_MAX_TEXT: Final = 1_500

_TOLD: Final = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.ConstraintException,
    duckdb.InvalidInputException,
    duckdb.InvalidTypeException,
    duckdb.NotImplementedException,
    duckdb.OutOfRangeException,
    duckdb.ParserException,
    duckdb.SyntaxException,
    duckdb.TypeMismatchException,
)
"""What DuckDB says of a statement or of the asker's own rows. Of any other error only the name is told: it could name
files, settings or addresses."""


def main() -> None:
    """Run the statement that comes over standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=0))
    with contextlib.suppress(ClosedError):
        _, body = channel.receive()
        begin = orjson.loads(body)
        schemas = {name: schema_of(text) for name, text in begin["tables"].items()}
        connection = open_engine(schemas, Source(channel), memory_bytes=begin["memory_bytes"])
        confine(memory_bytes=begin["memory_bytes"], cpu_s=begin["cpu_s"])
        channel.send(READY)
        _serve(connection, begin, channel)
    os._exit(0)  # what was said is said: nothing here is worth the time to put it away


def _serve(connection: duckdb.DuckDBPyConnection, begin: dict[str, Any], channel: Channel) -> None:
    try:
        cut = _run(connection, begin, channel)
    except RefusedError as error:
        channel.send_json(FAULT, {"kind": "refused", "text": str(error)})
    except (duckdb.OutOfMemoryException, MemoryError):
        channel.send_json(FAULT, {"kind": "memory"})
    except RecursionError:
        channel.send_json(FAULT, {"kind": "refused", "text": "this statement is nested too deeply"})
    except _TOLD as error:
        channel.send_json(FAULT, {"kind": "sql", "text": _printable(str(error))})
    except (duckdb.Error, pa.ArrowException, UnicodeError, ValueError) as error:
        channel.send_json(FAULT, {"kind": "engine", "text": type(error).__name__})
    else:
        channel.send_json(DONE, {"cut": cut})


def _run(connection: duckdb.DuckDBPyConnection, begin: dict[str, Any], channel: Channel) -> str | None:
    """Run the statement and send its rows; returns what cut the answer short, if anything."""
    statement = judge(connection, begin["sql"], begin["tables"])
    rows_left, bytes_left = begin["max_rows"], begin["max_bytes"]
    reader = connection.execute(statement).to_arrow_reader(_BATCH_ROWS)
    channel.send(ANSWER, _stream(reader.schema))
    for batch in reader:
        if not batch.num_rows:
            continue
        if not rows_left:
            return "rows"
        kept = batch.slice(0, rows_left)
        message = _stream(kept.schema, kept)
        if len(message) > bytes_left:
            return "bytes"
        channel.send(ANSWER, message)
        rows_left -= kept.num_rows
        bytes_left -= len(message)
        if kept.num_rows < batch.num_rows:
            return "rows"
    return None


def _stream(schema: pa.Schema, *batches: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return memoryview(sink.getvalue())


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()[:_MAX_TEXT]


if __name__ == "__main__":
    main()
