-- Tells runs what their rows of usage_shares add up to now; a run without any is told that, too.
INSERT INTO run_deltas BY NAME
SELECT
    runs.tenant,
    runs.run_id,
    0                                   AS events,
    0                                   AS llm_calls,
    0                                   AS tool_calls,
    0                                   AS denials,
    0                                   AS errors,
    0                                   AS unpriced_calls,
    $at::BIGINT                         AS share_at,
    sum(shares.calls)::BIGINT           AS share_calls,
    sum(shares.input_tokens)::BIGINT    AS share_input_tokens,
    sum(shares.output_tokens)::BIGINT   AS share_output_tokens,
    sum(shares.cost_usd)                AS share_cost_usd,
    sum(shares.unpriced_calls)::BIGINT  AS share_unpriced,
    $at::BIGINT                         AS received_at
FROM (SELECT unnest($tenants::VARCHAR[]) AS tenant, unnest($run_ids::VARCHAR[]) AS run_id) AS runs
LEFT JOIN usage_shares AS shares ON shares.run_id = runs.run_id AND shares.tenant = runs.tenant
GROUP BY runs.tenant, runs.run_id;
