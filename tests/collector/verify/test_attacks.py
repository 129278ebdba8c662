"""An attacker with full write access to the database, and what verifying says afterwards.

He knows every format. He has no key: neither the one that signs tree heads, nor those of contents.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tracehold.core.clock import now_ns
from tracehold_collector.audit.leaves import EVENT, event_digests, leaf_hashes
from tracehold_collector.audit.merkle import root_of
from tracehold_collector.audit.signing import Signer
from tracehold_collector.store.database import Database
from tracehold_collector.store.log_rows import read_rows
from tracehold_collector.verify.findings import Report


def columns(table: str) -> list[tuple[str, str]]:
    database = Database(None)
    found = database.connection.execute(f"DESCRIBE {table}").fetchall()
    database.close()
    return [(row[0], row[1]) for row in found]


ANOTHER = {
    "UUID": "uuid()",
    "VARCHAR": "coalesce({0}, '') || 'x'",
    "JSON": "'{{\"a\": 2}}'",
    "BIGINT": "coalesce({0}, 0) + 1",
    "UBIGINT": "coalesce({0}, 0) + 1",
    "INTEGER": "coalesce({0}, 0) + 1",
    "UTINYINT": "({0} + 1)::UTINYINT",
    "DOUBLE": "coalesce({0}, 0) + 1",
    "BLOB": "coalesce({0}, ''::BLOB) || '\\x01'::BLOB",
}
EVENTS = columns("events")


def edit(world: Any, table: str, column: str, text: str, where: str, *bound: Any) -> None:
    """Alter one column of the rows of the tenant `default` that fit a condition."""
    world.sql(f"UPDATE {table} SET {column} = {text} WHERE tenant = 'default' AND {where}", *bound)  # noqa: S608


def another(column: str, kind: str) -> str:
    """Another value than the column's."""
    return ANOTHER[kind].format(column)


@pytest.mark.parametrize(("column", "kind"), EVENTS, ids=[name for name, _ in EVENTS])
@pytest.mark.parametrize("leaf", [1, 2])
def test_an_edit_of_any_column_of_an_event_is_found_and_the_event_named(
    world: Any, column: str, kind: str, leaf: int
) -> None:
    ((event_id, said),) = world.sql(
        "SELECT event_id::VARCHAR, content_chunk IS NOT NULL FROM events WHERE tenant = 'default' AND leaf_index = ?",
        leaf,
    )
    assert said
    edit(world, "events", column, another(column, kind), "leaf_index = ?", leaf)
    report = world.verify()
    assert not report.intact
    named = {finding.event_id for finding in report.findings} | {finding.leaf_index for finding in report.findings}
    assert (leaf in named) if column in {"event_id", "leaf_index", "tenant"} else (event_id in named)


@pytest.mark.parametrize("value", ["''", "NULL"])
@pytest.mark.parametrize("column", ["decision", "rule", "decided_by"])
def test_a_denial_that_was_made_an_empty_word_or_none_is_found(world: Any, column: str, value: str) -> None:
    edit(world, "events", column, value, "leaf_index = 2")
    report = world.verify()
    assert [finding.leaf_index for finding in report.findings if finding.leaf_index is not None] == [2]


def test_a_flip_from_deny_to_allow_is_found(world: Any) -> None:
    world.sql("UPDATE events SET decision = 'allowed', status = 'ok' WHERE tenant = 'default' AND leaf_index = 2")
    report = world.verify()
    assert report.counts["altered"] == 1
    assert report.counts["verified"] == 399


CONTENTS = columns("contents")


@pytest.mark.parametrize(("column", "kind"), CONTENTS, ids=[name for name, _ in CONTENTS])
def test_an_edit_of_any_column_of_a_content_is_found_and_its_events_named(world: Any, column: str, kind: str) -> None:
    ((chunk, event_id),) = world.sql(
        "SELECT content_chunk, event_id::VARCHAR FROM events WHERE tenant = 'default' AND leaf_index = 1"
    )
    edit(world, "contents", column, another(column, kind), "chunk_id = ?", chunk)
    report = world.verify()
    assert event_id in {finding.event_id for finding in report.findings}


KEPT = [name for name, _ in columns("run_deltas")]
FREE = {"tenant", "run_id"}
"""A sum that nobody has events for, or events that nobody has sums for: told by the run's id."""


@pytest.mark.parametrize(("column", "kind"), columns("run_deltas"), ids=KEPT)
def test_an_edit_of_any_sum_of_a_run_is_found_and_the_run_named(world: Any, column: str, kind: str) -> None:
    text = {"share_at": "NULL", "telling": "telling + 1"}.get(column, another(column, kind))
    edit(world, "run_deltas", column, text, "run_id = 'run-3'")
    report = world.verify()
    if column in {"root_rank", "root_status_at", "agent_at", "end_at", "share_at", "telling", "received_at"}:
        return  # which of several words counts, and when sums were made: shown to nobody; the words themselves are held
    assert any("run-3" in finding.what for finding in report.findings)


