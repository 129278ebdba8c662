-- question: Which attempts were stopped, by which rule or person, and what happened next?
-- asked by: auditor
--
-- param since TIMESTAMP = NULL: only denials at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only denials before this moment (UTC)
-- param run_id VARCHAR = NULL: only denials of this run
-- param agent VARCHAR = NULL: only denials of this agent
-- param name VARCHAR = NULL: only denials of this tool
-- param rule VARCHAR = NULL: only denials by this rule
-- param decision VARCHAR {denied, rejected, unconfirmed, expired, invalid_args, unknown_tool, tripped, limited,
--     cancelled} = NULL: only this decision
-- param limit BIGINT {1..10000} = 100: rows a page
-- param offset BIGINT {0..} = 0: rows to leave out before the page
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column at TIMESTAMP [UTC]: when it was stopped
-- column at_ns BIGINT [ns since the epoch]: the same, exactly
-- column tenant VARCHAR: whose it is
-- column run_id VARCHAR: the run
-- column event_id VARCHAR: the event that records the denial; its content holds the reason and the arguments
-- column kind VARCHAR: what stopped it: gate, approval, guardrail, or what it would have been
-- column type VARCHAR: the source's word for it
-- column name VARCHAR: the tool
-- column decision VARCHAR: what the gate said
-- column decided_by VARCHAR: who or what said it
-- column rule VARCHAR: by which rule
-- column policy_digest VARCHAR: digest of the policy the rule stood in, "sha256:..."; NULL when the gate has none
-- column agent VARCHAR: the agent that tried
-- column user_ref VARCHAR: the user the run is about, a keyed pseudonym
-- column next_event_id VARCHAR: the next event of that run; NULL when the denial was its last
-- column next_event VARCHAR: type, name and status of that event
-- column total BIGINT: rows on all pages together

-- Found by what is narrow, then read whole for this page: one denial among a thousand events would have every column of
-- the table read.
WITH denials AS NOT MATERIALIZED (
    SELECT
        rowid AS place,
        started_at,
        coalesce(seq, 0) AS seq,
        event_id
    FROM events
    -- The list of DEC-01: any decision but allowed and suspended. The answer to an approval request also carries one; the
    -- call it stopped is a row of its own, and that one is blocked.
    WHERE status = 'blocked'
      AND list_contains(['denied', 'rejected', 'unconfirmed', 'expired', 'invalid_args', 'unknown_tool', 'tripped',
                         'limited', 'cancelled'], decision)
      AND source <> 'collector'  -- what was refused to people here is no agent's denial
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($run_id::VARCHAR IS NULL OR run_id = $run_id)
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
      AND ($name::VARCHAR IS NULL OR name = $name)
      AND ($rule::VARCHAR IS NULL OR rule = $rule)
      AND ($decision::VARCHAR IS NULL OR decision = $decision)
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
),
places AS MATERIALIZED (
    SELECT place
    FROM denials
    ORDER BY started_at DESC NULLS LAST, seq DESC, event_id DESC
    LIMIT $limit::BIGINT
    OFFSET $offset::BIGINT
),
page AS MATERIALIZED (
    SELECT
        started_at,
        coalesce(seq, 0) AS seq,
        event_id,
        tenant,
        run_id,
        kind,
        type,
        name,
        decision,
        decided_by,
        rule,
        attributes ->> 'policy_digest' AS policy_digest,
        agent,
        user_ref
    FROM events
    WHERE rowid IN (SELECT place FROM places)
      AND status = 'blocked'  -- as they all are: it spares the rows between them
),
-- Taken out first and whole, so that what is worked out about each step is worked out for the runs of this page only, and
-- of the table only what started no earlier is read. A Tracer's run_end is apart: it names the run's start as its own, and
-- how long it took; it happened at the end.
steps AS MATERIALIZED (
    SELECT tenant, run_id, event_id, seq, started_at AS happened_at, type, name, status
    FROM events
    SEMI JOIN page USING (tenant, run_id)
    WHERE started_at >= (SELECT min(started_at) FROM page)
      AND type <> 'run_end'
      AND status <> 'started'  -- the opening half says less than the end that follows
    UNION ALL
    SELECT tenant, run_id, event_id, seq, started_at + coalesce(duration_ns, 0) AS happened_at, type, name, status
    FROM events
    SEMI JOIN page USING (tenant, run_id)
    WHERE started_at + coalesce(duration_ns, 0) >= (SELECT min(started_at) FROM page)
      AND type = 'run_end'
      AND status <> 'started'
),
following AS (
    SELECT
        page.tenant,
        page.event_id,
        arg_min(
            {'id': steps.event_id::VARCHAR, 'what': concat_ws(' ', steps.type, steps.name, steps.status)},
            (steps.happened_at, coalesce(steps.seq, 0), steps.event_id)
        ) AS event
    FROM page
    JOIN steps
      ON steps.tenant = page.tenant
     AND steps.run_id = page.run_id
     AND (steps.happened_at, coalesce(steps.seq, 0), steps.event_id) > (page.started_at, page.seq, page.event_id)
    GROUP BY page.tenant, page.event_id
)
SELECT
    make_timestamp(page.started_at // 1000) AS at,
    page.started_at AS at_ns,
    page.tenant,
    page.run_id,
    page.event_id::VARCHAR AS event_id,
    page.kind,
    page.type,
    page.name,
    page.decision,
    page.decided_by,
    page.rule,
    page.policy_digest,
    page.agent,
    page.user_ref,
    following.event.id AS next_event_id,
    following.event.what AS next_event,
    (SELECT count(*) FROM denials) AS total
FROM page
LEFT JOIN following USING (tenant, event_id)
ORDER BY page.started_at DESC NULLS LAST, page.seq DESC, page.event_id DESC
