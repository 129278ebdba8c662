-- What events add to the sums of spend besides model calls: an agent, a task or a run that tells usage nobody below it
-- tells, an embedding. One row an event that counts now; a row goes when a call turns up that tells the same. Rows of
-- `events` stay as they came. docs/decisions/0025 says why this is decided when events are stored.

CREATE TABLE usage_shares (
    event_id           UUID    NOT NULL,
    tenant             VARCHAR NOT NULL,
    run_id             VARCHAR NOT NULL,
    started_at         BIGINT,              -- of the event, as are the others
    agent              VARCHAR,
    user_ref           VARCHAR,
    session_id         VARCHAR,
    service            VARCHAR,
    model              VARCHAR,
    provider           VARCHAR,
    calls              BIGINT  NOT NULL,    -- -1 for a model call that another one repeats, else 0
    input_tokens       BIGINT,
    output_tokens      BIGINT,
    cached_tokens      BIGINT,
    cache_write_tokens BIGINT,
    reasoning_tokens   BIGINT,
    cost_usd           DOUBLE,
    unpriced_calls     BIGINT  NOT NULL     -- 1 when nobody knows its cost, -1 for a call whose cost is in another row
);

-- Their sums for a run as of a moment; the latest row of a run counts. Sums of the other columns are of model calls.
ALTER TABLE run_deltas ADD COLUMN telling             BIGINT;   -- events that may add such a row, as they came in
ALTER TABLE run_deltas ADD COLUMN share_at            BIGINT;
ALTER TABLE run_deltas ADD COLUMN share_calls         BIGINT;
ALTER TABLE run_deltas ADD COLUMN share_input_tokens  BIGINT;
ALTER TABLE run_deltas ADD COLUMN share_output_tokens BIGINT;
ALTER TABLE run_deltas ADD COLUMN share_cost_usd      DOUBLE;
ALTER TABLE run_deltas ADD COLUMN share_unpriced      BIGINT;

CREATE OR REPLACE VIEW runs AS
SELECT
    tenant,
    run_id,
    -- A start before the year 2000 is in the wrong unit (FR-23): it is the run's only when there is no other.
    coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS started_at,
    max(ended_at) - coalesce(min(started_at) FILTER (started_at >= 946684800000000000), min(started_at)) AS duration_ns,
    sum(events)::BIGINT                                         AS events,
    (sum(llm_calls) + coalesce(arg_max_null(share_calls, share_at), 0))::BIGINT AS llm_calls,
    sum(tool_calls)::BIGINT                                     AS tool_calls,
    sum(denials)::BIGINT                                        AS denials,
    sum(errors)::BIGINT                                         AS errors,
    coalesce(
        sum(input_tokens) + arg_max_null(share_input_tokens, share_at),
        sum(input_tokens),
        arg_max_null(share_input_tokens, share_at)
    )::BIGINT AS input_tokens,
    coalesce(
        sum(output_tokens) + arg_max_null(share_output_tokens, share_at),
        sum(output_tokens),
        arg_max_null(share_output_tokens, share_at)
    )::BIGINT AS output_tokens,
    coalesce(
        sum(cost_usd) + arg_max_null(share_cost_usd, share_at),
        sum(cost_usd),
        arg_max_null(share_cost_usd, share_at)
    ) AS cost_usd,
    (sum(unpriced_calls) + coalesce(arg_max_null(share_unpriced, share_at), 0))::BIGINT AS unpriced_calls,
    arg_min(root_name, root_rank)                               AS name,
    coalesce(arg_max(end_status, end_at), arg_min(root_status, root_status_at), 'unset') AS status,
    arg_min(agent, agent_at)                                    AS agent,
    min(user_ref)                                               AS user_ref,
    min(session_id)                                             AS session_id,
    min(service)                                                AS service,
    min(trace_id)                                               AS trace_id,
    min(source)                                                 AS source,
    max(received_at)                                            AS received_at
FROM run_deltas
GROUP BY tenant, run_id;

CREATE OR REPLACE VIEW spend_entries AS
SELECT
    tenant, run_id, started_at, agent, user_ref, session_id, service, model, provider,
    input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens,
    cost_usd,
    1                                       AS calls,
    (cost_usd IS NULL)::BIGINT              AS unpriced_calls
FROM events
WHERE kind = 'llm'
  AND status <> 'started'
UNION ALL
SELECT
    tenant, run_id, started_at, agent, user_ref, session_id, service, model, provider,
    NULL, NULL, NULL, NULL, NULL,
    change_usd,
    0,
    -newly_priced
FROM costs
WHERE change_usd <> 0
   OR newly_priced <> 0
UNION ALL
SELECT
    tenant, run_id, started_at, agent, user_ref, session_id, service, model, provider,
    input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens,
    cost_usd,
    calls,
    unpriced_calls
FROM usage_shares;

-- Which version of the mapping table read what: events received from `since` on.
CREATE TABLE mapping_versions (
    version VARCHAR NOT NULL,
    since   BIGINT  NOT NULL                -- UTC nanoseconds since the epoch
);
