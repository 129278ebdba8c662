-- Folds the deltas of runs that something was added to since the last time into one each. Every column folds the way the
-- view `runs` reads it, so that the view gives the same answer before and after. Of two words for one time the lesser one
-- in the alphabet counts (of two ends the greater): not the one that came first, since folding puts rows elsewhere.
CREATE OR REPLACE TEMP TABLE folded AS
SELECT
    tenant,
    run_id,
    coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS started_at,
    max(ended_at)                                       AS ended_at,
    sum(events)::BIGINT                                 AS events,
    sum(llm_calls)::BIGINT                              AS llm_calls,
    sum(tool_calls)::BIGINT                             AS tool_calls,
    sum(denials)::BIGINT                                AS denials,
    sum(errors)::BIGINT                                 AS errors,
    sum(input_tokens)::BIGINT                           AS input_tokens,
    sum(output_tokens)::BIGINT                          AS output_tokens,
    sum(cost_usd)                                       AS cost_usd,
    sum(unpriced_calls)::BIGINT                         AS unpriced_calls,
    min(root_rank)                                      AS root_rank,
    arg_min(root_name, (root_rank, root_name))          AS root_name,
    arg_min(root_status, (root_status_at, root_status)) AS root_status,
    min(root_status_at)                                 AS root_status_at,
    arg_min(agent, (agent_at, agent))                   AS agent,
    min(agent_at)                                       AS agent_at,
    max(end_at)                                         AS end_at,
    arg_max(end_status, (end_at, end_status))           AS end_status,
    min(user_ref)                                       AS user_ref,
    min(session_id)                                     AS session_id,
    min(service)                                        AS service,
    min(trace_id)                                       AS trace_id,
    min(source)                                         AS source,
    sum(telling)::BIGINT                                AS telling,
    max(share_at)                                       AS share_at,
    arg_max_null(share_calls, share_at)                 AS share_calls,
    arg_max_null(share_input_tokens, share_at)          AS share_input_tokens,
    arg_max_null(share_output_tokens, share_at)         AS share_output_tokens,
    arg_max_null(share_cost_usd, share_at)              AS share_cost_usd,
    arg_max_null(share_unpriced, share_at)              AS share_unpriced,
    max(received_at)                                    AS received_at,
    md5_number_lower(run_id)                            AS run_key
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

DELETE FROM run_deltas WHERE run_key IS NULL OR run_key IN (SELECT run_key FROM folded);

INSERT INTO run_deltas BY NAME SELECT * FROM folded;

DROP TABLE folded;
