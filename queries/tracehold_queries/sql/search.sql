-- question: Which events carry a word in their name, type, error, rule, agent, model or service?
-- asked by: engineer, auditor
--
-- param text VARCHAR: what to look for, anywhere in a word, without case
-- param since TIMESTAMP = NULL: only events that started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only events that started before this moment (UTC)
-- param run_id VARCHAR = NULL: only events of this run
-- param kind VARCHAR = NULL: only events of this kind
-- param name VARCHAR = NULL: only events of this name
-- param agent VARCHAR = NULL: only events of this agent
-- param model VARCHAR = NULL: only events of this model
-- param limit BIGINT {1..10000} = 100: rows at most, the newest first
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column event_id VARCHAR: the event
-- column run_id VARCHAR: the run it belongs to
-- column at TIMESTAMP [UTC]: when it started; NULL when unknown
-- column kind VARCHAR: what it is
-- column type VARCHAR: the source's word
-- column name VARCHAR: what a waterfall calls it
-- column status VARCHAR: how it ended
-- column error_type VARCHAR: what went wrong
-- column rule VARCHAR: the rule that decided
-- column agent VARCHAR: whose step it is
-- column model VARCHAR: the model it asked

SELECT
    event_id::VARCHAR AS event_id,
    run_id,
    make_timestamp(started_at // 1000) AS at,
    kind,
    type,
    name,
    status,
    error_type,
    rule,
    agent,
    model
FROM events
WHERE (
        contains(lower(name), lower($text))
        OR contains(lower(type), lower($text))
        OR contains(lower(error_type), lower($text))
        OR contains(lower(rule), lower($text))
        OR contains(lower(agent), lower($text))
        OR contains(lower(model), lower($text))
        OR contains(lower(service), lower($text))
        OR run_id = $text
    )
  AND source <> 'collector'  -- what people did here is no agent's doing
  AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
  AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
  AND ($run_id::VARCHAR IS NULL OR run_id = $run_id)
  AND ($kind::VARCHAR IS NULL OR kind = $kind)
  AND ($name::VARCHAR IS NULL OR name = $name)
  AND ($agent::VARCHAR IS NULL OR agent = $agent)
  AND ($model::VARCHAR IS NULL OR model = $model)
  AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
ORDER BY started_at DESC NULLS LAST, event_id
LIMIT $limit::BIGINT
