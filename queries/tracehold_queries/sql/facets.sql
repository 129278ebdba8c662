-- question: Which agents, services, tenants and statuses can I filter by?
-- asked by: engineer, auditor
--
-- param since TIMESTAMP = NULL: only what started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only what started before this moment (UTC)
-- param limit BIGINT {1..1000} = 100: values a field at most, the most frequent first
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column field VARCHAR: agent, service, status or tenant
-- column value VARCHAR: what it may be
-- column runs BIGINT: runs that have it

WITH chosen AS (
    SELECT agent, service, status, tenant
    FROM runs
    WHERE true
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
listed AS (
    UNPIVOT chosen ON agent, service, status, tenant INTO NAME field VALUE value
)
SELECT field, value, count(*) AS runs
FROM listed
GROUP BY field, value
QUALIFY row_number() OVER (PARTITION BY field ORDER BY count(*) DESC, value) <= $limit::BIGINT
ORDER BY field, runs DESC, value
