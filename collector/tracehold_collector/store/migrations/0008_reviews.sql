-- Who looked at a denial, and what they said. Every act is an event of the tenant's log (source `collector`, run
-- `review:<event id of the denial>`), so there is no table to keep in step: these views fold the events. Each act carries
-- what became of the review, so the last one says how it stands; `seq` counts the acts of one denial from 1.

CREATE VIEW review_acts AS
SELECT
    tenant,
    try_cast(run_id[8:] AS UUID)                            AS denial_id,
    seq                                                     AS revision,
    event_id,
    type,
    started_at,
    received_at,
    decided_by,
    attributes ->> '$."tracehold.review.state"'             AS state,
    attributes ->> '$."tracehold.review.assignee"'          AS assignee,
    attributes ->> '$."tracehold.review.verdict"'           AS verdict,
    attributes ->> '$."tracehold.review.verdict_by"'        AS verdict_by,
    attributes ->> '$."tracehold.review.verdict_key"'       AS verdict_key,
    attributes ->> '$."tracehold.review.key_id"'            AS key_id
FROM events
WHERE source = 'collector'
  AND kind = 'score'
  AND starts_with(run_id, 'review:');

-- One row a denial that somebody acted on. A denial without a row is open.
CREATE VIEW reviews AS
SELECT
    tenant,
    denial_id,
    max(revision)                               AS revision,
    arg_max(state, revision)                    AS state,
    arg_max_null(assignee, revision)            AS assignee,
    arg_max_null(verdict, revision)             AS verdict,
    arg_max_null(verdict_by, revision)          AS verdict_by,
    arg_max_null(verdict_key, revision)         AS verdict_key,
    arg_max(decided_by, revision)               AS last_by,
    max(received_at)                            AS last_at
FROM review_acts
WHERE denial_id IS NOT NULL
GROUP BY tenant, denial_id;

-- Days that somebody signed off, the latest signature of each. A day is that of receipt, UTC: once it is over, no denial
-- can be added to it, whatever a sender says about its time.
CREATE VIEW signed_days AS
SELECT
    tenant,
    try_cast(run_id[12:] AS DATE)               AS day,
    max(seq)                                    AS revision,
    max(received_at)                            AS signed_at,
    arg_max(decided_by, seq)                    AS signed_by,
    arg_max((attributes ->> '$."tracehold.review.denials"')::BIGINT, seq)    AS denials,
    arg_max((attributes ->> '$."tracehold.review.unreviewed"')::BIGINT, seq) AS unreviewed
FROM events
WHERE source = 'collector'
  AND kind = 'score'
  AND starts_with(run_id, 'review-day:')
  AND try_cast(run_id[12:] AS DATE) IS NOT NULL
GROUP BY ALL;
