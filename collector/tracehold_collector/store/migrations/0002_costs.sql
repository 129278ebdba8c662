-- What a call was found to cost after it was stored: priced late, or once more by other prices. Rows of `events` never
-- change, and no figure is lost: the latest row of an event counts, the others say what it was before.
--
-- A row also says by how much it changes the sums, and whose they are: to look the calls up again would make every
-- question about spend a third slower, for the few that were priced later.

CREATE TABLE costs (
    event_id     UUID    NOT NULL,
    tenant       VARCHAR NOT NULL,
    run_id       VARCHAR NOT NULL,
    cost_usd     DOUBLE  NOT NULL,
    price_source VARCHAR NOT NULL,
    priced_at    BIGINT  NOT NULL,          -- UTC nanoseconds since the epoch
    change_usd   DOUBLE  NOT NULL,          -- to the figure before; all of it when there was none
    newly_priced BIGINT  NOT NULL,          -- 1 when there was none, else 0
    started_at   BIGINT,                    -- of the call, as are the others
    agent        VARCHAR,
    user_ref     VARCHAR,
    session_id   VARCHAR,
    service      VARCHAR,
    model        VARCHAR,
    provider     VARCHAR
);

-- Events with what they cost by what is known today; for the events of a run, or a few.
CREATE VIEW priced_events AS
SELECT
    events.* REPLACE (
        coalesce(later.cost_usd, events.cost_usd)         AS cost_usd,
        coalesce(later.price_source, events.price_source) AS price_source
    )
FROM events
LEFT JOIN (
    SELECT event_id, arg_max(cost_usd, priced_at) AS cost_usd, arg_max(price_source, priced_at) AS price_source
    FROM costs
    GROUP BY event_id
) AS later ON later.event_id = events.event_id;

-- What sums of spend are made of: each model call as it came, and what was changed about it later.
CREATE VIEW spend_entries AS
SELECT
    tenant, run_id, started_at, agent, user_ref, session_id, service, model, provider,
    input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens,
    cost_usd,
    1                                       AS calls,
    (cost_usd IS NULL)::BIGINT              AS unpriced_calls
FROM events
WHERE kind = 'llm'
  AND status <> 'started'
UNION ALL
SELECT
    tenant, run_id, started_at, agent, user_ref, session_id, service, model, provider,
    NULL, NULL, NULL, NULL, NULL,
    change_usd,
    0,
    -newly_priced
FROM costs;
