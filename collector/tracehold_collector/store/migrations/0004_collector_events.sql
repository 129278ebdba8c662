-- What happened to the collector itself: it was started and stopped, did not run, sent senders away, or its clock jumped.
-- Apart from `events`, since it is about no run and no tenant: so no list, sum or waterfall of anybody has to leave it
-- out, and everybody may see when nothing could be recorded (decision 27). Append-only as well.

CREATE TABLE collector_events (
    event_id    UUID    NOT NULL,
    type        VARCHAR NOT NULL,   -- started, stopped, gap, pause, clock
    cause       VARCHAR,            -- of a gap, a pause or a jump of the clock
    started_at  BIGINT,             -- UTC nanoseconds since the epoch; NULL: before the store began
    ended_at    BIGINT,             -- the same; NULL for a moment
    refused     BIGINT,             -- requests that were told to come back, of a pause
    version     VARCHAR NOT NULL,   -- of the Tracehold that wrote the row
    recorded_at BIGINT  NOT NULL,
    leaf_index  BIGINT,             -- filled by the audit log
    commitment  BLOB                -- filled by the audit log
);
