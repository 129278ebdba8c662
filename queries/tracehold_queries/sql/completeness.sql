-- question: Is anything missing of what agents recorded, and why?
-- asked by: auditor
--
-- param since TIMESTAMP = NULL: only runs with an event at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only runs with an event before this moment (UTC)
-- param run_id VARCHAR = NULL: only this run
-- param only_gaps BOOLEAN = true: false: also runs of which nothing is missing
-- param limit BIGINT {1..10000} = 100: rows a page
-- param offset BIGINT {0..} = 0: rows to leave out before the page
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column run_id VARCHAR: the run
-- column tenant VARCHAR: whose it is
-- column source VARCHAR: who numbered its events: tracer numbers them from 1, an engine's log from 0
-- column began_at TIMESTAMP [UTC]: its first event
-- column ended_at TIMESTAMP [UTC]: the end of its last event; NULL while nothing said that it ended
-- column last_number BIGINT: the highest number seen; with an end, how many the producer gave out
-- column present BIGINT: numbers that are here
-- column missing BIGINT: numbers below the highest that are not here; more may follow a run that has not ended
-- column first_missing BIGINT: the first of them
-- column explained_by VARCHAR: what may have kept them away: erased, or the cause of a gap or pause of the collector during
--     the run; NULL: nothing here explains it, ask the producer, which counts what it dropped

WITH numbered AS (
    SELECT
        tenant,
        run_id,
        source,
        min(started_at)                                                              AS began,
        max(started_at + coalesce(duration_ns, 0))                                   AS ended,
        bool_or(kind = 'run' AND status <> 'started')                                AS over,
        if(source = 'engine', 0, 1)                                                  AS first_number,
        max(seq)                                                                     AS last_number,
        count(DISTINCT seq)                                                          AS present,
        list_sort(list(DISTINCT seq))                                                AS numbers
    FROM events
    WHERE seq IS NOT NULL
      AND source IN ('tracer', 'engine')
      AND ($run_id::VARCHAR IS NULL OR run_id = $run_id::VARCHAR)
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant::VARCHAR)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
    GROUP BY tenant, run_id, source
),
judged AS (
    SELECT
        *,
        last_number - first_number + 1 - present AS missing
    FROM numbered
    WHERE ($since::TIMESTAMP IS NULL OR ended >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR began < epoch_ns($until::TIMESTAMP))
),
chosen AS (
    SELECT *
    FROM judged
    WHERE missing > 0
       OR NOT $only_gaps::BOOLEAN
    ORDER BY began DESC, tenant, run_id
    LIMIT $limit::BIGINT
    OFFSET $offset::BIGINT
)
SELECT
    run_id,
    tenant,
    source,
    make_timestamp(began // 1000)                       AS began_at,
    if(over, make_timestamp(ended // 1000), NULL)       AS ended_at,
    last_number,
    present,
    greatest(missing, 0)                                AS missing,
    if(
        missing > 0,
        -- The first place where the numbers in order are not the places they stand at.
        coalesce(
            list_filter(range(first_number, last_number), lambda n: numbers[n - first_number + 1] <> n)[1],
            last_number
        ),
        NULL
    )                                                   AS first_missing,
    if(
        missing > 0,
        coalesce(
            (
                SELECT 'erased'
                FROM erased_events
                WHERE erased_events.tenant = chosen.tenant
                  AND erased_events.received_at BETWEEN chosen.began AND chosen.ended + 86400000000000
                LIMIT 1
            ),
            (
                SELECT min(collector_events.cause)
                FROM collector_events
                WHERE collector_events.ended_at >= chosen.began
                  AND coalesce(collector_events.started_at, chosen.ended) <= chosen.ended
                  AND collector_events.type IN ('gap', 'pause')
            )
        ),
        NULL
    )                                                   AS explained_by
FROM chosen
ORDER BY began DESC, tenant, run_id
