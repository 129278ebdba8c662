-- What a call was found to cost after it was stored: priced late, or once more by other prices. Rows of `events` never
-- change, and no figure is lost: the latest row of an event counts, the others say what it was before.

CREATE TABLE costs (
    event_id     UUID    NOT NULL,
    tenant       VARCHAR NOT NULL,
    run_id       VARCHAR NOT NULL,
    cost_usd     DOUBLE  NOT NULL,
    price_source VARCHAR NOT NULL,
    priced_at    BIGINT  NOT NULL           -- UTC nanoseconds since the epoch
);

-- Events with what they cost by what is known today.
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
