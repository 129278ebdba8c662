"""What a commit's records say about their runs: one row a run, folded by the view `runs`.

In Python rather than SQL: for the few hundred rows of a commit, planning the aggregation took DuckDB 3 ms, as long as
inserting the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow as pa

from tracehold_collector.core.record import Record

_NO_ROOT: Final = 1 << 62
"""Added to the rank of a name that is not a root's, so that any root's name comes first."""


@dataclass(slots=True)
class RunDelta:
    """One row of `run_deltas`; the migration says what each column means.

    Every column folds in any order and grouping: counts and sums add up, times are a minimum or maximum, and a word is
    the one of the smallest rank or latest time.
    """

    tenant: str
    run_id: str
    started_at: int | None = None
    ended_at: int | None = None
    events: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    denials: int = 0
    errors: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unpriced_calls: int = 0
    root_rank: int | None = None
    root_name: str | None = None
    root_status: str | None = None
    agent: str | None = None
    end_at: int | None = None
    end_status: str | None = None
    user_ref: str | None = None
    session_id: str | None = None
    service: str | None = None
    trace_id: str | None = None
    source: str | None = None


class _Folding:
    """A delta in the making, and the ranks its words were taken at."""

    __slots__ = ("agent_at", "delta", "root_at")

    def __init__(self, tenant: str, run_id: str) -> None:
        self.delta = RunDelta(tenant, run_id)
        self.agent_at: int | None = None
        self.root_at: int | None = None

    def add(self, record: Record) -> None:
        delta = self.delta
        delta.events += 1
        if record.status == "error":
            delta.errors += 1
        elif record.status == "blocked" and record.decision is not None:
            delta.denials += 1
        # An opening half (`started`) is not counted again when its end comes.
        if record.status != "started":
            if record.kind == "llm":
                _add_call(delta, record)
            elif record.kind == "tool" and record.status != "blocked":
                delta.tool_calls += 1
        start = record.started_at
        if start is not None:
            self._add_times(record, start)
        at = start or 0
        if record.agent is not None and (self.agent_at is None or at < self.agent_at):
            delta.agent, self.agent_at = record.agent, at
        delta.user_ref = _least(delta.user_ref, record.user_ref)
        delta.session_id = _least(delta.session_id, record.session_id)
        delta.service = _least(delta.service, record.service)
        delta.trace_id = _least(delta.trace_id, record.trace_id)
        delta.source = _least(delta.source, record.source)

    def _add_times(self, record: Record, start: int) -> None:
        delta = self.delta
        end = start + (record.duration_ns or 0)
        if delta.started_at is None or start < delta.started_at:
            delta.started_at = start
        if delta.ended_at is None or end > delta.ended_at:
            delta.ended_at = end
        is_root = record.parent_span_id is None
        if record.name is not None:
            rank = start if is_root else start + _NO_ROOT
            if delta.root_rank is None or rank < delta.root_rank:
                delta.root_rank, delta.root_name = rank, record.name
        if is_root and (self.root_at is None or start < self.root_at):
            delta.root_status, self.root_at = record.status, start
        if record.kind == "run" and record.status != "started" and (delta.end_at is None or end > delta.end_at):
            delta.end_at, delta.end_status = end, record.status


def run_delta_table(records: Iterable[Record], received_at: int) -> pa.Table:
    """Return the rows of `run_deltas` for the records of one commit.

    Args:
        records: new in the store.
        received_at: UTC nanoseconds of the commit.
    """
    foldings: dict[tuple[str, str], _Folding] = {}
    for record in records:
        key = (record.tenant, record.run_id)
        folding = foldings.get(key)
        if folding is None:
            folding = foldings[key] = _Folding(*key)
        folding.add(record)
    deltas = [folding.delta for folding in foldings.values()]
    columns: dict[str, Any] = {
        name: pa.array([getattr(delta, name) for delta in deltas], kind) for name, kind in _COLUMNS.items()
    }
    columns["received_at"] = pa.repeat(pa.scalar(received_at, pa.int64()), len(deltas))
    return pa.table(columns)


_ARROW: Final = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
_COLUMNS: Final = {item.name: _ARROW[str(item.type).partition(" ")[0]] for item in fields(RunDelta)}


def _add_call(delta: RunDelta, record: Record) -> None:
    """Only model calls carry spend; unknown stays unknown."""
    delta.llm_calls += 1
    if record.input_tokens is not None:
        delta.input_tokens = (delta.input_tokens or 0) + record.input_tokens
    if record.output_tokens is not None:
        delta.output_tokens = (delta.output_tokens or 0) + record.output_tokens
    if record.cost_usd is None:
        delta.unpriced_calls += 1
    else:
        delta.cost_usd = (delta.cost_usd or 0.0) + record.cost_usd


def _least(known: str | None, new: str | None) -> str | None:
    if new is None or (known is not None and known <= new):
        return known
    return new
