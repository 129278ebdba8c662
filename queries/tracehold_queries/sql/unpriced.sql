-- question: Which model calls have no price, and why?
-- asked by: platform owner
--
-- param since TIMESTAMP = NULL: only calls that started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only calls that started before this moment (UTC)
-- param limit BIGINT {1..10000} = 100: rows at most, the most calls first
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column provider VARCHAR: whose model; NULL when the source did not say
-- column model VARCHAR: the model; NULL when the source did not say
-- column reason VARCHAR: what is missing: model, usage, price, or the price of its service tier
-- column calls BIGINT: calls of a model without a known cost; an event that alone tells what calls used is one
-- column input_tokens BIGINT [tokens]: cached ones included; NULL when none were reported
-- column output_tokens BIGINT [tokens]: reasoning included; NULL when none were reported
-- column first_at TIMESTAMP [UTC]: when the first such call started
-- column last_at TIMESTAMP [UTC]: when the latest one started

WITH calls AS (
    SELECT tenant, event_id, provider, model, input_tokens, output_tokens, started_at, attributes
    FROM priced_events
    WHERE kind = 'llm'
      AND status <> 'started'
      AND cost_usd IS NULL
    UNION ALL
    SELECT tenant, event_id, provider, model, input_tokens, output_tokens, started_at, NULL
    FROM usage_shares
    WHERE unpriced_calls > 0
)
SELECT
    provider,
    model,
    CASE
        WHEN model IS NULL THEN 'model'
        WHEN input_tokens IS NULL OR output_tokens IS NULL THEN 'usage'
        WHEN attributes->>'service_tier' NOT IN ('default', 'standard', 'auto', 'on_demand') THEN 'tier'
        ELSE 'price'
    END AS reason,
    count(*) AS calls,
    sum(input_tokens)::BIGINT AS input_tokens,
    sum(output_tokens)::BIGINT AS output_tokens,
    make_timestamp(min(started_at) // 1000) AS first_at,
    make_timestamp(max(started_at) // 1000) AS last_at
FROM calls
-- A call whose cost an event above it has told is not unpriced.
WHERE (tenant, event_id) NOT IN (SELECT (tenant, event_id) FROM usage_shares WHERE unpriced_calls < 0)
  AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
  AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
  AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
GROUP BY provider, model, reason
ORDER BY calls DESC, provider, model, reason
LIMIT $limit::BIGINT
