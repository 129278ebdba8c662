"""The rows of `erasures`: written in the transaction of what they tell."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any

import duckdb
import orjson

from tracehold_collector.erasure.words import Step


def tell(
    connection: duckdb.DuckDBPyConnection, erasure_id: str, tenant: str, step: Step, at_ns: int, **details: Any
) -> None:
    """Add a step, inside the caller's transaction on the writer's thread.

    Args:
        connection: the writer's.
        erasure_id: of which erasure.
        tenant: whose data.
        step: what was done.
        at_ns: when; UTC nanoseconds.
        details: ids, numbers and words of our own only; what is `None` is left out.
    """
    said = {name: _plain(value) for name, value in details.items() if value is not None}
    connection.execute(
        "INSERT INTO erasures VALUES (?, ?, ?, ?, ?)", [erasure_id, tenant, step, at_ns, orjson.dumps(said).decode()]
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
