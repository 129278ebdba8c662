-- question: Which services do the stored spans belong to?
-- asked by: engineer
--
-- param limit BIGINT {1..10000} = 10000: names at most
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column service VARCHAR: the service; the agent of spans without one; tracehold for spans with neither
-- column events BIGINT: events that belong to it

SELECT
    coalesce(service, agent, 'tracehold') AS service,
    sum(events)::BIGINT AS events
FROM (
    -- Two short names a row are cheaper to group by than to join into one first.
    SELECT service, agent, count(*) AS events
    FROM events
    WHERE trace_id IS NOT NULL
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
    GROUP BY service, agent
)
GROUP BY ALL
ORDER BY service
LIMIT $limit::BIGINT
