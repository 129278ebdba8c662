-- Tells the runs what changes by the rows of `staged_costs`, then keeps them.
-- A table of its own: DuckDB cannot look for UUIDs in what Arrow holds.
CREATE OR REPLACE TEMP TABLE new_costs AS SELECT * FROM staged_costs;

INSERT INTO run_deltas BY NAME
SELECT
    new_costs.tenant,
    new_costs.run_id,
    0                                                           AS events,
    0                                                           AS llm_calls,
    0                                                           AS tool_calls,
    0                                                           AS denials,
    0                                                           AS errors,
    sum(new_costs.cost_usd - coalesce(priced.cost_usd, 0))      AS cost_usd,
    -count(*) FILTER (priced.cost_usd IS NULL)                  AS unpriced_calls,
    max(new_costs.priced_at)                                    AS received_at
FROM new_costs
JOIN priced_events AS priced ON priced.event_id = new_costs.event_id AND priced.tenant = new_costs.tenant
GROUP BY new_costs.tenant, new_costs.run_id;

INSERT INTO costs BY NAME SELECT * FROM new_costs;

DROP TABLE new_costs;
