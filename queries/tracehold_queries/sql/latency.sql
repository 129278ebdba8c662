-- question: What is slow?
-- asked by: engineer, platform owner
--
-- param since TIMESTAMP = NULL: only what started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only what started before this moment (UTC)
-- param kind VARCHAR = NULL: only events of this kind, such as llm or tool
-- param agent VARCHAR = NULL: only events of this agent
-- param limit BIGINT {1..10000} = 100: rows at most, the most frequent first
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column kind VARCHAR: our word for what it is
-- column name VARCHAR: a tool's name, or the span's
-- column model VARCHAR: the model called
-- column count BIGINT: events with a known duration; without one, an event is not here
-- column errors BIGINT: how many of them failed
-- column p50_ms DOUBLE [ms]: half took no longer
-- column p90_ms DOUBLE [ms]: nine in ten took no longer
-- column p99_ms DOUBLE [ms]: all but one in a hundred took no longer
-- column max_ms DOUBLE [ms]: the longest

WITH timed AS (
    SELECT kind, name, model, status, duration_ns / 1e6 AS duration_ms
    FROM events
    WHERE duration_ns IS NOT NULL
      AND source <> 'collector'  -- what people did here is no agent's doing
      -- What a gate stopped did not run: its time would flatter the tool.
      AND status NOT IN ('started', 'blocked')
      AND ($kind::VARCHAR IS NULL OR kind = $kind)
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
measured AS (
    SELECT
        kind,
        name,
        model,
        count(*) AS count,
        count(*) FILTER (status = 'error') AS errors,
        quantile_cont(duration_ms, [0.5, 0.9, 0.99]) AS quantiles,
        max(duration_ms) AS max_ms
    FROM timed
    GROUP BY kind, name, model
)
SELECT
    kind,
    name,
    model,
    count,
    errors,
    quantiles[1] AS p50_ms,
    quantiles[2] AS p90_ms,
    quantiles[3] AS p99_ms,
    max_ms
FROM measured
ORDER BY count DESC, kind, name, model
LIMIT $limit::BIGINT
