"""A store that an earlier version wrote goes on as it was."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from support.records import START
from support.stores import FOLD
from tracehold_collector.store import migrate as migrate_module
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.migrate import migrate, migrations

_DELTAS = """
INSERT INTO run_deltas (tenant, run_id, started_at, ended_at, events, llm_calls, tool_calls, denials, errors,
                        unpriced_calls, input_tokens, cost_usd, root_rank, root_name, end_at, end_status, received_at)
SELECT 'acme', 'r' || (n % 7), $start + n, $start + n + 5, 1, 1, 0, n % 2, 0, 0, n, n / 4, $start + n, 'n' || n,
       $start + n + 5, 'ok', n
FROM range(40) numbers(n)
"""


def test_runs_of_a_store_without_keys_read_the_same_before_and_after_folding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / FILE_NAME
    with duckdb.connect(str(path)) as old, monkeypatch.context() as patch:
        before = [step for step in migrations() if step.version < 5]
        patch.setattr(migrate_module, "migrations", lambda: before)
        migrate(old)
        old.execute(_DELTAS, {"start": START})
        written = old.execute("SELECT * FROM runs ORDER BY run_id").fetchall()
    database = Database(path)
    try:
        connection = database.connection
        for _ in range(3):
            assert connection.execute("SELECT * FROM runs ORDER BY run_id").fetchall() == written
            connection.execute(FOLD)
        assert connection.execute("SELECT count(*), count(run_key) FROM run_deltas").fetchone() == (7, 7)
    finally:
        database.close()
