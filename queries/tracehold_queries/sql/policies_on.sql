-- question: What was each agent allowed on a given day, since when, by whom, and which policies judged its calls?
-- asked by: auditor
--
-- param day DATE: the day (UTC)
-- param agent VARCHAR = NULL: only this agent
-- param limit BIGINT {1..10000} = 100: rows at most
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column tenant VARCHAR: whose agent it is
-- column agent VARCHAR: the agent
-- column policy_digest VARCHAR: the policy, "sha256:..."
-- column since TIMESTAMP [UTC]: since when it was in force, as it was recorded; NULL when it judged calls while nobody
--     had recorded it, or another one was in force
-- column until TIMESTAMP [UTC]: when the next one was put in force; NULL while none was
-- column author VARCHAR: who put it in force
-- column author_is VARCHAR: login: the key that recorded it here; claim: what the agent's program said
-- column previous_digest VARCHAR: the one before
-- column decisions BIGINT: events of that day that were judged by it: calls allowed, stopped or left waiting
-- column denials BIGINT: of these, denials
-- column first_used_at TIMESTAMP [UTC]: the first of them that day
-- column last_used_at TIMESTAMP [UTC]: the last of them that day
-- column event_id VARCHAR: the event that records it; its content holds the policy

WITH recorded AS MATERIALIZED (
    SELECT
        tenant,
        agent,
        event_id,
        decided_by AS author,
        CASE WHEN source = 'collector' THEN 'login' ELSE 'claim' END AS author_is,
        attributes ->> 'policy_digest' AS policy_digest,
        started_at AS since_ns,
        lead(started_at) OVER own AS until_ns,
        coalesce(
            attributes ->> '$."tracehold.policy.previous"',
            lag(attributes ->> 'policy_digest') OVER own
        ) AS previous_digest
    FROM events
    WHERE type = 'policy_changed'
      AND started_at IS NOT NULL
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
    WINDOW own AS (PARTITION BY tenant, agent ORDER BY started_at, received_at, event_id)
),
in_force AS (
    SELECT *
    FROM recorded
    WHERE since_ns < epoch_ns($day::DATE::TIMESTAMP + INTERVAL 1 DAY)
      AND (until_ns IS NULL OR until_ns > epoch_ns($day::DATE::TIMESTAMP))
      AND policy_digest IS NOT NULL
),
-- Each call of the day with the policy that judged it, and the record by which that was in force then, if there is one.
judged AS MATERIALIZED (
    SELECT
        calls.tenant,
        calls.agent,
        calls.policy_digest,
        calls.started_at,
        calls.status,
        in_force.event_id
    FROM (
        SELECT tenant, agent, attributes ->> 'policy_digest' AS policy_digest, started_at, status
        FROM events
        WHERE started_at >= epoch_ns($day::DATE::TIMESTAMP)
          AND started_at < epoch_ns($day::DATE::TIMESTAMP + INTERVAL 1 DAY)
          AND contains(attributes::VARCHAR, 'policy_digest')
          AND type <> 'policy_changed'
          AND source <> 'collector'
          AND ($agent::VARCHAR IS NULL OR agent = $agent)
          AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
          AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
    ) AS calls
    LEFT JOIN in_force
           ON in_force.tenant = calls.tenant
          AND in_force.agent IS NOT DISTINCT FROM calls.agent
          AND in_force.policy_digest = calls.policy_digest
          AND calls.started_at >= in_force.since_ns
          AND (in_force.until_ns IS NULL OR calls.started_at < in_force.until_ns)
    WHERE calls.policy_digest IS NOT NULL
),
used AS (
    SELECT
        tenant,
        agent,
        policy_digest,
        event_id,
        count(*) AS decisions,
        count(*) FILTER (status = 'blocked') AS denials,
        min(started_at) AS first_ns,
        max(started_at) AS last_ns
    FROM judged
    GROUP BY ALL
)
SELECT
    coalesce(in_force.tenant, used.tenant) AS tenant,
    coalesce(in_force.agent, used.agent) AS agent,
    coalesce(in_force.policy_digest, used.policy_digest) AS policy_digest,
    make_timestamp(in_force.since_ns // 1000) AS since,
    make_timestamp(in_force.until_ns // 1000) AS until,
    in_force.author,
    in_force.author_is,
    in_force.previous_digest,
    coalesce(used.decisions, 0) AS decisions,
    coalesce(used.denials, 0) AS denials,
    make_timestamp(used.first_ns // 1000) AS first_used_at,
    make_timestamp(used.last_ns // 1000) AS last_used_at,
    in_force.event_id::VARCHAR AS event_id
FROM in_force
FULL JOIN used
       ON used.tenant = in_force.tenant
      AND used.event_id = in_force.event_id
ORDER BY tenant, agent NULLS LAST, since NULLS FIRST, policy_digest
LIMIT $limit::BIGINT
