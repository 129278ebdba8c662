-- question: Which service calls which, and how often?
-- asked by: engineer
--
-- param since_ns BIGINT = NULL: only spans that started at or after this moment (ns since the epoch)
-- param until_ns BIGINT = NULL: only spans that started at or before this moment (ns since the epoch)
-- param service VARCHAR = NULL: only links from or to this service
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column parent VARCHAR: the service that calls
-- column child VARCHAR: the service that is called, never the same
-- column calls BIGINT: spans of the child whose parent is a span of the parent

WITH chosen AS (
    SELECT trace_id, tenant, span_id, parent_span_id, coalesce(service, agent, 'tracehold') AS service
    FROM events
    WHERE trace_id IS NOT NULL
      AND span_id IS NOT NULL
      AND ($since_ns::BIGINT IS NULL OR started_at >= $since_ns)
      AND ($until_ns::BIGINT IS NULL OR started_at <= $until_ns)
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
-- Most traces are one service's own: without them the join is small.
mixed AS (
    SELECT trace_id, tenant
    FROM chosen
    GROUP BY trace_id, tenant
    HAVING min(service) <> max(service)
),
spans AS MATERIALIZED (
    SELECT
        trace_id,
        tenant,
        span_id,
        any_value(nullif(parent_span_id, span_id)) AS parent_span_id,
        min(service) AS service
    FROM chosen
    SEMI JOIN mixed USING (trace_id, tenant)
    GROUP BY trace_id, tenant, span_id
)
SELECT
    above.service AS parent,
    below.service AS child,
    count(*) AS calls
FROM spans AS below
JOIN spans AS above
    ON above.trace_id = below.trace_id AND above.tenant = below.tenant AND above.span_id = below.parent_span_id
WHERE above.service <> below.service
  AND ($service::VARCHAR IS NULL OR $service IN (above.service, below.service))
GROUP BY above.service, below.service
ORDER BY calls DESC, parent, child
