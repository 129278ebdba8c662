-- question: Which runs were recorded, and how did they go?
-- asked by: engineer, auditor, platform owner
--
-- param since TIMESTAMP = NULL: only runs that started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only runs that started before this moment (UTC)
-- param status VARCHAR {started, ok, error, blocked, suspended, cancelled, unset} = NULL: only runs of this status
-- param agent VARCHAR = NULL: only runs of this agent
-- param service VARCHAR = NULL: only runs of this service
-- param session_id VARCHAR = NULL: only runs of this session (the keyed pseudonym)
-- param user_ref VARCHAR = NULL: only runs about this user (the keyed pseudonym)
-- param has_denials BOOLEAN = NULL: true: only runs in which a gate stopped something; false: only the others
-- param search VARCHAR = NULL: only runs whose id, name or agent contains this text; upper and lower case are the same
-- param sort VARCHAR {started_at, duration_ns, events, denials, errors, tokens, cost_usd} = started_at: sort by this;
--     tokens are input and output together
-- param direction VARCHAR {desc, asc} = desc: largest or newest first, or the other way round
-- param limit BIGINT {1..1000} = 50: rows a page
-- param offset BIGINT {0..} = 0: rows to leave out before the page
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column run_id VARCHAR: the run
-- column tenant VARCHAR: whose it is
-- column name VARCHAR: the root's name; NULL when the root is not known or its name was not fit to be stored openly
-- column agent VARCHAR: the agent that ran it
-- column status VARCHAR: how it ended; started while it runs
-- column started_at TIMESTAMP [UTC]: when its first event started
-- column started_at_ns BIGINT [ns since the epoch]: the same, exactly
-- column duration_ns BIGINT [ns]: from the first start to the last end
-- column events BIGINT: how many events were recorded
-- column llm_calls BIGINT: calls of a model
-- column tool_calls BIGINT: calls of a tool that ran
-- column denials BIGINT: decisions that stopped something
-- column errors BIGINT: events that failed
-- column input_tokens BIGINT [tokens]: cached ones included; NULL when none were reported
-- column output_tokens BIGINT [tokens]: reasoning included; NULL when none were reported
-- column cost_usd DOUBLE [USD]: sum of the known costs; NULL when none is known
-- column unpriced_calls BIGINT: model calls without a known cost; when not 0, the cost is a lower bound
-- column user_ref VARCHAR: the user it is about, a keyed pseudonym
-- column session_id VARCHAR: the session it belongs to, a keyed pseudonym
-- column service VARCHAR: the service that sent it
-- column trace_id VARCHAR: its W3C trace id
-- column source VARCHAR: how it came in: otlp, tracer, engine or file
-- column total BIGINT: rows on all pages together

-- A run is read as it stands, unless something was added to it since the collector last folded it: to group all of them
-- would take a fifth of a second at half a million runs.
WITH recent AS MATERIALIZED (
    SELECT *
    FROM recent_runs
),
keys AS NOT MATERIALIZED (
    SELECT
        place,
        tenant,
        run_id,
        started_at,
        CASE $sort
            WHEN 'duration_ns' THEN duration_ns
            WHEN 'events' THEN events
            WHEN 'denials' THEN denials
            WHEN 'errors' THEN errors
            WHEN 'tokens' THEN coalesce(input_tokens + output_tokens, input_tokens, output_tokens)
            WHEN 'cost_usd' THEN cost_usd
        END::DOUBLE AS sort_value
    FROM (
        SELECT *
        FROM folded_runs
        ANTI JOIN replaced_runs USING (place)
        UNION ALL
        SELECT NULL AS place, *
        FROM recent
    )
    WHERE ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($status::VARCHAR IS NULL OR status = $status)
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
      AND ($service::VARCHAR IS NULL OR service = $service)
      AND ($session_id::VARCHAR IS NULL OR session_id = $session_id)
      AND ($user_ref::VARCHAR IS NULL OR user_ref = $user_ref)
      AND ($has_denials::BOOLEAN IS NULL OR (denials > 0) = $has_denials)
      AND ($search::VARCHAR IS NULL
           OR contains(lower(concat_ws(chr(10), run_id, name, agent)), lower($search::VARCHAR)))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
-- Newest first is what a list begins with: to sort by the time alone, and the few that are left by all, takes a third of
-- the time. NULL when there are not as many runs with a time, or another order is asked for.
oldest AS MATERIALIZED (
    SELECT started_at
    FROM keys
    WHERE $sort = 'started_at'
      AND $direction = 'desc'
    ORDER BY started_at DESC NULLS LAST
    LIMIT 1
    OFFSET $limit::BIGINT + least($offset::BIGINT, 9223372036854000000) - 1  -- a larger one would not fit 64 bits
),
candidates AS NOT MATERIALIZED (
    SELECT *
    FROM keys
    WHERE started_at >= coalesce((SELECT started_at FROM oldest), -9223372036854775808)
    UNION ALL
    SELECT *
    FROM keys
    WHERE started_at IS NULL
      AND (SELECT started_at FROM oldest) IS NULL
),
page AS MATERIALIZED (
    SELECT
        *,
        row_number() OVER () AS place
    FROM (
        SELECT place AS row, tenant, run_id
        FROM candidates
        ORDER BY
            CASE WHEN $direction = 'desc' THEN sort_value END DESC NULLS LAST,
            CASE WHEN $direction = 'asc' THEN sort_value END ASC NULLS LAST,
            CASE WHEN $direction = 'asc' AND $sort = 'started_at' THEN started_at END ASC NULLS LAST,
            started_at DESC NULLS LAST,
            run_id,
            tenant
        LIMIT $limit::BIGINT
        OFFSET $offset::BIGINT
    )
),
-- Whole, for this page only.
chosen AS (
    SELECT *
    FROM folded_runs
    WHERE place IN (SELECT row FROM page)
    UNION ALL
    SELECT NULL AS place, *
    FROM recent
    SEMI JOIN page USING (tenant, run_id)
)
SELECT
    chosen.run_id,
    chosen.tenant,
    chosen.name,
    chosen.agent,
    chosen.status,
    make_timestamp(chosen.started_at // 1000) AS started_at,
    chosen.started_at AS started_at_ns,
    chosen.duration_ns,
    chosen.events,
    chosen.llm_calls,
    chosen.tool_calls,
    chosen.denials,
    chosen.errors,
    chosen.input_tokens,
    chosen.output_tokens,
    chosen.cost_usd,
    chosen.unpriced_calls,
    chosen.user_ref,
    chosen.session_id,
    chosen.service,
    chosen.trace_id,
    chosen.source,
    (SELECT count(*) FROM keys) AS total
FROM page
JOIN chosen USING (tenant, run_id)
ORDER BY page.place
