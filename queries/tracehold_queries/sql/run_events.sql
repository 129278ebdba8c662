-- question: What happened in this run, event by event?
-- asked by: engineer, auditor
--
-- param run_id VARCHAR: the run
-- param limit BIGINT {1..10000} = 500: rows a page
-- param offset BIGINT {0..} = 0: rows to leave out before the page
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column event_id VARCHAR: the event
-- column tenant VARCHAR: whose it is
-- column span_id VARCHAR: the span it belongs to
-- column parent_span_id VARCHAR: the span above, as the source named it
-- column seq BIGINT: the source's own number
-- column kind VARCHAR: our word for what it is
-- column type VARCHAR: the source's word for what it is
-- column name VARCHAR: a tool's name, or the span's; NULL when it was not fit to be stored openly
-- column status VARCHAR: how it ended; started for an opening half
-- column started_at TIMESTAMP [UTC]: when it started
-- column started_at_ns BIGINT [ns since the epoch]: the same, exactly
-- column offset_ns BIGINT [ns]: from the run's first start to its own; NULL when its time is not credible
-- column duration_ns BIGINT [ns]: how long it took; NULL for a point in time and when it is not known
-- column agent VARCHAR: the agent it belongs to
-- column provider VARCHAR: whose model
-- column model VARCHAR: the model called
-- column input_tokens BIGINT [tokens]: cached ones included
-- column output_tokens BIGINT [tokens]: reasoning included
-- column cost_usd DOUBLE [USD]: what it cost; NULL when unknown
-- column decision VARCHAR: what a gate said
-- column decided_by VARCHAR: who or what said it
-- column rule VARCHAR: by which rule
-- column error_type VARCHAR: the kind of error
-- column source VARCHAR: how it came in: otlp, tracer, engine or file
-- column total BIGINT: rows on all pages together

SELECT
    event_id::VARCHAR AS event_id,
    tenant,
    span_id,
    parent_span_id,
    seq,
    kind,
    type,
    name,
    status,
    make_timestamp(started_at // 1000) AS started_at,
    started_at AS started_at_ns,
    CASE WHEN started_at >= first_at THEN started_at - first_at END AS offset_ns,
    duration_ns,
    agent,
    provider,
    model,
    input_tokens,
    output_tokens,
    cost_usd,
    decision,
    decided_by,
    rule,
    error_type,
    source,
    count(*) OVER () AS total
FROM (
    SELECT
        *,
        -- A start before the year 2000 is in the wrong unit: it is the run's only when there is no other.
        coalesce(
            min(started_at) FILTER (started_at >= 946684800000000000) OVER (PARTITION BY tenant),
            min(started_at) OVER (PARTITION BY tenant)
        ) AS first_at
    FROM priced_events
    WHERE run_id = $run_id
) AS priced_events
WHERE run_id = $run_id
  AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
ORDER BY
    -- A Tracer's run_end names the run's start as its own and how long it took: it happened at the end.
    priced_events.started_at + CASE WHEN type = 'run_end' THEN coalesce(duration_ns, 0) ELSE 0 END NULLS LAST,
    seq NULLS LAST,
    priced_events.event_id
LIMIT $limit::BIGINT
OFFSET $offset::BIGINT
