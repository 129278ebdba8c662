"""The lists that Jaeger's search form and graph are made of: services, operations, dependencies, summaries."""

from __future__ import annotations

from typing import Any, Final

from tracehold_collector.core.errors import QueryError
from tracehold_collector.core.record import Record
from tracehold_collector.jaeger.search import Found
from tracehold_collector.jaeger.tags import SPAN_KINDS
from tracehold_collector.jaeger.view import record_view
from tracehold_collector.store.reader import Access, Reader

KINDS: Final = frozenset({"", "unspecified", *SPAN_KINDS.values()})
_OPENED: Final = 2_000
"""Operations whose kind is looked up; a service with more has kinds for the first of them only."""


def services(reader: Reader, access: Access) -> list[str]:
    """Return the names of the services that have spans."""
    return [row["service"] for row in reader.query("trace_services", {}, access).to_pylist()]


def operations(reader: Reader, service: str, access: Access) -> list[str]:
    """Return the names of a service's operations."""
    return [row["operation"] for row in reader.query("trace_operations", {"service": service}, access).to_pylist()]


def operations_by_kind(reader: Reader, service: str, kind: str, access: Access) -> list[dict[str, str]]:
    """Return a service's operations, each with the kind of its newest span; empty when that span has none.

    A span's kind is a part of its content, so that only one span of each operation is opened.

    Args:
        reader: the store.
        service: its name as listed.
        kind: only operations of this kind; empty for all.
        access: what the asker may see.

    Raises:
        QueryError: there is no such kind.
    """
    if kind.lower() not in KINDS:
        raise QueryError(f"spanKind takes one of {', '.join(sorted(KINDS - {''}))}")
    rows = reader.query("trace_operations", {"service": service}, access).to_pylist()
    opened = {row["newest_event"]: row["newest_ns"] for row in rows[:_OPENED] if row["newest_event"]}
    records: dict[str, Record] = {}
    if opened:
        between_ns = (min(opened.values()), max(opened.values()))
        records, _ = reader.records(opened, access, between_ns=between_ns)
    found = []
    for row in rows:
        record = records.get(row["newest_event"])
        own = SPAN_KINDS.get(record_view(record).span.kind, "") if record else ""
        if not kind or own == kind.lower().replace("unspecified", ""):
            found.append({"name": row["operation"], "spanKind": own})
    return found


def dependencies(
    reader: Reader, since_ns: int, until_ns: int, service: str | None, access: Access
) -> list[dict[str, Any]]:
    """Return which service calls which, and how often, among spans that started in this time."""
    parameters = {"since_ns": since_ns, "until_ns": until_ns, "service": service}
    return [
        {"parent": row["parent"], "child": row["child"], "callCount": row["calls"]}
        for row in reader.query("trace_dependencies", parameters, access).to_pylist()
    ]


def summaries(reader: Reader, found: Found, access: Access) -> list[dict[str, Any]]:
    """Return a summary of each trace that was found, in their order, in the words of Jaeger's third API."""
    if not found.keys:
        return []
    parameters = {"trace_ids": sorted({trace_id for _, trace_id in found.keys})}
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in reader.query("trace_summaries", parameters, access).to_pylist():
        parts.setdefault((row["tenant"], row["trace_id"]), []).append(row)
    return [_summary(key[1], parts[key]) for key in found.keys if key in parts]


def _summary(trace_id: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    root = min(parts, key=lambda part: part["root_rank"])
    starts = [part["started_ns"] for part in parts if part["started_ns"] is not None]
    ends = [part["ended_ns"] for part in parts if part["ended_ns"] is not None]
    times = {"minStartTimeUnixNano": str(min(starts)), "maxEndTimeUnixNano": str(max(ends))} if starts else {}
    return {
        "traceId": trace_id,
        "rootServiceName": root["service"],
        "rootOperationName": root["root_operation"],
        **times,
        "spanCount": sum(part["spans"] for part in parts),
        "errorSpanCount": sum(part["errors"] for part in parts),
        "orphanSpanCount": sum(part["orphans"] for part in parts),
        "services": [
            {"name": part["service"], "spanCount": part["spans"], "errorSpanCount": part["errors"]} for part in parts
        ],
    }
