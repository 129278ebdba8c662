"""What a commit's records say about their runs: one row a run, folded by the view `runs`.

In Python rather than SQL: for the few hundred rows of a commit, planning the aggregation took DuckDB 3 ms, as long as
inserting the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Final

import pyarrow as pa

from tracehold_collector.core.record import OWN_SOURCE, Record
from tracehold_collector.normalise.times import EARLIEST_NS
from tracehold_collector.store.usage_tree import needs_a_tree

_NO_ROOT: Final = 1 << 62
"""Added to the rank of a name that is not a root's, so that any root's name comes first."""

_UNTIMED_ROOT: Final = _NO_ROOT - 1
"""The rank of a root's name without a time: behind those with one, before those of events that are no root."""


@dataclass(slots=True)
class RunDelta:
    """One row of `run_deltas`; the migration says what each column means.

    Every column folds in any order and grouping: counts and sums add up, times are a minimum or maximum, and a word is
    the one of the smallest rank or latest time. A start in the wrong unit is not the run's while it has a better one.
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
    root_status_at: int | None = None
    agent: str | None = None
    agent_at: int | None = None
    end_at: int | None = None
    end_status: str | None = None
    user_ref: str | None = None
    session_id: str | None = None
    service: str | None = None
    trace_id: str | None = None
    source: str | None = None
    telling: int = 0

    def add(self, record: Record) -> None:
        """Take one record in."""
        self.events += 1
        if record.status == "error":
            self.errors += 1
        elif record.status == "blocked" and record.decision is not None:
            self.denials += 1
        # An opening half (`started`) is not counted again when its end comes, nor a call that waits when it is entered
        # again.
        if record.status != "started":
            if record.kind == "llm":
                self._add_call(record)
            elif record.kind == "tool" and record.status not in {"blocked", "suspended"}:
                self.tool_calls += 1
            if needs_a_tree(record):
                self.telling += 1
        start = record.started_at
        if start is not None:
            self._add_times(record, start)
        elif record.kind == "run":
            self._add_untimed(record)
        at = start or 0
        if record.agent is not None and (self.agent_at is None or at < self.agent_at):
            self.agent, self.agent_at = record.agent, at
        self.user_ref = _least(self.user_ref, record.user_ref)
        self.session_id = _least(self.session_id, record.session_id)
        self.service = _least(self.service, record.service)
        self.trace_id = _least(self.trace_id, record.trace_id)
        self.source = _least(self.source, record.source)

    def _add_times(self, record: Record, start: int) -> None:
        end = start + (record.duration_ns or 0)
        known = self.started_at
        if known is None or (start < EARLIEST_NS, start) < (known < EARLIEST_NS, known):
            self.started_at = start
        if self.ended_at is None or end > self.ended_at:
            self.ended_at = end
        is_root = record.parent_span_id is None
        if record.name is not None:
            rank = start if is_root else start + _NO_ROOT
            if self.root_rank is None or rank < self.root_rank:
                self.root_rank, self.root_name = rank, record.name
        if is_root and (self.root_status_at is None or start < self.root_status_at):
            self.root_status, self.root_status_at = record.status, start
        if record.kind == "run" and record.status != "started" and (self.end_at is None or end > self.end_at):
            self.end_at, self.end_status = end, record.status

    def _add_untimed(self, record: Record) -> None:
        """What the run itself says counts without a time too, behind anything that has one."""
        if record.name is not None and self.root_rank is None:
            self.root_rank, self.root_name = _UNTIMED_ROOT, record.name
        if record.status != "started" and self.end_at is None:
            self.end_at, self.end_status = 0, record.status

    def _add_call(self, record: Record) -> None:
        """Model calls carry spend by themselves; what others add is kept in `usage_shares`. Unknown stays unknown."""
        self.llm_calls += 1
        if record.input_tokens is not None:
            self.input_tokens = (self.input_tokens or 0) + record.input_tokens
        if record.output_tokens is not None:
            self.output_tokens = (self.output_tokens or 0) + record.output_tokens
        if record.cost_usd is None:
            self.unpriced_calls += 1
        else:
            self.cost_usd = (self.cost_usd or 0.0) + record.cost_usd


def run_delta_batch(records: Iterable[Record]) -> pa.RecordBatch:
    """Return the rows of `run_deltas` for records that are new in the store; the commit adds when it was.

    What people did here (source `collector`), such as reviews and erasures, is no agent's run: it has no row, so that
    no list and no sum of runs has to leave it out.
    """
    by_run: dict[tuple[str, str], RunDelta] = {}
    for record in records:
        if record.source == OWN_SOURCE:
            continue
        key = (record.tenant, record.run_id)
        delta = by_run.get(key)
        if delta is None:
            delta = by_run[key] = RunDelta(*key)
        delta.add(record)
    deltas = list(by_run.values())
    columns = [pa.array([getattr(delta, field.name) for delta in deltas], field.type) for field in DELTA_SCHEMA]
    return pa.record_batch(columns, schema=DELTA_SCHEMA)


_ARROW: Final = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
DELTA_SCHEMA: Final = pa.schema([(item.name, _ARROW[str(item.type).partition(" ")[0]]) for item in fields(RunDelta)])


def _least(known: str | None, new: str | None) -> str | None:
    if new is None or (known is not None and known <= new):
        return known
    return new