def test_an_edit_of_what_a_call_was_found_to_cost_later_is_found(world: Any) -> None:
    world.sql(
        "INSERT INTO costs BY NAME SELECT event_id, tenant, run_id, 1.0 AS cost_usd, 'p' AS price_source, "
        "1 AS priced_at, 0.5 AS change_usd, 0 AS newly_priced FROM events WHERE tenant = 'default' AND leaf_index = 1"
    )
    assert any("run-0" in finding.what for finding in world.verify().findings)


HASHES = columns("log_hashes")


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(("column", "kind"), HASHES, ids=[name for name, _ in HASHES])
def test_an_edit_of_any_column_of_the_kept_hashes_is_found(world: Any, column: str, kind: str, level: int) -> None:
    edit(world, "log_hashes", column, another(column, kind), "first_index = 0 AND level = ?", level)
    if (column, level) == ("received_at", 1):
        return  # when a subtree was full says the commit of its last leaf, whose own hash has the time
    assert not world.verify().intact


HEADS = columns("tree_heads")


@pytest.mark.parametrize(("column", "kind"), HEADS, ids=[name for name, _ in HEADS])
def test_an_edit_of_any_column_of_a_tree_head_is_found(world: Any, column: str, kind: str) -> None:
    text = "signed_at + 5000000000" if column == "signed_at" else another(column, kind)
    edit(world, "tree_heads", column, text, "size = 44")
    alarms = world.verify().alarms + (0 if column != "tenant" else world.verify("defaultx").alarms)
    assert alarms


def test_a_hash_that_was_altered_alone_is_told_from_an_altered_event(world: Any) -> None:
    edit(world, "log_hashes", "hashes", "unhex(repeat('ab', 128))", "first_index = 0 AND level = 0")
    whats = {finding.leaf_index: finding.what for finding in world.verify().findings if finding.leaf_index in range(4)}
    assert all("the event stands" in what for what in whats.values())
    assert set(whats) >= {0, 1, 2, 3}


def test_a_deleted_row_is_missing(world: Any) -> None:
    world.sql("DELETE FROM events WHERE tenant = 'default' AND leaf_index = 17")
    report = world.verify()
    assert ("missing", 17) in {(finding.state, finding.leaf_index) for finding in report.findings}
    assert report.counts["missing"] == 1


def test_a_deleted_content_is_missing_and_so_is_one_that_was_emptied(world: Any) -> None:
    world.sql("DELETE FROM contents WHERE run_id = 'run-1'")
    world.sql("UPDATE contents SET body = NULL WHERE run_id = 'run-2'")
    report = world.verify()
    assert report.counts["missing"] == 6
    assert not report.counts["erased"]


def test_rows_that_were_deleted_under_a_forged_erasure_are_missing(world: Any) -> None:
    world.sql(
        "INSERT INTO erased_events SELECT 'e1', tenant, event_id, leaf_index, received_at FROM events "
        "WHERE run_id = 'run-1'"
    )
    world.sql("DELETE FROM events WHERE run_id = 'run-1'")
    assert any("the log does not say" in finding.what for finding in world.verify().findings)


