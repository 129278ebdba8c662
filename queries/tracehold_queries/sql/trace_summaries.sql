-- question: How large is each of these traces, which services are in it, and how much of it failed?
-- asked by: engineer
--
-- param trace_ids VARCHAR[]: the traces
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column trace_id VARCHAR: the trace
-- column tenant VARCHAR: whose it is
-- column service VARCHAR: one of its services; a row each
-- column spans BIGINT: spans of this service; a start and its end are one
-- column errors BIGINT: those that ended in an error
-- column orphans BIGINT: those whose parent is named and not in the trace
-- column started_ns BIGINT [ns since the epoch]: when the first of them started
-- column ended_ns BIGINT [ns since the epoch]: when the last of them ended, as far as known
-- column root_rank BIGINT: orders the roots of all services of a trace: the smallest is the root of the trace
-- column root_operation VARCHAR: the operation of the first root of this service, else of its first span

WITH
-- Rows lie in the order they came in: with these bounds the wide columns are read where the traces are, only.
bounds AS MATERIALIZED (
    SELECT min(received_at) AS first_ns, max(received_at) AS last_ns
    FROM events
    WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
),
ranked AS (
    SELECT
        *,
        coalesce(span_id, event_id::VARCHAR) AS span,
        -- As in waterfall: of a span's events, the one that tells most.
        row_number() OVER (
            ORDER BY
                status = 'started',
                duration_ns IS NULL,
                started_at DESC NULLS LAST,
                seq DESC NULLS LAST,
                event_id
        ) AS rank
    FROM events
    JOIN bounds ON events.received_at BETWEEN bounds.first_ns AND bounds.last_ns
    WHERE trace_id IN (SELECT unnest($trace_ids::VARCHAR[]))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
folded AS MATERIALIZED (
    SELECT
        trace_id,
        tenant,
        span,
        nullif(arg_min(parent_span_id, rank), span) AS parent,
        coalesce(arg_min(service, rank), arg_min(agent, rank), 'tracehold') AS service,
        coalesce(arg_min(name, rank), arg_min(type, rank)) AS operation,
        arg_min(status, rank) AS status,
        min(started_at) AS started_at,
        max(started_at + coalesce(duration_ns, 0)) AS ended_at
    FROM ranked
    GROUP BY trace_id, tenant, span
),
spans AS (
    SELECT
        folded.*,
        folded.parent IS NOT NULL AND above.span IS NULL AS orphan,
        row_number() OVER (
            ORDER BY above.span IS NOT NULL, folded.parent IS NOT NULL, folded.started_at NULLS LAST, folded.span
        ) AS root_rank
    FROM folded
    LEFT JOIN folded AS above
        ON above.trace_id = folded.trace_id AND above.tenant = folded.tenant AND above.span = folded.parent
)
SELECT
    trace_id,
    tenant,
    service,
    count(*) AS spans,
    count_if(status = 'error')::BIGINT AS errors,
    count_if(orphan)::BIGINT AS orphans,
    min(started_at) AS started_ns,
    max(ended_at) AS ended_ns,
    min(root_rank) AS root_rank,
    arg_min(operation, root_rank) AS root_operation
FROM spans
GROUP BY trace_id, tenant, service
ORDER BY trace_id, tenant, service
