-- question: Which policies were put in force for which agent, when, and by whom?
-- asked by: auditor
--
-- param agent VARCHAR = NULL: only those of this agent
-- param digest VARCHAR = NULL: only this policy, "sha256:..."
-- param since TIMESTAMP = NULL: only what was recorded at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only what was recorded before this moment (UTC)
-- param limit BIGINT {1..10000} = 100: rows at most
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column at TIMESTAMP [UTC]: from when on it was in force, as it was recorded
-- column tenant VARCHAR: whose agent it is
-- column agent VARCHAR: the agent
-- column policy_digest VARCHAR: the policy, "sha256:..."
-- column previous_digest VARCHAR: the one that was in force before; NULL for the first, or when it was not told
-- column author VARCHAR: who put it in force: a login of this collector, or what the agent's program said
-- column author_is VARCHAR: login: the key that recorded it here; claim: what the agent's program said
-- column event_id VARCHAR: the event that records it; its content holds the policy

SELECT
    make_timestamp(started_at // 1000) AS at,
    tenant,
    agent,
    attributes ->> 'policy_digest' AS policy_digest,
    coalesce(
        attributes ->> '$."tracehold.policy.previous"',
        lag(attributes ->> 'policy_digest') OVER (PARTITION BY tenant, agent ORDER BY started_at, received_at, event_id)
    ) AS previous_digest,
    decided_by AS author,
    CASE WHEN source = 'collector' THEN 'login' ELSE 'claim' END AS author_is,
    event_id::VARCHAR AS event_id
FROM events
WHERE type = 'policy_changed'
  AND ($agent::VARCHAR IS NULL OR agent = $agent)
  AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
QUALIFY ($digest::VARCHAR IS NULL OR policy_digest = $digest)
    AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
    AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
ORDER BY started_at DESC NULLS LAST, received_at DESC, events.event_id DESC
LIMIT $limit::BIGINT
