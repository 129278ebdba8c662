"""The audit log without a database: the Merkle tree, tiles, signed notes and tree heads, as RFC 9162 and C2SP say."""
