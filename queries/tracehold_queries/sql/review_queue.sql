-- question: Which denials wait for a person's look, who has them, and what was found?
-- asked by: auditor
--
-- param state VARCHAR {open, assigned, reviewed, awaiting_sign_off, closed} = NULL: only denials that stand so
-- param verdict VARCHAR {justified, false_alarm, incident} = NULL: only those of this verdict
-- param assignee VARCHAR = NULL: only those that this login has
-- param overdue BOOLEAN = NULL: true: only those that wait longer than they should; false: only the others
-- param due_hours BIGINT {1..8784} = 24: hours after receipt by which a denial should be reviewed
-- param day DATE = NULL: only those the collector received on this day (UTC)
-- param since TIMESTAMP = NULL: only denials at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only denials before this moment (UTC)
-- param event_id VARCHAR = NULL: only this denial
-- param run_id VARCHAR = NULL: only denials of this run
-- param agent VARCHAR = NULL: only denials of this agent
-- param name VARCHAR = NULL: only denials of this tool
-- param rule VARCHAR = NULL: only denials by this rule
-- param decision VARCHAR {denied, rejected, unconfirmed, expired, invalid_args, unknown_tool, tripped, limited,
--     cancelled} = NULL: only this decision
-- param first VARCHAR {newest, oldest} = newest: which come first
-- param limit BIGINT {1..10000} = 100: rows a page
-- param offset BIGINT {0..} = 0: rows to leave out before the page
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column event_id VARCHAR: the event that records the denial; its content holds the reason and the arguments
-- column tenant VARCHAR: whose it is
-- column at TIMESTAMP [UTC]: when it was stopped
-- column received_at TIMESTAMP [UTC]: when the collector took it in
-- column run_id VARCHAR: the run
-- column name VARCHAR: the tool
-- column decision VARCHAR: what the gate said
-- column decided_by VARCHAR: who or what said it
-- column rule VARCHAR: by which rule
-- column policy_digest VARCHAR: digest of the policy the rule stood in, "sha256:..."; NULL when the gate has none
-- column agent VARCHAR: the agent that tried
-- column state VARCHAR: how the review stands: open, assigned, reviewed, awaiting_sign_off, closed
-- column assignee VARCHAR: the login that has it; NULL when nobody has
-- column verdict VARCHAR: what was found: justified, false_alarm, incident; NULL before that
-- column verdict_by VARCHAR: the login that gave the verdict
-- column last_by VARCHAR: the login of the latest act
-- column last_at TIMESTAMP [UTC]: when that was
-- column revision BIGINT: how many acts there are; whoever acts says which one they saw last
-- column overdue BOOLEAN: whether it waits for a review or a sign-off longer than it should
-- column retries BIGINT: later attempts at the same tool in the same run; see denial_retries
-- column got_through BOOLEAN: whether one of these ran; NULL without any
-- column total BIGINT: rows on all pages together

