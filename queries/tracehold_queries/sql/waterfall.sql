-- question: Why is this run slow, and where did it fail?
-- asked by: engineer
--
-- param run_id VARCHAR: the run
-- param limit BIGINT {1..100000} = 1000: rows a page
-- param offset BIGINT {0..} = 0: rows to leave out before the page
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column span_id VARCHAR: the span; an event without a span id stands for itself under its event id
-- column parent_span_id VARCHAR: the span above it; NULL at a root, and when the parent is not in this run
-- column parent_missing BOOLEAN: a parent was named and is not in this run
-- column depth BIGINT: steps down from its root, which is 0; NULL when its parents form a loop
-- column event_id VARCHAR: the event that ended the span, or the only one
-- column tenant VARCHAR: whose it is
-- column kind VARCHAR: our word for what it is
-- column type VARCHAR: the source's word for what it is
-- column name VARCHAR: a tool's name, or the span's; NULL when it was not fit to be stored openly
-- column status VARCHAR: how it ended; started when no end was recorded
-- column started_at TIMESTAMP [UTC]: when it started
-- column started_at_ns BIGINT [ns since the epoch]: the same, exactly
-- column offset_ns BIGINT [ns]: from the start of the run's first span to its own; NULL when its time is not credible
-- column duration_ns BIGINT [ns]: how long it took; NULL for a point in time and when it is not known
-- column agent VARCHAR: the agent it belongs to
-- column model VARCHAR: the model called
-- column input_tokens BIGINT [tokens]: cached ones included
-- column output_tokens BIGINT [tokens]: reasoning included
-- column cost_usd DOUBLE [USD]: what it cost; NULL when unknown
-- column decision VARCHAR: what a gate said
-- column decided_by VARCHAR: who or what said it
-- column rule VARCHAR: by which rule
-- column error_type VARCHAR: the kind of error
-- column folded BIGINT: events of this span, such as its start and its end
-- column total BIGINT: rows on all pages together