def cut(world: Any, size: int) -> None:
    """Take the end off the log, tree heads and all."""
    world.sql("DELETE FROM events WHERE tenant = 'default' AND leaf_index >= ?", size)
    world.sql("DELETE FROM log_hashes WHERE tenant = 'default' AND level = 0 AND first_index >= ?", size)
    world.sql("DELETE FROM log_hashes WHERE tenant = 'default' AND level = 1 AND first_index >= ?", size // 256)
    world.sql("DELETE FROM tree_heads WHERE tenant = 'default' AND size > ?", size)
    world.sql("DELETE FROM run_deltas WHERE tenant = 'default' AND run_id NOT IN (SELECT run_id FROM events)")
    world.sql("DELETE FROM contents WHERE tenant = 'default' AND run_id NOT IN (SELECT run_id FROM events)")


def test_a_tail_that_was_cut_off_with_its_tree_heads_is_missed_by_the_second_copy(world: Any) -> None:
    cut(world, 204)
    report = world.verify(with_copies=True)
    assert any("its end was cut off" in finding.what for finding in report.findings)


def test_a_tail_that_was_cut_off_without_its_tree_heads_is_missed_by_these(world: Any) -> None:
    heads = world.sql("SELECT * FROM tree_heads WHERE tenant = 'default' AND size = 400")
    cut(world, 204)
    world.sql("INSERT INTO tree_heads VALUES (?, ?, ?, ?, ?)", *heads[0])
    assert any("its end was cut off" in finding.what for finding in world.verify().findings)


def test_two_rows_that_changed_places_are_both_named(world: Any) -> None:
    world.sql("UPDATE events SET leaf_index = 15 - leaf_index WHERE tenant = 'default' AND leaf_index IN (5, 10)")
    report = world.verify()
    assert report.counts["altered"] == 2
    assert {finding.leaf_index for finding in report.findings} >= {5, 10}


def test_contents_that_changed_places_are_both_named(world: Any) -> None:
    (one,), (two,) = world.sql("SELECT content_chunk FROM events WHERE tenant = 'default' AND leaf_index IN (1, 9)")
    world.sql(
        "UPDATE contents SET body = (SELECT body FROM contents c WHERE c.chunk_id = ?) WHERE chunk_id = ?", two, one
    )
    assert {finding.leaf_index for finding in world.verify().findings} == {1, 2, 3}


def test_a_row_that_was_put_in_again_is_found(world: Any) -> None:
    world.sql("INSERT INTO events SELECT * FROM events WHERE tenant = 'default' AND leaf_index = 2")
    report = world.verify()
    assert any(finding.leaf_index == 2 and "more than one event" in finding.what for finding in report.findings)


def test_a_row_beside_the_log_is_found(world: Any) -> None:
    world.sql(
        "INSERT INTO events SELECT * REPLACE (uuid() AS event_id, NULL AS leaf_index) FROM events "
        "WHERE tenant = 'default' AND leaf_index = 2"
    )
    assert any("beside the log" in finding.what for finding in world.verify().findings)


def leaf_of(world: Any, tenant: str, index: int) -> bytes:
    """The leaf hash that a row of the store would have."""
    rows = read_rows(world.database.connection, tenant, index, index + 1)
    said = rows.column("content_chunk")[0].as_py() is not None
    digest = event_digests(rows, rows.column("commitment")[0].as_py(), [said])[0]
    return leaf_hashes(EVENT, rows.column("received_at")[0].as_py(), rows.column("event_id")[0].as_py(), digest)[0]


def test_a_backdated_row_with_a_leaf_of_its_own_is_found(world: Any, append: Callable[..., None]) -> None:
    world.sql(
        "INSERT INTO events SELECT * REPLACE (? AS event_id, 400 AS leaf_index) FROM events "
        "WHERE tenant = 'default' AND leaf_index = 2",
        uuid.UUID(int=77),
    )
    append("default", leaf_of(world, "default", 400))
    report = world.verify()
    assert any("claims to have come before" in finding.what for finding in report.findings)
    assert report.covered == 400  # no tree head covers it


def rewrite(world: Any, signer: Signer | None) -> None:
    """Alter a denial and make everything fit again: hashes, subtrees and, with a key, the tree heads."""
    world.sql("UPDATE events SET decision = 'allowed' WHERE tenant = 'default' AND leaf_index = 2")
    leaves = [leaf_of(world, "default", index) for index in range(400)]
    world.sql("DELETE FROM log_hashes WHERE tenant = 'default'")
    for first in range(0, 400, 4):
        (received_at,) = world.sql("SELECT received_at FROM events WHERE tenant = 'default' AND leaf_index = ?", first)[
            0
        ]
        world.sql(
            "INSERT INTO log_hashes VALUES ('default', 0, ?, ?, ?)",
            first,
            b"".join(leaves[first : first + 4]),
            received_at,
        )
    world.sql("INSERT INTO log_hashes VALUES ('default', 1, 0, ?, 0)", root_of(leaves[:256]))
    if signer is not None:
        world.sql("DELETE FROM tree_heads WHERE tenant = 'default'")
        note = signer.sign_head("default", 400, root_of(leaves), now := now_ns())
        world.sql("INSERT INTO tree_heads VALUES ('default', 400, ?, ?, ?)", root_of(leaves), now, note)


def bracketed(report: Report) -> set[str]:
    return {finding.what for finding in report.findings if "not those that the tree head" in finding.what}


def test_a_log_that_was_rebuilt_without_a_key_does_not_fit_its_tree_heads(world: Any) -> None:
    rewrite(world, None)
    found = bracketed(world.verify())
    assert any("leaves 0 to 43" in what for what in found)
    assert len(found) == 3


def test_a_log_that_was_rebuilt_with_another_key_is_not_believed(world: Any, folder: Path) -> None:
    rewrite(world, Signer(folder, now_ns(), name=world.signer.name))
    assert any("cannot be believed" in finding.what for finding in world.verify().findings)


def test_a_log_that_was_rebuilt_with_our_own_key_is_given_away_by_an_earlier_tree_head(world: Any) -> None:
    rewrite(world, world.signer)
    assert world.verify().intact
    report = world.verify(with_copies=True)
    assert any("two versions of this log" in finding.what for finding in report.findings)
    assert any("leaves 0 to 43" in what for what in bracketed(report))


def test_two_versions_that_were_signed_for_one_size_are_found(world: Any) -> None:
    note = world.signer.sign_head("default", 44, bytes(32), now_ns())
    world.sql("INSERT INTO tree_heads VALUES ('default', 44, ?, ?, ?)", bytes(32), now_ns(), note)
    assert any("two versions of this log" in finding.what for finding in world.verify().findings)


def test_the_log_of_another_tenant_is_intact_beside_an_altered_one(world: Any) -> None:
    world.sql("UPDATE events SET decision = 'allowed' WHERE tenant = 'default'")
    assert not world.verify().intact
    assert world.verify("other").intact
