"""What each address asks of a key. Data, and complete: an address without a line here is refused to everyone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tracehold_collector.access.roles import Role

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What a load balancer may ask without a key; they say up or down and nothing else."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an address asks for.

    Attributes:
        role: the role a key must have.
        act: what using it is, for the access log. `ingest` and `watch` are logged only when refused: a record has its
            sender's marks itself, and a metric says nothing about anyone.
        every_tenant: whether the answer is about all tenants together, and so only for a key that names them all.
    """

    role: Role
    act: Literal["ingest", "read", "admin", "watch"]
    every_tenant: bool = False


_INGEST: Final = Need("ingest", "ingest")
_READ: Final = Need("read", "read")
_AUDIT: Final = Need("audit", "read")
_ERASE: Final = Need("erase", "admin")

HTTP: Final[dict[str, Need]] = {
    "/v1/events": _INGEST,
    "/v1/traces": _INGEST,
    "/v1/logs": _INGEST,
    "/v1/metrics": _INGEST,
    "/api/v1/queries": Need("read", "watch"),
    "/api/v1/queries/{name}": _READ,
    "/api/v1/events/{event_id}": _READ,
    "/api/v1/contents": _READ,
    "/api/v1/search/content": Need("content", "read"),
    "/api/v1/tail": _READ,
    "/api/v1/sql": _READ,
    "/api/v1/export/events": _READ,
    "/api/v1/export/evidence": _AUDIT,
    "/api/v1/prices/apply": Need("admin", "admin"),
    "/api/v1/budgets": _READ,
    "/api/v1/access-log": Need("audit", "read"),
    "/api/v1/log": _AUDIT,
    "/api/v1/log/state": _AUDIT,
    "/api/v1/log/frontier": _AUDIT,
    "/api/v1/log/window": _AUDIT,
    "/api/v1/log/{tenant:path}/checkpoint": _AUDIT,
    "/api/v1/log/{tenant:path}/tile/{tile:path}": _AUDIT,
    "/api/v1/log/{tenant:path}/proof": _AUDIT,
    "/api/v1/log/{tenant:path}/consistency": _AUDIT,
    "/api/v1/erasures": _AUDIT,
    "/api/v1/erasures/{erasure_id}": _AUDIT,
    "/api/v1/erasures/{erasure_id}/report": _AUDIT,
    "/api/v1/erasures/{erasure_id}/report.pdf": _AUDIT,
    "/api/v1/erasure-register": _AUDIT,
    "/api/v1/records-of-processing": Need("audit", "read", every_tenant=True),
    "/api/v1/erasures/preview": _ERASE,
    "/api/v1/erasures/request": _ERASE,
    "/api/v1/erasures/{erasure_id}/approve": _ERASE,
    "/api/v1/erasures/{erasure_id}/refuse": _ERASE,
    "/api/v1/holds": _AUDIT,
    "/api/v1/holds/place": _ERASE,
    "/api/v1/holds/{hold_id}/release": _ERASE,
    "/api/v1/retention": _AUDIT,
    "/api/v1/retention/preview": _ERASE,
    "/api/v1/retention/run": _ERASE,
    "/api/v1/reviews/{event_id}": _READ,
    "/api/v1/reviews/{event_id}/acts": Need("audit", "admin"),
    "/api/v1/review-days/{day}": _READ,
    "/api/v1/review-days/{day}/signatures": Need("audit", "admin"),
    "/api/v1/policies": Need("ingest", "admin"),
    "/api/services": _READ,
    "/api/services/{service:path}/operations": _READ,
    "/api/operations": _READ,
    "/api/traces": _READ,
    "/api/traces/{trace_id}": _READ,
    "/api/dependencies": _READ,
    "/api/v3/services": _READ,
    "/api/v3/operations": _READ,
    "/api/v3/traces": _READ,
    "/api/v3/traces/{trace_id}": _READ,
    "/api/v3/trace-summaries": _READ,
    "/openapi.json": Need("read", "watch"),
    "/metrics": Need("read", "watch", every_tenant=True),
}
"""By the path of the route, place-holders and all."""

GRPC: Final[dict[str, Need]] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": _INGEST,
    "opentelemetry.proto.collector.logs.v1.LogsService": _INGEST,
    "opentelemetry.proto.collector.metrics.v1.MetricsService": _INGEST,
}
"""By the name of the service."""
