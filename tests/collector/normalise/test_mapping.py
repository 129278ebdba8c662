"""The mapping table has a version, and no change of the table goes without a new one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tracehold_collector.normalise import dialects, mapping
from tracehold_collector.store.database import Database
from tracehold_collector.store.mapping_versions import note_mapping
from tracehold_queries import get

DIGESTS: dict[str, str] = json.loads((Path(__file__).resolve().parent / "mapping_digests.json").read_text())


def test_the_tables_are_those_of_their_version() -> None:
    """When this fails: give `MAPPING_VERSION` a new value, and write its digest down beside the older ones."""
    assert DIGESTS.get(mapping.MAPPING_VERSION) == mapping.mapping_digest()


def test_versions_are_days_and_are_written_down_in_order() -> None:
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d\.\d+", version) for version in DIGESTS)
    assert list(DIGESTS) == sorted(DIGESTS)
    assert list(DIGESTS)[-1] == mapping.MAPPING_VERSION


def test_a_row_more_and_another_order_are_other_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mapping.mapping_digest()
    monkeypatch.setitem(dialects.FIELD_KEYS, "agent", tuple(reversed(dialects.FIELD_KEYS["agent"])))
    reordered = mapping.mapping_digest()
    monkeypatch.setitem(dialects.KIND_KEYS, "new.kind", {"llm": "llm"})
    assert len({before, reordered, mapping.mapping_digest()}) == 3


def test_a_store_says_which_version_read_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(None)
    monkeypatch.setattr("tracehold_collector.store.mapping_versions.MAPPING_VERSION", "2026-01-01.1")
    note_mapping(database.connection, 10)
    note_mapping(database.connection, 20)
    monkeypatch.undo()
    note_mapping(database.connection, 30)
    for number, received_at in enumerate((15, 35)):
        database.connection.execute(
            "INSERT INTO events (event_id, tenant, run_id, kind, type, status, source, received_at) "
            "VALUES (uuid(), 'default', 'r', 'other', ?, 'ok', 'otlp', ?)",
            [f"odd{number}", received_at],
        )
    with database.cursor() as cursor:
        found = {row["type"]: row["mapping_version"] for row in get("unmapped").rows(cursor)}
        versions = cursor.execute("SELECT version, since FROM mapping_versions ORDER BY since").fetchall()
    assert found == {"odd0": "2026-01-01.1", "odd1": mapping.MAPPING_VERSION}
    assert versions == [("2026-01-01.1", 10), (mapping.MAPPING_VERSION, 30)]
    database.close()
