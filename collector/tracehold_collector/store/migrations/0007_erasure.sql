-- What was erased: every step of every erasure, and what it was about. Append-only: the release of a legal hold is a row
-- of its own, too. None of it says what was erased: ids, numbers and words of our own only.

CREATE TABLE erasures (
    erasure_id  VARCHAR NOT NULL,
    tenant      VARCHAR NOT NULL,
    step        VARCHAR NOT NULL,   -- requested, approved, refused, frozen, unreadable, emptied, completed, bytes_gone, ...
    happened_at BIGINT  NOT NULL,   -- UTC nanoseconds since the epoch
    details     JSON    NOT NULL    -- by step, as tracehold_collector/erasure/record.py reads them
);

-- The frozen manifest: which events an erasure is about. After a deletion all that is left of an event, with its leaf.
CREATE TABLE erased_events (
    erasure_id  VARCHAR NOT NULL,
    tenant      VARCHAR NOT NULL,
    event_id    UUID    NOT NULL,
    leaf_index  BIGINT,             -- in the tenant's log; NULL for an event from before there was one
    received_at BIGINT  NOT NULL
);

-- The runs of a manifest. A run's name may tell of a person: what stays is a keyed digest.
CREATE TABLE erased_runs (
    erasure_id  VARCHAR NOT NULL,
    tenant      VARCHAR NOT NULL,
    run_digest  BLOB    NOT NULL,   -- 16 bytes
    whole       BOOLEAN NOT NULL,   -- whether all of the run was erased: then nothing more of it is taken in
    events      BIGINT  NOT NULL
);

-- The keys that an erasure destroyed: destroyed once more after the key store was restored from a backup.
CREATE TABLE erased_keys (
    erasure_id  VARCHAR NOT NULL,
    tenant      VARCHAR NOT NULL,
    key_id      UUID    NOT NULL
);

CREATE TABLE legal_holds (
    hold_id     VARCHAR NOT NULL,
    tenant      VARCHAR NOT NULL,
    step        VARCHAR NOT NULL,   -- placed, released
    happened_at BIGINT  NOT NULL,
    principal   VARCHAR NOT NULL,   -- the name of the key that did it
    kind        VARCHAR NOT NULL,   -- tenant, subject, session, run
    value       VARCHAR,            -- a pseudonym or the id of a run; NULL for a tenant
    reason      VARCHAR             -- such as the number of a case; in the words of who placed it
);
