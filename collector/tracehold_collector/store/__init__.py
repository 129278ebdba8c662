"""Events in DuckDB: one writer with group commit, readers beside it, contents in compressed chunks."""
