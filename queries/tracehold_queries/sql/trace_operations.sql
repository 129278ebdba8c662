-- question: Which operations does a service have?
-- asked by: engineer
--
-- param service VARCHAR: the service, as trace_services names it
-- param limit BIGINT {1..10000} = 10000: operations at most
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column operation VARCHAR: what a span is called; its type when it has no name fit to be stored openly
-- column events BIGINT: events of that operation
-- column newest_event VARCHAR: the event of it that started last; NULL when no start is known
-- column newest_ns BIGINT [ns since the epoch]: when that was

SELECT
    coalesce(name, type) AS operation,
    count(*) AS events,
    arg_max(event_id, started_at)::VARCHAR AS newest_event,
    max(started_at) AS newest_ns
FROM events
WHERE trace_id IS NOT NULL
  AND coalesce(service, agent, 'tracehold') = $service
  AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
GROUP BY ALL
ORDER BY operation
LIMIT $limit::BIGINT
