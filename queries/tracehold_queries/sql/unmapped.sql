-- question: Which events were stored without being understood?
-- asked by: engineer, platform owner
--
-- param since TIMESTAMP = NULL: only what started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only what started before this moment (UTC)
-- param limit BIGINT {1..10000} = 100: rows at most, the most frequent first
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column source VARCHAR: how they came in: otlp, tracer, engine or file
-- column service VARCHAR: the service that sent them
-- column type VARCHAR: the source's word for what they are
-- column name VARCHAR: the span's name
-- column events BIGINT: how many
-- column runs BIGINT: in how many runs
-- column first_at TIMESTAMP [UTC]: when the first one started
-- column last_at TIMESTAMP [UTC]: when the latest one started
-- column mapping_version VARCHAR: the version of the mapping table that read the latest one; NULL before it was noted

SELECT
    source,
    service,
    type,
    name,
    count(*) AS events,
    count(DISTINCT (tenant, run_id)) AS runs,
    make_timestamp(min(started_at) // 1000) AS first_at,
    make_timestamp(max(started_at) // 1000) AS last_at,
    (SELECT arg_max(version, since) FROM mapping_versions WHERE since <= max(events.received_at)) AS mapping_version
FROM events
WHERE kind = 'other'
  AND source <> 'collector'  -- what people did here is no agent's doing
  AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
  AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
  AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
GROUP BY source, service, type, name
ORDER BY count(*) DESC, source, service, type, name
LIMIT $limit::BIGINT
