-- Adds what the staged rows say about their runs. Only model calls carry spend; an opening half (`started`) is not
-- counted again when its end comes. A row without a parent is a root and names the run; 2^62 sets the others behind.
INSERT INTO run_deltas BY NAME
SELECT
    tenant,
    run_id,
    min(started_at)                                                                 AS started_at,
    max(started_at + coalesce(duration_ns, 0))                                      AS ended_at,
    count(*)                                                                        AS events,
    count(*) FILTER (kind = 'llm' AND status <> 'started')                          AS llm_calls,
    count(*) FILTER (kind = 'tool' AND status NOT IN ('started', 'blocked'))        AS tool_calls,
    count(*) FILTER (status = 'blocked' AND decision IS NOT NULL)                   AS denials,
    count(*) FILTER (status = 'error')                                              AS errors,
    (sum(input_tokens) FILTER (kind = 'llm' AND status <> 'started'))::BIGINT       AS input_tokens,
    (sum(output_tokens) FILTER (kind = 'llm' AND status <> 'started'))::BIGINT      AS output_tokens,
    sum(cost_usd) FILTER (kind = 'llm' AND status <> 'started')                     AS cost_usd,
    count(*) FILTER (kind = 'llm' AND status <> 'started' AND cost_usd IS NULL)     AS unpriced_calls,
    min(started_at + CASE WHEN parent_span_id IS NULL THEN 0 ELSE 4611686018427387904 END)
        FILTER (name IS NOT NULL)                                                   AS root_rank,
    arg_min(name, started_at + CASE WHEN parent_span_id IS NULL THEN 0 ELSE 4611686018427387904 END) AS root_name,
    arg_min(status, started_at) FILTER (parent_span_id IS NULL)                     AS root_status,
    arg_min(agent, coalesce(started_at, 0))                                         AS agent,
    max(started_at + coalesce(duration_ns, 0)) FILTER (kind = 'run' AND status <> 'started') AS end_at,
    arg_max(status, started_at + coalesce(duration_ns, 0)) FILTER (kind = 'run' AND status <> 'started') AS end_status,
    min(user_ref)                                                                   AS user_ref,
    min(session_id)                                                                 AS session_id,
    min(service)                                                                    AS service,
    min(trace_id)                                                                   AS trace_id,
    min(source)                                                                     AS source,
    max(received_at)                                                                AS received_at
FROM staged_events
GROUP BY tenant, run_id;
