-- Two tenants may each have an event of one id, chosen by their senders: what a call cost belongs to one of them.
CREATE OR REPLACE VIEW priced_events AS
SELECT
    events.* REPLACE (
        coalesce(later.cost_usd, events.cost_usd)         AS cost_usd,
        coalesce(later.price_source, events.price_source) AS price_source
    )
FROM events
LEFT JOIN (
    SELECT tenant, event_id, arg_max(cost_usd, priced_at) AS cost_usd, arg_max(price_source, priced_at) AS price_source
    FROM costs
    GROUP BY tenant, event_id
) AS later ON later.event_id = events.event_id AND later.tenant = events.tenant;