WITH RECURSIVE
-- When the run began and ended: of the events, only what started in that time is read.
times AS MATERIALIZED (
    SELECT min(started_at) AS first_ns, max(ended_at) AS last_ns
    FROM (
        SELECT started_at, ended_at
        FROM run_deltas
        WHERE run_key = md5_number_lower($run_id)
        UNION ALL
        SELECT started_at, ended_at
        FROM run_deltas
        WHERE run_key IS NULL
          AND run_id = $run_id
    )
),
own AS NOT MATERIALIZED (
    SELECT *
    FROM events
    WHERE run_id = $run_id
      AND started_at >= coalesce((SELECT first_ns FROM times), -9223372036854775808)
      AND started_at <= coalesce((SELECT last_ns FROM times), 9223372036854775807)
    UNION ALL
    -- Starts that are not known, and those in the wrong unit, which do not make the run begin in 1970 (FR-23).
    SELECT *
    FROM events
    WHERE run_id = $run_id
      AND (started_at IS NULL OR started_at < 946684800000000000)
      AND (started_at IS NULL OR started_at < (SELECT first_ns FROM times))
),
priced AS NOT MATERIALIZED (
    SELECT own.* REPLACE (coalesce(later.cost_usd, own.cost_usd) AS cost_usd)
    FROM own
    LEFT JOIN (
        SELECT tenant, event_id, arg_max(cost_usd, priced_at) AS cost_usd
        FROM costs
        WHERE run_id = $run_id
        GROUP BY tenant, event_id
    ) AS later USING (tenant, event_id)
),
ranked AS (
    SELECT
        *,
        coalesce(span_id, event_id::VARCHAR) AS span,
        -- Of a span's events, the one that tells most: an end before a start, one with a duration before one without.
        row_number() OVER (
            ORDER BY
                status = 'started',
                duration_ns IS NULL,
                started_at DESC NULLS LAST,
                seq DESC NULLS LAST,
                event_id
        ) AS rank
    FROM priced
    WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
-- arg_min leaves NULLs out: each column comes from the best-ranked event that has it.
spans AS MATERIALIZED (
    SELECT
        row_number() OVER (ORDER BY min(started_at) NULLS LAST, min(seq) NULLS LAST, tenant, span) AS place,
        tenant,
        span AS span_id,
        nullif(arg_min(parent_span_id, rank), span) AS named_parent,
        arg_min(event_id, rank)::VARCHAR AS event_id,
        arg_min(kind, rank) AS kind,
        arg_min(type, rank) AS type,
        arg_min(name, rank) AS name,
        arg_min(status, rank) AS status,
        min(started_at) AS started_at,
        CASE
            WHEN bool_and(status = 'started') THEN NULL
            WHEN count(*) = 1 THEN min(duration_ns)
            ELSE coalesce(arg_min(duration_ns, rank), greatest(max(started_at) - min(started_at), 0))
        END AS duration_ns,
        arg_min(agent, rank) AS agent,
        arg_min(model, rank) AS model,
        arg_min(input_tokens, rank) AS input_tokens,
        arg_min(output_tokens, rank) AS output_tokens,
        arg_min(cost_usd, rank) AS cost_usd,
        arg_min(decision, rank) AS decision,
        arg_min(decided_by, rank) AS decided_by,
        arg_min(rule, rank) AS rule,
        arg_min(error_type, rank) AS error_type,
        count(*) AS folded
    FROM ranked
    GROUP BY tenant, span
),
-- Depth by pointer jumping: each step doubles how far up a row has looked, so that a chain of 10,000 spans takes 15
-- steps, and a loop of parents stops after 21 instead of never.
climb AS (
    SELECT
        spans.place,
        parent.place AS ancestor,
        (parent.place IS NOT NULL)::BIGINT AS depth,
        0 AS step
    FROM spans
    LEFT JOIN spans AS parent ON parent.span_id = spans.named_parent AND parent.tenant = spans.tenant
    UNION ALL
    SELECT
        low.place,
        high.ancestor,
        low.depth + coalesce(high.depth, 0),
        low.step + 1
    FROM climb AS low
    LEFT JOIN climb AS high ON high.place = low.ancestor
    WHERE low.step < 20
      AND EXISTS (SELECT 1 FROM climb WHERE ancestor IS NOT NULL)
),
tree AS (
    SELECT
        place,
        arg_min_null(ancestor, step) AS parent,
        CASE WHEN arg_max_null(ancestor, step) IS NULL THEN max(depth) END AS depth
    FROM climb
    GROUP BY place
)
SELECT
    spans.span_id,
    CASE WHEN tree.parent IS NOT NULL THEN spans.named_parent END AS parent_span_id,
    spans.named_parent IS NOT NULL AND tree.parent IS NULL AS parent_missing,
    tree.depth,
    spans.event_id,
    spans.tenant,
    spans.kind,
    spans.type,
    spans.name,
    spans.status,
    make_timestamp(spans.started_at // 1000) AS started_at,
    spans.started_at AS started_at_ns,
    CASE WHEN spans.started_at >= first.started_at THEN spans.started_at - first.started_at END AS offset_ns,
    spans.duration_ns,
    spans.agent,
    spans.model,
    spans.input_tokens,
    spans.output_tokens,
    spans.cost_usd,
    spans.decision,
    spans.decided_by,
    spans.rule,
    spans.error_type,
    spans.folded,
    count(*) OVER () AS total
FROM spans
JOIN tree USING (place)
JOIN (
    -- A start before the year 2000 is in the wrong unit: it is the run's only when there is no other.
    SELECT tenant, coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS started_at
    FROM spans
    GROUP BY tenant
) AS first ON first.tenant = spans.tenant
ORDER BY spans.place
LIMIT $limit::BIGINT
OFFSET $offset::BIGINT
