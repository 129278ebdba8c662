-- question: What do we spend on which model, day by day?
-- asked by: platform owner
--
-- param since TIMESTAMP = NULL: only calls that started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only calls that started before this moment (UTC)
-- param timezone TIMEZONE = UTC: whose days these are
-- param from_day DATE = NULL: only calls on this day or later, on the calendar of the time zone
-- param until_day DATE = NULL: only calls before this day, on the calendar of the time zone
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column day DATE: the day in the time zone asked for; NULL for calls whose time is not known, which no range holds
-- column tenant VARCHAR: whose calls
-- column provider VARCHAR: whose model
-- column model VARCHAR: the model; NULL when the source did not say
-- column calls BIGINT: calls of a model
-- column input_tokens BIGINT [tokens]: cached ones included; NULL when none were reported
-- column output_tokens BIGINT [tokens]: reasoning included; NULL when none were reported
-- column cached_tokens BIGINT [tokens]: the part of the input read from a cache
-- column cache_write_tokens BIGINT [tokens]: the part of the input written to a cache
-- column reasoning_tokens BIGINT [tokens]: the part of the output spent on reasoning
-- column cost_usd DOUBLE [USD]: sum of the known costs; NULL when none is known
-- column unpriced_calls BIGINT: calls without a known cost; when not 0, the cost is a lower bound

WITH entries AS NOT MATERIALIZED (
    SELECT *
    FROM spend_entries
    WHERE ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      -- No zone is two days from UTC: this spares most rows the look at a calendar, and decides nothing.
      AND ($from_day::DATE IS NULL OR started_at >= epoch_ns($from_day::TIMESTAMP - INTERVAL 2 DAY))
      AND ($until_day::DATE IS NULL OR started_at < epoch_ns($until_day::TIMESTAMP + INTERVAL 2 DAY))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
-- To look each call up in a zone's calendar takes three quarters of the time: an hour is looked up for all its calls. Where
-- a day or another offset begins within an hour, and before 1970, each call is looked up all the same.
hours AS MATERIALIZED (
    SELECT
        hour,
        first_at::DATE AS day,
        first_at::DATE = last_at::DATE AND last_at - first_at = INTERVAL '3599999999 microseconds' AS is_plain
    FROM (
        SELECT
            hour,
            timezone($timezone, make_timestamptz(hour * 3600000000)) AS first_at,
            timezone($timezone, make_timestamptz(hour * 3600000000 + 3599999999)) AS last_at
        FROM (SELECT DISTINCT started_at // 3600000000000 AS hour FROM entries WHERE $timezone <> 'UTC')
    )
),
calls AS NOT MATERIALIZED (
    SELECT
        *,
        make_timestamp(started_at // 1000)::DATE AS day
    FROM entries
    WHERE $timezone = 'UTC'
    UNION ALL
    SELECT
        entries.*,
        CASE
            WHEN hours.is_plain AND entries.started_at >= 0 THEN hours.day
            ELSE timezone($timezone, make_timestamptz(entries.started_at // 1000))::DATE
        END AS day
    FROM entries
    LEFT JOIN hours ON hours.hour = entries.started_at // 3600000000000
    WHERE $timezone <> 'UTC'
)
SELECT
    day,
    tenant,
    provider,
    model,
    sum(calls)::BIGINT AS calls,
    sum(input_tokens)::BIGINT AS input_tokens,
    sum(output_tokens)::BIGINT AS output_tokens,
    sum(cached_tokens)::BIGINT AS cached_tokens,
    sum(cache_write_tokens)::BIGINT AS cache_write_tokens,
    sum(reasoning_tokens)::BIGINT AS reasoning_tokens,
    sum(cost_usd) AS cost_usd,
    sum(unpriced_calls)::BIGINT AS unpriced_calls
FROM calls
WHERE ($from_day::DATE IS NULL OR day >= $from_day::DATE)
  AND ($until_day::DATE IS NULL OR day < $until_day::DATE)
GROUP BY day, tenant, provider, model
ORDER BY day DESC NULLS LAST, cost_usd DESC NULLS LAST, calls DESC, tenant, provider, model
