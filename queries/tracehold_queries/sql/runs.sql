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

WITH keys AS (
    SELECT
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
    FROM runs
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
page AS MATERIALIZED (
    SELECT
        *,
        row_number() OVER () AS place
    FROM (
        SELECT tenant, run_id
        FROM keys
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
-- The fold of the view `runs`, repeated: a filter that comes out of a join is not pushed below the view's grouping, and
-- folding every column of every run takes four times as long as folding this page. A test holds the two equal.
folded AS (
    SELECT
        tenant,
        run_id,
        coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS started_at,
        max(ended_at) - coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS duration_ns,
        sum(events)::BIGINT AS events,
        (sum(llm_calls) + coalesce(arg_max_null(share_calls, share_at), 0))::BIGINT AS llm_calls,
        sum(tool_calls)::BIGINT AS tool_calls,
        sum(denials)::BIGINT AS denials,
        sum(errors)::BIGINT AS errors,
        coalesce(
            sum(input_tokens) + arg_max_null(share_input_tokens, share_at),
            sum(input_tokens),
            arg_max_null(share_input_tokens, share_at)
        )::BIGINT AS input_tokens,
        coalesce(
            sum(output_tokens) + arg_max_null(share_output_tokens, share_at),
            sum(output_tokens),
            arg_max_null(share_output_tokens, share_at)
        )::BIGINT AS output_tokens,
        coalesce(
            sum(cost_usd) + arg_max_null(share_cost_usd, share_at),
            sum(cost_usd),
            arg_max_null(share_cost_usd, share_at)
        ) AS cost_usd,
        (sum(unpriced_calls) + coalesce(arg_max_null(share_unpriced, share_at), 0))::BIGINT AS unpriced_calls,
        arg_min(root_name, root_rank) AS name,
        coalesce(arg_max(end_status, end_at), arg_min(root_status, root_status_at), 'unset') AS status,
        arg_min(agent, agent_at) AS agent,
        min(user_ref) AS user_ref,
        min(session_id) AS session_id,
        min(service) AS service,
        min(trace_id) AS trace_id,
        min(source) AS source
    FROM run_deltas
    SEMI JOIN page USING (tenant, run_id)
    GROUP BY tenant, run_id
)
SELECT
    folded.run_id,
    folded.tenant,
    folded.name,
    folded.agent,
    folded.status,
    make_timestamp(folded.started_at // 1000) AS started_at,
    folded.started_at AS started_at_ns,
    folded.duration_ns,
    folded.events,
    folded.llm_calls,
    folded.tool_calls,
    folded.denials,
    folded.errors,
    folded.input_tokens,
    folded.output_tokens,
    folded.cost_usd,
    folded.unpriced_calls,
    folded.user_ref,
    folded.session_id,
    folded.service,
    folded.trace_id,
    folded.source,
    (SELECT count(*) FROM keys) AS total
FROM page
JOIN folded USING (tenant, run_id)
ORDER BY page.place
