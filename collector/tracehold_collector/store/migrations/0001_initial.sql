-- The tables of the design. Append-only; no keys, sequences, enums or UPDATE on the hot path, so that the same
-- schema holds on DuckLake with several writers.

CREATE TABLE events (
    event_id           UUID    NOT NULL,   -- the same event always has the same id
    tenant             VARCHAR NOT NULL,
    run_id             VARCHAR NOT NULL,
    trace_id           VARCHAR,            -- W3C, lower-case hex
    span_id            VARCHAR,
    parent_span_id     VARCHAR,
    seq                BIGINT,             -- the source's own number
    kind               VARCHAR NOT NULL,   -- ours, closed
    type               VARCHAR NOT NULL,   -- the source's word
    name               VARCHAR,
    status             VARCHAR NOT NULL,   -- started, ok, error, blocked, suspended, cancelled, unset
    started_at         BIGINT,             -- UTC nanoseconds since the epoch
    duration_ns        BIGINT,
    agent              VARCHAR,
    user_ref           VARCHAR,            -- keyed pseudonym
    session_id         VARCHAR,            -- keyed pseudonym
    service            VARCHAR,
    model              VARCHAR,
    provider           VARCHAR,
    input_tokens       BIGINT,             -- cached and cache-write tokens included
    output_tokens      BIGINT,             -- reasoning tokens included
    cached_tokens      BIGINT,
    cache_write_tokens BIGINT,
    reasoning_tokens   BIGINT,
    cost_usd           DOUBLE,
    price_source       VARCHAR,
    decision           VARCHAR,
    decided_by         VARCHAR,
    rule               VARCHAR,
    error_type         VARCHAR,
    attributes         JSON,               -- allow-listed keys only
    source             VARCHAR NOT NULL,   -- otlp, tracer, engine, file
    received_at        BIGINT  NOT NULL,   -- UTC nanoseconds since the epoch
    leaf_index         BIGINT,             -- filled by the audit log
    commitment         BLOB,               -- filled by the audit log
    content_chunk      UUID,               -- where the content lies: contents.chunk_id, and the place in it
    content_pos        INTEGER
);

CREATE TABLE contents (
    chunk_id    UUID    NOT NULL,
    tenant      VARCHAR NOT NULL,
    run_id      VARCHAR NOT NULL,
    codec       VARCHAR NOT NULL,          -- how `body` is written, for the one function that reads it
    entries     INTEGER NOT NULL,
    body        BLOB,                      -- NULL once erased
    received_at BIGINT  NOT NULL
);

-- One row a run and commit, folded by the view `runs`; compacted in the background.
CREATE TABLE run_deltas (
    tenant             VARCHAR NOT NULL,
    run_id             VARCHAR NOT NULL,
    started_at         BIGINT,             -- UTC nanoseconds: the earliest start
    ended_at           BIGINT,             -- UTC nanoseconds: the latest end
    events             BIGINT NOT NULL,
    llm_calls          BIGINT NOT NULL,
    tool_calls         BIGINT NOT NULL,
    denials            BIGINT NOT NULL,
    errors             BIGINT NOT NULL,
    input_tokens       BIGINT,
    output_tokens      BIGINT,
    cost_usd           DOUBLE,
    unpriced_calls     BIGINT NOT NULL,    -- model calls with no cost: then cost_usd is a lower bound
    root_rank          BIGINT,             -- start of the event root_name comes from; 2^62 more when that is no root
    root_name          VARCHAR,
    root_status        VARCHAR,
    root_status_at     BIGINT,             -- start of the root that root_status comes from
    agent              VARCHAR,
    agent_at           BIGINT,             -- start of the event that agent comes from
    end_at             BIGINT,             -- start of the event that ended the run
    end_status         VARCHAR,            -- what that event said
    user_ref           VARCHAR,
    session_id         VARCHAR,
    service            VARCHAR,
    trace_id           VARCHAR,
    source             VARCHAR,
    received_at        BIGINT NOT NULL
);

CREATE VIEW runs AS
SELECT
    tenant,
    run_id,
    min(started_at)                                             AS started_at,
    max(ended_at) - min(started_at)                             AS duration_ns,
    sum(events)::BIGINT                                         AS events,
    sum(llm_calls)::BIGINT                                      AS llm_calls,
    sum(tool_calls)::BIGINT                                     AS tool_calls,
    sum(denials)::BIGINT                                        AS denials,
    sum(errors)::BIGINT                                         AS errors,
    sum(input_tokens)::BIGINT                                   AS input_tokens,
    sum(output_tokens)::BIGINT                                  AS output_tokens,
    sum(cost_usd)                                               AS cost_usd,
    sum(unpriced_calls)::BIGINT                                 AS unpriced_calls,
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

-- The same rows with readable times (UTC), for people and notebooks.
CREATE VIEW events_readable AS
SELECT
    make_timestamp_ns(started_at)  AS started_at_utc,
    duration_ns / 1e6              AS duration_ms,
    make_timestamp_ns(received_at) AS received_at_utc,
    *
FROM events;
