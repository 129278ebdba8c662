-- question: After a denial, did the agent try again another way, and did it get through?
-- asked by: auditor
--
-- param since TIMESTAMP = NULL: only denials at or after this moment (UTC)
-- param until TIMESTAMP = NULL: only denials before this moment (UTC)
-- param event_id VARCHAR = NULL: only this denial
-- param run_id VARCHAR = NULL: only denials of this run
-- param agent VARCHAR = NULL: only denials of this agent
-- param name VARCHAR = NULL: only denials of this tool
-- param denials BIGINT {1..1000000} = 1000: look at this many denials, the newest ones
-- param way VARCHAR {same_tool, next_turn} = NULL: only attempts of this kind
-- param got_through BOOLEAN = NULL: true: only attempts that ran; false: only the others
-- param limit BIGINT {1..10000} = 100: rows a page
-- param offset BIGINT {0..} = 0: rows to leave out before the page
-- param tenant VARCHAR = NULL: only this tenant
-- param tenants VARCHAR[] = NULL: the tenants the asker may see; NULL means all; bound by the server
--
-- column event_id VARCHAR: the denial
-- column tenant VARCHAR: whose it is
-- column run_id VARCHAR: the run
-- column at TIMESTAMP [UTC]: when it was stopped
-- column name VARCHAR: the tool that was stopped
-- column decision VARCHAR: what the gate said
-- column rule VARCHAR: by which rule
-- column agent VARCHAR: the agent that tried
-- column way VARCHAR: same_tool: the same tool again, later in the run, by whichever agent; next_turn: another tool,
--     called by the same agent's first model call after the denial
-- column retry_event_id VARCHAR: the later attempt
-- column retry_at TIMESTAMP [UTC]: when it was made
-- column retry_name VARCHAR: its tool
-- column retry_agent VARCHAR: the agent that made it
-- column outcome VARCHAR: what became of it: ran, failed (it ran and ended in an error), cancelled (while it ran),
--     stopped, waiting (for a person)
-- column got_through BOOLEAN: whether no gate stopped it: it ran, to whatever end
-- column steps BIGINT: how many attempts at tools there were from the denial to this one; 1 is the very next
-- column total BIGINT: rows on all pages together, of the denials that were looked at

WITH denials AS MATERIALIZED (
    SELECT tenant, run_id, event_id, seq, started_at, name, decision, rule, agent
    FROM events
    WHERE status = 'blocked'
      AND list_contains(['denied', 'rejected', 'unconfirmed', 'expired', 'invalid_args', 'unknown_tool', 'tripped',
                         'limited', 'cancelled'], decision)
      AND source <> 'collector'
      -- Of two events without a time only the source's own numbers tell which came first.
      AND (started_at IS NOT NULL OR seq IS NOT NULL)
      AND ($since::TIMESTAMP IS NULL OR started_at >= epoch_ns($since::TIMESTAMP))
      AND ($until::TIMESTAMP IS NULL OR started_at < epoch_ns($until::TIMESTAMP))
      AND ($event_id::VARCHAR IS NULL OR event_id = try_cast($event_id AS UUID))
      AND ($run_id::VARCHAR IS NULL OR run_id = $run_id)
      AND ($agent::VARCHAR IS NULL OR agent = $agent)
      AND ($name::VARCHAR IS NULL OR name = $name)
      AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
      AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
    ORDER BY started_at DESC NULLS LAST, seq DESC, event_id DESC
    LIMIT $denials::BIGINT
),
-- Of the table only what started while these runs ran is read, and what has no time.
times AS MATERIALIZED (
    SELECT min(started_at) AS first_ns, max(ended_at) AS last_ns
    FROM run_deltas
    WHERE run_id IN (SELECT run_id FROM denials)
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
-- Of each run that has a denial: attempts at tools, and model calls, numbered by agent.
steps AS MATERIALIZED (
    SELECT
        *,
        count(*) FILTER (is_attempt) OVER run AS attempt_no,
        count(*) FILTER (kind = 'llm') OVER own AS model_calls
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
            status,
            kind <> 'llm' AS is_attempt
        FROM placed
        SEMI JOIN denials USING (tenant, run_id)
        WHERE (kind IN ('tool', 'llm') AND status <> 'started')
           OR (kind = 'gate' AND status = 'blocked')
           OR (kind = 'approval' AND status = 'suspended')
    )
    WINDOW
        run AS (PARTITION BY tenant, run_id, started_at IS NULL ORDER BY moment, seq, event_id),
        own AS (PARTITION BY tenant, run_id, agent, started_at IS NULL ORDER BY moment, seq, event_id)
),
numbered AS (
    SELECT
        denials.* REPLACE (steps.seq AS seq),
        steps.moment,
        steps.attempt_no,
        steps.model_calls
    FROM denials
    -- A denial that is no attempt at a tool, such as a guardrail's, is not among them: it has no retries.
    JOIN steps ON steps.tenant = denials.tenant AND steps.event_id = denials.event_id AND steps.is_attempt
),
found AS MATERIALIZED (
    SELECT
        numbered.*,
        CASE WHEN steps.name = numbered.name THEN 'same_tool' ELSE 'next_turn' END AS way,
        steps.event_id AS retry_event_id,
        steps.started_at AS retry_at,
        steps.name AS retry_name,
        steps.agent AS retry_agent,
        CASE
            WHEN steps.status = 'suspended' THEN 'waiting'
            WHEN steps.status = 'blocked' THEN 'stopped'
            WHEN steps.status = 'error' THEN 'failed'
            WHEN steps.status = 'cancelled' THEN 'cancelled'
            ELSE 'ran'
        END AS outcome,
        steps.attempt_no - numbered.attempt_no AS steps
    FROM numbered
    JOIN steps
      ON steps.tenant = numbered.tenant
     AND steps.run_id = numbered.run_id
     AND steps.is_attempt
     AND (steps.started_at IS NULL) = (numbered.started_at IS NULL)
     AND (steps.moment, steps.seq, steps.event_id) > (numbered.moment, numbered.seq, numbered.event_id)
    WHERE steps.name IS NOT NULL
      AND (
          (
              steps.name = numbered.name
              -- Calls that one reply of the model asked for together are no reaction to each other.
              AND NOT (
                  steps.agent IS NOT DISTINCT FROM numbered.agent
                  AND steps.model_calls = numbered.model_calls
                  AND numbered.model_calls > 0
              )
          )
          OR (
              steps.name <> numbered.name
              AND steps.agent IS NOT DISTINCT FROM numbered.agent
              AND steps.model_calls = numbered.model_calls + 1
          )
      )
),
rows_found AS NOT MATERIALIZED (
    SELECT *, outcome IN ('ran', 'failed', 'cancelled') AS got_through
    FROM found
    WHERE ($way::VARCHAR IS NULL OR way = $way)
      AND ($got_through::BOOLEAN IS NULL OR (outcome IN ('ran', 'failed', 'cancelled')) = $got_through)
)
SELECT
    event_id::VARCHAR AS event_id,
    tenant,
    run_id,
    make_timestamp(started_at // 1000) AS at,
    name,
    decision,
    rule,
    agent,
    way,
    retry_event_id::VARCHAR AS retry_event_id,
    make_timestamp(retry_at // 1000) AS retry_at,
    retry_name,
    retry_agent,
    outcome,
    got_through,
    steps,
    (SELECT count(*) FROM rows_found) AS total
FROM rows_found
ORDER BY started_at DESC NULLS LAST, seq DESC, rows_found.event_id DESC, steps, rows_found.retry_event_id
LIMIT $limit::BIGINT
OFFSET $offset::BIGINT
