-- question: Which traces have a span like this, newest first?
-- asked by: engineer
--
-- param service VARCHAR = NULL: only spans of this service, as trace_services names it
-- param operation VARCHAR = NULL: only spans of this operation, as trace_operations names it
-- param since_ns BIGINT = NULL: only spans that started at or after this moment (ns since the epoch)
-- param until_ns BIGINT = NULL: only spans that started at or before this moment (ns since the epoch)
-- param min_duration_ns BIGINT {0..} = NULL: only spans that took at least this long; a point in time takes 0
-- param max_duration_ns BIGINT {0..} = NULL: only spans that took at most this long
-- param event_id VARCHAR = NULL: only this event
-- param run_id VARCHAR = NULL: only spans of this run
-- param kind VARCHAR = NULL: only spans of this kind
-- param type VARCHAR = NULL: only spans whose source calls them so
-- param statuses VARCHAR[] = NULL: only spans of one of these statuses
-- param agent VARCHAR = NULL: only spans of this agent
-- param model VARCHAR = NULL: only calls of this model
-- param provider VARCHAR = NULL: only calls of this provider
-- param decision VARCHAR = NULL: only what a gate decided so
-- param decided_by VARCHAR = NULL: only what this person or gate decided
-- param rule VARCHAR = NULL: only what this rule decided
-- param error_type VARCHAR = NULL: only this kind of error
-- param user_ref VARCHAR = NULL: only spans about this user (the keyed pseudonym)
-- param session_id VARCHAR = NULL: only spans of this session (the keyed pseudonym)
-- param source VARCHAR = NULL: only spans that came in this way: otlp, tracer, engine or file
-- param attribute_paths VARCHAR[] = NULL: JSON paths in the allow-listed attributes, such as $.finish_reason
-- param attribute_values VARCHAR[] = NULL: what stands there, as text, in the same order
-- param each BOOLEAN = false: one row a span that matches, instead of one a trace
-- param limit BIGINT {1..20000} = 20: rows at most
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column trace_id VARCHAR: the trace
-- column tenant VARCHAR: whose it is
-- column event_id VARCHAR: the event that matches; NULL in a row of a trace
-- column newest_ns BIGINT [ns since the epoch]: when it started; of a trace, the last of its spans that match
-- column spans BIGINT: events that match


WITH matching AS NOT MATERIALIZED (
    SELECT trace_id, tenant, event_id, started_at
    FROM events
    WHERE trace_id IS NOT NULL
      AND ($service::VARCHAR IS NULL OR coalesce(service, agent, 'tracehold') = $service)
      AND ($operation::VARCHAR IS NULL OR coalesce(name, type) = $operation)
      AND ($since_ns::BIGINT IS NULL OR started_at >= $since_ns)
      AND ($until_ns::BIGINT IS NULL OR started_at <= $until_ns)
      AND ($min_duration_ns::BIGINT IS NULL OR coalesce(duration_ns, 0) >= $min_duration_ns)
      AND ($max_duration_ns::BIGINT IS NULL OR coalesce(duration_ns, 0) <= $max_duration_ns)
      -- An opening half has no duration of its own; only its ending says how long the span took.
      AND (
          ($min_duration_ns::BIGINT IS NULL AND $max_duration_ns::BIGINT IS NULL) OR status <> 'started'
      )
      AND ($event_id::VARCHAR IS NULL OR event_id = try_cast($event_id AS UUID))
      AND ($run_id::VARCHAR IS NULL OR run_id = $run_id)
      AND ($kind::VARCHAR IS NULL OR kind = $kind)
      AND ($type::VARCHAR IS NULL OR type = $type)
      AND ($statuses::VARCHAR[] IS NULL OR list_contains($statuses::VARCHAR[], status))
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
      AND ($model::VARCHAR IS NULL OR model = $model)
      AND ($provider::VARCHAR IS NULL OR provider = $provider)
      AND ($decision::VARCHAR IS NULL OR decision = $decision)
      AND ($decided_by::VARCHAR IS NULL OR decided_by = $decided_by)
      AND ($rule::VARCHAR IS NULL OR rule = $rule)
      AND ($error_type::VARCHAR IS NULL OR error_type = $error_type)
      AND ($user_ref::VARCHAR IS NULL OR user_ref = $user_ref)
      AND ($session_id::VARCHAR IS NULL OR session_id = $session_id)
      AND ($source::VARCHAR IS NULL OR source = $source)
      AND (
          $attribute_paths::VARCHAR[] IS NULL
          OR json_extract_string(attributes, $attribute_paths::VARCHAR[]) = $attribute_values::VARCHAR[]
      )
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
-- Two branches of which the planner drops one: to find the newest spans needs no grouping.
found AS (
    (
        SELECT trace_id, tenant, event_id, started_at AS newest_ns, 1 AS spans
        FROM matching
        WHERE $each::BOOLEAN
        ORDER BY newest_ns DESC NULLS LAST, trace_id, tenant, event_id
        LIMIT $limit::BIGINT
    )
    UNION ALL
    (
        SELECT trace_id, tenant, NULL, max(started_at) AS newest_ns, count(*) AS spans
        FROM matching
        WHERE NOT $each::BOOLEAN
        GROUP BY trace_id, tenant
        ORDER BY newest_ns DESC NULLS LAST, trace_id, tenant
        LIMIT $limit::BIGINT
    )
)
SELECT trace_id, tenant, event_id::VARCHAR AS event_id, newest_ns, spans
FROM found
ORDER BY newest_ns DESC NULLS LAST, trace_id, tenant, event_id
