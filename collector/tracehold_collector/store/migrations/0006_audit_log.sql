-- The audit log: one RFC 6962 Merkle tree a tenant, written in the transaction of its events, and its signed tree heads.
-- Append-only as well. Events from before have no place in it: their `leaf_index` stays NULL.

-- Leaf hashes (level 0), one row a tenant and commit; and the roots of full subtrees of 256 leaves (level 1), of 65,536
-- (level 2) and so on, as the tiles of C2SP tlog-tiles have them, in the commit that filled them.
CREATE TABLE log_hashes (
    tenant      VARCHAR  NOT NULL,
    level       UTINYINT NOT NULL,
    first_index BIGINT   NOT NULL,          -- of the first hash, in its level
    hashes      BLOB     NOT NULL,          -- 32 bytes each, one behind the other
    received_at BIGINT   NOT NULL           -- UTC nanoseconds since the epoch: of the commit
);

CREATE TABLE tree_heads (
    tenant    VARCHAR NOT NULL,
    size      BIGINT  NOT NULL,             -- leaves it covers
    root      BLOB    NOT NULL,
    signed_at BIGINT  NOT NULL,             -- UTC nanoseconds since the epoch
    note      VARCHAR NOT NULL              -- the signed note (C2SP tlog-checkpoint)
);

-- Which key sealed a chunk; NULL for one that is not sealed, from before.
ALTER TABLE contents ADD COLUMN key_id UUID;
