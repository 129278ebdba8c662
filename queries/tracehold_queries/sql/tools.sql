-- question: Which tools are used, how often do they fail, and how often are they stopped?
-- asked by: engineer, auditor
--
-- param since TIMESTAMP = NULL: only what started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only what started before this moment (UTC)
-- param agent VARCHAR = NULL: only events of this agent
-- param limit BIGINT {1..10000} = 100: rows at most, the most used first
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column tool VARCHAR: the tool; NULL when its name was not fit to be stored openly
-- column calls BIGINT: calls that ran
-- column errors BIGINT: calls that ran and failed
-- column blocked BIGINT: attempts that a gate stopped; nothing ran
-- column p50_ms DOUBLE [ms]: half of the calls took no longer; NULL when no duration is known
-- column p99_ms DOUBLE [ms]: all but one in a hundred took no longer
-- column last_used_at TIMESTAMP [UTC]: when it was last called or tried

WITH uses AS (
    SELECT
        name AS tool,
        kind = 'tool' AND status <> 'blocked' AS ran,
        status,
        started_at,
        duration_ns / 1e6 AS duration_ms
    FROM events
    -- A call whose sub-agent waits is entered again later, and counted then.
    WHERE status NOT IN ('started', 'suspended')
      AND source <> 'collector'  -- what people did here is no agent's doing
      -- A stopped call is an event of kind gate (DEC-01), or a tool span that says blocked. A gate without a tool, such as
      -- a budget, has no name.
      AND (kind = 'tool' OR (kind = 'gate' AND status = 'blocked' AND name IS NOT NULL))
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
)
SELECT
    tool,
    count(*) FILTER (ran) AS calls,
    count(*) FILTER (ran AND status = 'error') AS errors,
    count(*) FILTER (NOT ran) AS blocked,
    quantile_cont(duration_ms, 0.5) FILTER (ran) AS p50_ms,
    quantile_cont(duration_ms, 0.99) FILTER (ran) AS p99_ms,
    make_timestamp(max(started_at) // 1000) AS last_used_at
FROM uses
GROUP BY tool
ORDER BY calls DESC, blocked DESC, tool
LIMIT $limit::BIGINT
