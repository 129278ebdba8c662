"""Finds traces by their spans: what columns can tell in one query, what only the content can tell by opening it.

A span matches when it has all of what is asked, as in Jaeger; a trace is found when one of its spans matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracehold_collector.jaeger.envelope import column_filters
from tracehold_collector.jaeger.tags import matches
from tracehold_collector.jaeger.view import TraceView, record_view, trace_view
from tracehold_collector.store.reader import NO_CONTENT, Access, Reader
from tracehold_collector.store.traces import StoredTrace

DEFAULT_TRACES: Final = 20
MAX_SPANS: Final = 100_000
"""Events in one answer, of all its traces together."""

MAX_OPENED: Final = 10_000
"""Spans whose content one search opens, the newest first."""

_FIRST_BATCH: Final = 500
_LATER_BATCH: Final = 4_750


@dataclass(frozen=True, slots=True)
class Search:
    """What a span must be for its trace to be found.

    Attributes:
        service, operation: as listed; `None` is any.
        tags: what it must say, by name, as text.
        since_ns, until_ns: first and last moment it may have started, UTC nanoseconds, both included.
        min_duration_ns, max_duration_ns: how long it may have taken, both included.
        limit: traces at most.
    """

    service: str | None = None
    operation: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    since_ns: int | None = None
    until_ns: int | None = None
    min_duration_ns: int | None = None
    max_duration_ns: int | None = None
    limit: int = DEFAULT_TRACES


@dataclass(frozen=True, slots=True)
class Found:
    """Traces found, newest first: tenant and trace id each; and what the asker should know about the search."""

    keys: list[tuple[str, str]]
    warnings: list[str]


def find_traces(reader: Reader, search: Search, access: Access) -> Found:
    """Return the traces that have a span like this.

    Raises:
        QueryError: a value cannot be used, or the search took too long.
        StoreError: the store could not answer.
    """
    filters, remaining = column_filters(search.tags)
    parameters: dict[str, Any] = {
        "service": search.service,
        "operation": search.operation,
        "since_ns": search.since_ns,
        "until_ns": search.until_ns,
        "min_duration_ns": search.min_duration_ns,
        "max_duration_ns": search.max_duration_ns,
        **filters,
    }
    if remaining:
        return _open_and_find(reader, parameters, remaining, search.limit, access)
    table = reader.query("trace_search", {**parameters, "limit": search.limit}, access)
    return Found([(row["tenant"], row["trace_id"]) for row in table.to_pylist()], [])


def load_traces(reader: Reader, found: Found, access: Access) -> list[TraceView]:
    """Return the traces that were found, in their order; one erased meanwhile is left out."""
    stored = reader.traces({trace_id for _, trace_id in found.keys}, access, max_events=MAX_SPANS, with_content=True)
    by_key = {(one.tenant, one.trace_id): one for one in stored}
    return [_view(by_key[key], access) for key in found.keys if key in by_key]


def load_by_id(reader: Reader, trace_ids: Sequence[str], access: Access) -> list[TraceView]:
    """Return traces by their ids (32 lower-case hex digits), in their order: one a tenant that has it."""
    stored = reader.traces(trace_ids, access, max_events=MAX_SPANS, with_content=True)
    place = {trace_id: number for number, trace_id in enumerate(trace_ids)}
    return [_view(one, access) for one in sorted(stored, key=lambda one: (place[one.trace_id], one.tenant))]


def _view(stored: StoredTrace, access: Access) -> TraceView:
    view = trace_view(stored)
    if not access.content:
        view.warnings.append(NO_CONTENT)
    return view


def _open_and_find(
    reader: Reader, parameters: dict[str, Any], tags: Mapping[str, str], limit: int, access: Access
) -> Found:
    table = reader.query("trace_search", {**parameters, "each": True, "limit": MAX_OPENED + 1}, access)
    candidates = table.to_pylist()
    keys: dict[tuple[str, str], None] = {}
    opened = 0
    all_read = True
    for batch in _batches([row for row in candidates[:MAX_OPENED] if row["newest_ns"] is not None]):
        # Another span of the same trace adds nothing once one has matched.
        batch = [row for row in batch if (row["tenant"], row["trace_id"]) not in keys]  # noqa: PLW2901
        if not batch:
            continue
        between_ns = (batch[-1]["newest_ns"], batch[0]["newest_ns"])
        records, complete = reader.records([row["event_id"] for row in batch], access, between_ns=between_ns)
        all_read = all_read and complete
        for row in batch:
            record = records.get(row["event_id"])
            if record is not None and matches(record_view(record), tags):
                keys[row["tenant"], row["trace_id"]] = None
                if len(keys) == limit:
                    return Found(list(keys), [])
        opened += len(batch)
    warnings = []
    if not access.content:
        warnings.append(f"only envelopes were searched for the tags {', '.join(sorted(tags))[:200]}; {NO_CONTENT}")
    if len(candidates) > MAX_OPENED or not all_read:
        warnings.append(
            f"the tags {', '.join(sorted(tags))[:200]} are content: only the newest spans that match otherwise were "
            f"opened ({opened}, within a budget of memory). Narrow down by time, operation or a tracehold.* tag to "
            f"look further back"
        )
    return Found(list(keys), warnings)


def _batches(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """A small batch first: most searches end with it."""
    yield rows[:_FIRST_BATCH]
    for start in range(_FIRST_BATCH, len(rows), _LATER_BATCH):
        yield rows[start : start + _LATER_BATCH]
