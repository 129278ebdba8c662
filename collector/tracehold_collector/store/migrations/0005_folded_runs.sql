-- A row of `run_deltas` that was the only one of its run when they were folded last has a key: the run is read as it
-- stands. Only runs that something was added to since are grouped; to group all of them is what a list of runs takes its
-- time for, a fifth of a second at half a million runs. Two runs of one key do no harm: both are grouped then. The key also
-- finds a run by its id at once.

ALTER TABLE run_deltas ADD COLUMN run_key UBIGINT;   -- md5_number_lower of the run id; NULL for what came since

-- One row each run that is read as it stands, unless its place is in `replaced_runs`.
CREATE VIEW folded_runs AS
SELECT
    rowid                                                       AS place,
    tenant,
    run_id,
    started_at,
    ended_at - started_at                                       AS duration_ns,
    events,
    llm_calls + coalesce(share_calls, 0)                        AS llm_calls,
    tool_calls,
    denials,
    errors,
    coalesce(input_tokens + share_input_tokens, input_tokens, share_input_tokens)     AS input_tokens,
    coalesce(output_tokens + share_output_tokens, output_tokens, share_output_tokens) AS output_tokens,
    coalesce(cost_usd + share_cost_usd, cost_usd, share_cost_usd)                     AS cost_usd,
    unpriced_calls + coalesce(share_unpriced, 0)                AS unpriced_calls,
    root_name                                                   AS name,
    coalesce(end_status, root_status, 'unset')                  AS status,
    agent,
    user_ref,
    session_id,
    service,
    trace_id,
    source,
    received_at
FROM run_deltas
WHERE run_key IS NOT NULL;

-- Of these, the rows of runs that something was added to since: `recent_runs` has them.
CREATE VIEW replaced_runs AS
SELECT rowid AS place
FROM run_deltas
WHERE run_key IN (
        SELECT md5_number_lower(run_id)
        FROM run_deltas
        WHERE run_key IS NULL
    );

-- The runs that something was added to since the last folding.
CREATE VIEW recent_runs AS
SELECT
    tenant,
    run_id,
    -- A start before the year 2000 is in the wrong unit (FR-23): it is the run's only when there is no other.
    coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS started_at,
    max(ended_at) - coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS duration_ns,
    sum(events)::BIGINT                                         AS events,
    (sum(llm_calls) + coalesce(arg_max_null(share_calls, share_at), 0))::BIGINT AS llm_calls,
    sum(tool_calls)::BIGINT                                     AS tool_calls,
    sum(denials)::BIGINT                                        AS denials,
    sum(errors)::BIGINT                                         AS errors,
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
    arg_min(root_name, (root_rank, root_name))                  AS name,
    coalesce(arg_max(end_status, (end_at, end_status)), arg_min(root_status, (root_status_at, root_status)), 'unset') AS status,
    arg_min(agent, (agent_at, agent))                           AS agent,
    min(user_ref)                                               AS user_ref,
    min(session_id)                                             AS session_id,
    min(service)                                                AS service,
    min(trace_id)                                               AS trace_id,
    min(source)                                                 AS source,
    max(received_at)                                            AS received_at
FROM (
    SELECT *
    FROM run_deltas
    WHERE rowid IN (SELECT place FROM replaced_runs)
    UNION ALL
    SELECT *
    FROM run_deltas
    WHERE run_key IS NULL
)
GROUP BY tenant, run_id;

CREATE OR REPLACE VIEW runs AS
SELECT * EXCLUDE (place)
FROM folded_runs
ANTI JOIN replaced_runs USING (place)
UNION ALL
SELECT *
FROM recent_runs;
