-- Keeps the rows of `staged_costs` with what they change, and tells the runs.
-- A table of its own first: DuckDB cannot look for UUIDs in what Arrow holds.
CREATE OR REPLACE TEMP TABLE new_costs AS SELECT * FROM staged_costs;

CREATE OR REPLACE TEMP TABLE changed_costs AS
SELECT
    new_costs.*,
    -- Only model calls are in the sums by themselves; what others add to them is in usage_shares.
    CASE WHEN priced.kind = 'llm' THEN new_costs.cost_usd - coalesce(priced.cost_usd, 0) ELSE 0 END AS change_usd,
    (priced.kind = 'llm' AND priced.cost_usd IS NULL)::BIGINT AS newly_priced,
    priced.started_at,
    priced.agent,
    priced.user_ref,
    priced.session_id,
    priced.service,
    priced.model,
    priced.provider
FROM new_costs
JOIN priced_events AS priced ON priced.event_id = new_costs.event_id AND priced.tenant = new_costs.tenant;

INSERT INTO run_deltas BY NAME
SELECT
    tenant,
    run_id,
    0                   AS events,
    0                   AS llm_calls,
    0                   AS tool_calls,
    0                   AS denials,
    0                   AS errors,
    sum(change_usd)     AS cost_usd,
    -sum(newly_priced)  AS unpriced_calls,
    max(priced_at)      AS received_at
FROM changed_costs
GROUP BY tenant, run_id;

INSERT INTO costs BY NAME SELECT * FROM changed_costs;

DROP TABLE new_costs;
DROP TABLE changed_costs;