WITH denials AS NOT MATERIALIZED (
    SELECT
        rowid AS place,
        tenant,
        event_id,
        started_at,
        coalesce(seq, 0) AS seq,
        received_at
    FROM events
    WHERE status = 'blocked'
      AND list_contains(['denied', 'rejected', 'unconfirmed', 'expired', 'invalid_args', 'unknown_tool', 'tripped',
                         'limited', 'cancelled'], decision)
      AND source <> 'collector'
      AND ($day::DATE IS NULL OR received_at >= epoch_ns($day::DATE::TIMESTAMP))
      AND ($day::DATE IS NULL OR received_at < epoch_ns($day::DATE::TIMESTAMP + INTERVAL 1 DAY))
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($event_id::VARCHAR IS NULL OR event_id = try_cast($event_id AS UUID))
      AND ($run_id::VARCHAR IS NULL OR run_id = $run_id)
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
      AND ($name::VARCHAR IS NULL OR name = $name)
      AND ($rule::VARCHAR IS NULL OR rule = $rule)
      AND ($decision::VARCHAR IS NULL OR decision = $decision)
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
standing AS MATERIALIZED (
    SELECT
        denials.*,
        reviews.revision,
        reviews.assignee,
        reviews.verdict,
        reviews.verdict_by,
        reviews.last_by,
        reviews.last_at,
        CASE
            WHEN reviews.state = 'reviewed' AND signed_days.signed_at > reviews.last_at THEN 'closed'
            ELSE coalesce(reviews.state, 'open')
        END AS state
    FROM denials
    LEFT JOIN reviews ON reviews.tenant = denials.tenant AND reviews.denial_id = denials.event_id
    LEFT JOIN signed_days
           ON signed_days.tenant = denials.tenant
          AND signed_days.day = make_timestamp(denials.received_at // 1000)::DATE
),
queue AS NOT MATERIALIZED (
    SELECT *
    FROM (
        SELECT
            *,
            state IN ('open', 'assigned', 'awaiting_sign_off')
                AND received_at < epoch_ns(now()) - $due_hours::BIGINT * 3600000000000 AS overdue
        FROM standing
    )
    WHERE ($state::VARCHAR IS NULL OR state = $state)
      AND ($verdict::VARCHAR IS NULL OR verdict = $verdict)
      AND ($assignee::VARCHAR IS NULL OR assignee = $assignee)
      AND ($overdue::BOOLEAN IS NULL OR overdue = $overdue)
),
page AS MATERIALIZED (
    SELECT *
    FROM queue
    ORDER BY
        CASE WHEN $first = 'oldest' THEN received_at END ASC,
        CASE WHEN $first = 'oldest' THEN started_at END ASC,
        started_at DESC NULLS LAST,
        seq DESC,
        event_id DESC
    LIMIT $limit::BIGINT
    OFFSET $offset::BIGINT
),
-- Read whole for this page only: one denial among a thousand events would have every column of the table read.
whole AS MATERIALIZED (
    SELECT
        rowid AS place,
        run_id,
        name,
        decision,
        decided_by,
        rule,
        attributes ->> 'policy_digest' AS policy_digest,
        agent
    FROM events
    WHERE rowid IN (SELECT place FROM page)
      AND status = 'blocked'
),
-- Retries are defined in denial_retries. Of the table only what started while these runs ran is read, and what has no time.
times AS MATERIALIZED (
    SELECT min(started_at) AS first_ns, max(ended_at) AS last_ns
    FROM run_deltas
    WHERE run_id IN (SELECT run_id FROM whole)
),
placed AS NOT MATERIALIZED (
    SELECT tenant, run_id, event_id, seq, started_at, name, agent, kind, status
    FROM events
    WHERE started_at >= (SELECT first_ns FROM times)
      AND started_at <= (SELECT last_ns FROM times)
    UNION ALL
    SELECT tenant, run_id, event_id, seq, started_at, name, agent, kind, status
    FROM events
    WHERE started_at IS NULL
      AND seq IS NOT NULL
),
steps AS MATERIALIZED (
    SELECT
        *,
        count(*) FILTER (kind = 'llm') OVER (
            PARTITION BY tenant, run_id, agent, started_at IS NULL
            ORDER BY moment, seq, event_id
        ) AS model_calls
    FROM (
        SELECT
            tenant,
            run_id,
            event_id,
            coalesce(seq, 0) AS seq,
            started_at,
            coalesce(started_at, 0) AS moment,
            name,
            agent,
            kind,
            status
        FROM placed
        SEMI JOIN (SELECT page.tenant, whole.run_id FROM page JOIN whole ON whole.place = page.place) AS runs
            USING (tenant, run_id)
        WHERE (kind IN ('tool', 'llm') AND status <> 'started')
           OR (kind = 'gate' AND status = 'blocked')
           OR (kind = 'approval' AND status = 'suspended')
    )
),
retried AS (
    SELECT
        page.place,
        count(*) AS retries,
        bool_or(later.status NOT IN ('blocked', 'suspended')) AS got_through
    FROM page
    JOIN steps AS own ON own.tenant = page.tenant AND own.event_id = page.event_id
    JOIN steps AS later
      ON later.tenant = own.tenant
     AND later.run_id = own.run_id
     AND later.name = own.name
     AND later.kind <> 'llm'
     AND (later.started_at IS NULL) = (own.started_at IS NULL)
     AND (later.moment, later.seq, later.event_id) > (own.moment, own.seq, own.event_id)
     AND NOT (
         later.agent IS NOT DISTINCT FROM own.agent
         AND later.model_calls = own.model_calls
         AND own.model_calls > 0
     )
    GROUP BY page.place
)
SELECT
    page.event_id::VARCHAR AS event_id,
    page.tenant,
    make_timestamp(page.started_at // 1000) AS at,
    make_timestamp(page.received_at // 1000) AS received_at,
    whole.run_id,
    whole.name,
    whole.decision,
    whole.decided_by,
    whole.rule,
    whole.policy_digest,
    whole.agent,
    page.state,
    page.assignee,
    page.verdict,
    page.verdict_by,
    page.last_by,
    make_timestamp(page.last_at // 1000) AS last_at,
    coalesce(page.revision, 0) AS revision,
    page.overdue,
    coalesce(retried.retries, 0) AS retries,
    retried.got_through,
    (SELECT count(*) FROM queue) AS total
FROM page
JOIN whole ON whole.place = page.place
LEFT JOIN retried ON retried.place = page.place
ORDER BY
    CASE WHEN $first = 'oldest' THEN page.received_at END ASC,
    CASE WHEN $first = 'oldest' THEN page.started_at END ASC,
    page.started_at DESC NULLS LAST,
    page.seq DESC,
    page.event_id DESC
