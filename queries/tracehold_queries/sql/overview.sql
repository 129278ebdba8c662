-- question: What do we hold, and how is it going?
-- asked by: engineer, auditor, platform owner
--
-- param since TIMESTAMP = NULL: only what started at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only what started before this moment (UTC)
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column runs BIGINT: runs that started in the range
-- column running BIGINT: of these, runs that have not ended
-- column suspended BIGINT: of these, runs that wait for somebody
-- column failed BIGINT: of these, runs that ended in an error
-- column events BIGINT: events recorded
-- column llm_calls BIGINT: calls of a model
-- column tool_calls BIGINT: calls of a tool that ran
-- column denials BIGINT: decisions that stopped something
-- column errors BIGINT: events that failed
-- column input_tokens BIGINT [tokens]: cached ones included; NULL when none were reported
-- column output_tokens BIGINT [tokens]: reasoning included; NULL when none were reported
-- column cost_usd DOUBLE [USD]: sum of the known costs; NULL when none is known
-- column unpriced_calls BIGINT: model calls without a known cost; when not 0, the cost is a lower bound
-- column unmapped BIGINT: events whose kind was not understood
-- column first_at TIMESTAMP [UTC]: when the first event started
-- column last_at TIMESTAMP [UTC]: when the latest event started
-- column received_at TIMESTAMP [UTC]: when an event was last taken in

WITH counted_runs AS (
    SELECT
        count(*) AS runs,
        count(*) FILTER (status = 'started') AS running,
        count(*) FILTER (status = 'suspended') AS suspended,
        count(*) FILTER (status = 'error') AS failed
    FROM runs
    WHERE true
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
counted_events AS (
    SELECT
        count(*) AS events,
        count(*) FILTER (kind = 'llm' AND status <> 'started') AS llm_calls,
        count(*) FILTER (kind = 'tool' AND status NOT IN ('started', 'blocked', 'suspended')) AS tool_calls,
        -- The list of DEC-01: any decision but allowed and suspended. What was stopped is blocked; the answer to an
        -- approval request, which carries the same decision, is not.
        count(*) FILTER (status = 'blocked' AND decision IN ('denied', 'rejected', 'unconfirmed', 'expired', 'invalid_args', 'unknown_tool',
                                      'tripped', 'limited', 'cancelled')) AS denials,
        count(*) FILTER (status = 'error') AS errors,
        (sum(input_tokens) FILTER (kind = 'llm' AND status <> 'started'))::BIGINT AS input_tokens,
        (sum(output_tokens) FILTER (kind = 'llm' AND status <> 'started'))::BIGINT AS output_tokens,
        sum(cost_usd) FILTER (kind = 'llm' AND status <> 'started') AS cost_usd,
        count(*) FILTER (kind = 'llm' AND status <> 'started' AND cost_usd IS NULL) AS unpriced_calls,
        count(*) FILTER (kind = 'other') AS unmapped,
        make_timestamp(min(started_at) // 1000) AS first_at,
        make_timestamp(max(started_at) // 1000) AS last_at,
        make_timestamp(max(received_at) // 1000) AS received_at
    FROM events
    WHERE source <> 'collector'  -- what people did here is no agent's doing
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
priced_later AS (
    SELECT sum(change_usd) AS change_usd, coalesce(sum(newly_priced), 0)::BIGINT AS newly_priced
    FROM costs
    WHERE true
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
-- What events tell that are no model calls, where no call below them tells it.
told_above AS (
    SELECT
        coalesce(sum(calls), 0)::BIGINT AS more_calls,
        sum(input_tokens)::BIGINT AS more_input,
        sum(output_tokens)::BIGINT AS more_output,
        sum(cost_usd) AS more_usd,
        coalesce(sum(unpriced_calls), 0)::BIGINT AS more_unpriced
    FROM usage_shares
    WHERE true
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
)
SELECT
    * EXCLUDE (change_usd, newly_priced, more_calls, more_input, more_output, more_usd, more_unpriced) REPLACE (
        llm_calls + more_calls AS llm_calls,
        coalesce(input_tokens + more_input, input_tokens, more_input) AS input_tokens,
        coalesce(output_tokens + more_output, output_tokens, more_output) AS output_tokens,
        CASE
            WHEN cost_usd IS NOT NULL OR change_usd IS NOT NULL OR more_usd IS NOT NULL
                THEN coalesce(cost_usd, 0) + coalesce(change_usd, 0) + coalesce(more_usd, 0)
        END AS cost_usd,
        unpriced_calls - newly_priced + more_unpriced AS unpriced_calls
    )
FROM counted_runs
CROSS JOIN counted_events
CROSS JOIN priced_later
CROSS JOIN told_above
