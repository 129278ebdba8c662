"""Erasing: what goes, what stays, and what is told of it."""

# ruff: noqa: S608 - statements made of names of ours

from __future__ import annotations

import json
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
import zstandard
from support.erasing import ADMIN, ALICE, OTHER, OTHERS, PSEUDONYMS, Store, fill, opened
from support.processes import wait_for
from support.records import make_record
from tracehold_collector.audit.merkle import root_of
from tracehold_collector.core.errors import BadBodyError, ConflictError, NotAllowedError
from tracehold_collector.erasure.engine import Parts
from tracehold_collector.erasure.record import PlaceCount
from tracehold_collector.erasure.service import Rules
from tracehold_collector.store.chunks import (
    CHUNK_COLUMNS,
    PLAIN,
    Chunk,
    commitment_of,
    entries_of,
    open_chunk,
    read_chunks,
)
from tracehold_collector.store.committer import Committer, Receipt

_THEIRS = "source <> 'collector'"


def _place(record: Any, name: str) -> PlaceCount:
    return next(place for place in record.places if place.place == name)


def test_a_preview_says_what_would_go_and_changes_nothing(store: Store) -> None:
    fill(store)
    preview = store.erasures.preview({"scope": "subject", "value": "alice", "mode": "delete"}, ADMIN)
    assert preview.scope_value == PSEUDONYMS.user("alice")  # the plain id goes no further
    assert (preview.runs, preview.whole_runs, preview.events, preview.keys) == (3, 2, 8, 3)
    assert [stayed.what for stayed in preview.stayed] == ["3 events of 1 run shared with others"]
    assert preview.content_bytes > 0
    assert set(store.said()) == ALICE | OTHERS
    assert store.count("erasures") == store.count("erased_events") == 0


def test_after_a_scrub_the_envelopes_stay_and_nobody_reads_what_was_said(store: Store) -> None:
    fill(store)
    before = store.rows(f"SELECT * FROM events WHERE {_THEIRS} ORDER BY event_id")
    runs = store.rows("SELECT run_id, events, input_tokens, cost_usd FROM runs ORDER BY run_id")
    record = store.erase(scope="subject", value="alice", mode="scrub", basis="gdpr-17-1-a")
    assert set(store.said()) == OTHERS
    assert store.rows(f"SELECT * FROM events WHERE {_THEIRS} ORDER BY event_id") == before
    kept = store.rows(
        "SELECT run_id, events, input_tokens, cost_usd FROM runs WHERE source <> 'collector' ORDER BY run_id"
    )
    assert kept == runs
    assert record.status == "completed"
    assert record.unreadable_since is not None
    contents = _place(record, "contents")
    assert (contents.emptied, contents.resealed, contents.removed) == (3, 2, 0)
    assert _place(record, "events") == PlaceCount("events", 8)
    assert store.count("contents", "body IS NULL") == 3


def test_after_a_deletion_only_the_leaves_and_ids_stay(store: Store) -> None:
    fill(store)
    others = store.rows("SELECT * FROM events WHERE event_id IN (SELECT unnest(?::UUID[])) ORDER BY 1", _ids(OTHERS))
    record = store.erase(scope="subject", value="alice", mode="delete", basis="gdpr-17-1-b")
    assert store.rows(f"SELECT * FROM events WHERE {_THEIRS} ORDER BY 1") == others
    assert set(store.said()) == OTHERS
    assert store.rows("SELECT run_id, events FROM runs WHERE source <> 'collector' ORDER BY 1") == [
        ("bob-1", 3),
        ("both", 3),
    ]
    erased = store.rows("SELECT event_id, leaf_index FROM erased_events ORDER BY leaf_index")
    assert {event_id.int for event_id, _ in erased} == ALICE
    assert _place(record, "events").removed == 8
    assert store.count("contents", "body IS NULL") == 0
    # The log's leaves stay as they are, and the record says which ones it was about.
    ((hashes,),) = store.rows(
        "SELECT string_agg(hex(hashes), '' ORDER BY first_index) FROM log_hashes WHERE level = 0 AND tenant = 'default'"
    )
    leaves = bytes.fromhex(hashes)
    assert record.leaves == 8
    assert record.root == root_of([leaves[32 * leaf : 32 * leaf + 32] for _, leaf in erased])


def test_figures_of_a_run_that_stays_in_part_are_those_of_what_is_left(store: Store) -> None:
    fill(store)
    before = store.rows("SELECT * EXCLUDE (received_at) FROM runs WHERE run_id = 'bob-1'")
    store.erase(scope="subject", value="alice", mode="delete")
    ((events, tokens, cost, user),) = store.rows(
        "SELECT events, input_tokens, cost_usd, user_ref FROM runs WHERE run_id = 'both'"
    )
    assert (events, tokens, cost, user) == (3, 30, 0.75, PSEUDONYMS.user("bob"))
    store.writer.run(lambda committer: committer.fold()).result(10)
    assert store.rows("SELECT events, cost_usd FROM runs WHERE run_id = 'both'") == [(3, 0.75)]
    assert store.rows("SELECT * EXCLUDE (received_at) FROM runs WHERE run_id = 'bob-1'") == before


def test_one_event_goes_and_its_neighbours_under_the_same_key_stay(store: Store) -> None:
    fill(store)
    store.add(make_record(35, "both", content={"text": "later"}))  # a chunk more under the run's key
    keys = dict(store.rows("SELECT chunk_id, key_id FROM contents WHERE run_id = 'both'"))
    record = store.erase(scope="event", value=str(uuid.UUID(int=31)), mode="scrub", basis="gdpr-17-1-c")
    assert set(store.said()) == (ALICE | OTHERS | {35}) - {31}
    now = dict(store.rows("SELECT chunk_id, key_id FROM contents WHERE run_id = 'both'"))
    assert now.keys() == keys.keys()
    assert set(now.values()).isdisjoint(keys.values())
    assert store.database.vault.keys.open(set(keys.values())) == {}
    assert (record.runs, record.whole_runs, record.events) == (1, 0, 1)
    # The run was not erased: it goes on.
    assert store.add(make_record(36, "both")) == Receipt(1, 0)


def test_what_stays_is_what_its_commitment_says(store: Store) -> None:
    fill(store)
    store.erase(scope="subject", value="alice", mode="scrub")
    rows = store.rows(f"SELECT {CHUNK_COLUMNS} FROM contents WHERE run_id = 'both' AND body IS NOT NULL")
    entries = {row[0]: entries_of(Chunk(*row), store.database.vault) for row in rows}
    assert len(entries) == 2
    kept = {
        event_id.int
        for event_id, told, chunk, place in store.rows(
            "SELECT event_id, commitment, content_chunk, content_pos FROM events WHERE run_id = 'both'"
        )
        if chunk in entries and commitment_of(entries[chunk][place]) == told
    }
    assert kept == {31, 32, 34}


def test_an_unknown_run_comes_to_nothing_and_the_record_says_zero(store: Store) -> None:  # FR-47
    fill(store)
    record = store.erase(scope="run", value="no-such-run", mode="delete")
    assert (record.runs, record.events, record.keys, record.status) == (0, 0, 0, "completed")
    assert {(place.place, place.found, place.removed) for place in record.places} == {
        (name, 0, 0) for name in ("keys", "contents", "events", "run_deltas", "costs", "usage_shares")
    }
    assert set(store.said()) == ALICE | OTHERS


def test_one_run_of_a_session_goes_and_a_late_span_of_it_is_refused(store: Store) -> None:  # FR-47
    session = PSEUDONYMS.session("s1")
    store.add(*(make_record(n, f"run-{n}", session_id=session, content={"text": f"said {n}"}) for n in (1, 2, 3)))
    record = store.erase(scope="run", value="run-2", mode="delete")
    assert store.add(make_record(4, "run-2"), make_record(2, "run-2")) == Receipt(0, 0, erased=2)
    assert set(store.said()) == {1, 3}
    assert _place(record, "events").removed == 1
    left = b"".join(path.read_bytes() for path in store.folder.glob("keys.db*"))
    assert b"said" not in left


def test_a_whole_session_goes(store: Store) -> None:
    session = PSEUDONYMS.session("s1")
    store.add(*(make_record(n, f"run-{n}", session_id=session) for n in (1, 2)), make_record(3, "run-3"))
    record = store.erase(scope="session", value="s1", mode="delete")
    assert (record.scope_value, record.whole_runs) == (session, 2)
    assert set(store.said()) == {3}


def test_a_tenant_goes_and_what_the_collector_tells_of_itself_stays(store: Store) -> None:
    fill(store)
    store.add(make_record(50, "elsewhere", tenant="globex"))
    record = store.erase(scope="tenant", mode="delete")
    assert set(store.said()) == {50}
    assert {row[0] for row in store.rows("SELECT DISTINCT run_id FROM events")} == {"elsewhere", record.run_id}


def test_each_step_is_an_event_in_the_log_under_the_name_of_who_did_it(store: Store) -> None:
    fill(store)
    record = store.erase(scope="run", value="bob-1", mode="scrub", note="ticket 4711 of Bob")
    told = store.rows(
        "SELECT type, decided_by, leaf_index IS NOT NULL FROM events WHERE run_id = ? ORDER BY leaf_index",
        record.run_id,
    )
    assert told == [
        ("tracehold.erasure.requested", "dpo", True),
        ("tracehold.erasure.started", "the collector", True),
        ("tracehold.erasure.completed", "the collector", True),
    ]
    # Words are content: they stand in no open column and no table of ours.
    tables = ("events", "erasures", "erased_events", "erased_runs", "erased_keys")
    assert "4711" not in json.dumps([store.rows(f"SELECT * FROM {table}") for table in tables], default=str)
    assert any("ticket 4711 of Bob" in str(content) for content in _collector_said(store, record.run_id))


def test_neither_tables_nor_key_store_name_a_person(store: Store) -> None:
    store.add(make_record(1, "run-of-alice@example.org", user_ref=PSEUDONYMS.user("alice@example.org")))
    store.add(make_record(2, "bob@example.org"))
    store.erase(scope="subject", value="alice@example.org", mode="delete")
    record = store.erase(scope="run", value="bob@example.org", mode="delete")
    assert (record.events, record.scope_value) == (1, PSEUDONYMS.run_name("bob@example.org"))
    tables = [row[0] for row in store.rows("SELECT table_name FROM duckdb_tables()")]
    said = json.dumps([store.rows(f"SELECT * FROM {table}") for table in tables], default=str)
    assert "example.org" not in said
    assert b"example.org" not in b"".join(path.read_bytes() for path in store.folder.glob("keys.db*"))


@pytest.mark.parametrize(
    ("scope", "value"), [("tenant", None), ("run", "alice-1"), ("subject", "alice"), ("run", "alice-2")]
)
def test_what_is_under_a_legal_hold_stays_and_the_record_says_so(store: Store, scope: str, value: str | None) -> None:
    fill(store)
    body = {"scope": scope, "reason": "case 12/26"} | ({} if value is None else {"value": value})
    hold = store.erasures.place_hold(body, OTHER)
    record = store.erase(scope="subject", value="alice", mode="delete", basis="gdpr-17-1-a")
    held = {"tenant": ALICE, "subject": ALICE}.get(scope) or {n for n in ALICE if n // 10 == int(str(value)[-1]) - 1}
    if scope == "subject":
        held = ALICE
    assert set(store.said()) == OTHERS | held
    assert any(hold.id in stayed.why for stayed in record.stayed)
    assert record.status == ("refused" if held == ALICE else "completed")
    store.erasures.release_hold(hold.id, OTHER)
    store.erase(scope="subject", value="alice", mode="delete", basis="gdpr-17-1-a")
    assert set(store.said()) == OTHERS


def test_a_purge_by_age_leaves_half_a_year_and_a_request_under_art_17_passes(store: Store) -> None:
    fill(store)
    body = {"scope": "age", "value": "2100-01-01", "mode": "delete"}
    with pytest.raises(NotAllowedError, match="leaves what is younger than 183 days"):
        store.erasures.request(body, ADMIN)
    assert store.count("erasures") == 0
    store.erase(**body, basis="gdpr-17-1-a")
    assert store.said() == {}


def test_in_strict_mode_nothing_goes_before_a_second_person_has_said_yes(tmp_path: Path) -> None:
    with opened(tmp_path, Rules(strict=True)) as store:
        fill(store)
        record = store.erase(scope="run", value="bob-1", mode="delete")
        assert record.status == "waiting for approval"
        with pytest.raises(NotAllowedError, match="somebody else has to approve"):
            store.erasures.approve(record.id, ADMIN)
        assert set(store.said()) == ALICE | OTHERS
        store.erasures.approve(record.id, OTHER)
        done = store.erasures.engine.finish(record.id)
        assert (done.status, done.requester, done.approver) == ("completed", "dpo", "counsel")
        assert set(store.said()) == (ALICE | OTHERS) - {20, 21, 22}
        with pytest.raises(ConflictError, match="waits for nobody"):
            store.erasures.refuse(record.id, OTHER)


@pytest.mark.parametrize(("who", "why"), [(ADMIN, "withdrawn"), (OTHER, "rejected")])
def test_a_request_that_was_refused_comes_to_nothing(tmp_path: Path, who: Any, why: str) -> None:
    with opened(tmp_path, Rules(strict=True)) as store:
        fill(store)
        record = store.erase(scope="run", value="bob-1", mode="delete")
        store.erasures.refuse(record.id, who)
        done = store.erasures.engine.finish(record.id)
        assert (done.status, done.refused_why) == ("refused", why)
        assert set(store.said()) == ALICE | OTHERS


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"scope": "person", "value": "x"}, "'scope' is one of"),
        ({"scope": "run"}, "'value' says which run"),
        ({"scope": "tenant", "value": "acme"}, "leave 'value' out"),
        ({"scope": "event", "value": "no id"}, "ids of events"),
        ({"scope": "age", "value": "soon"}, "is a time as"),
        ({"scope": "run", "value": "r", "mode": "burn"}, "'mode' is one of scrub, delete"),
        ({"scope": "run", "value": "r", "basis": "retention"}, "'basis' is one of"),
        ({"scope": "run", "value": "r", "received_at": "2100-01-01"}, "in the future"),
        ({"scope": "run", "value": "r", "more": 1}, "has no 'more'"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_says_what_would(
    store: Store, body: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadBodyError, match=message):
        store.erasures.request(body, ADMIN)


def test_the_background_thread_carries_out_what_is_asked_for(tmp_path: Path) -> None:
    rewritten: list[int] = []
    with opened(tmp_path, parts=Parts(rewrite=lambda: rewritten.append(1))) as store:
        fill(store)
        store.erasures.start()
        record = store.erasures.request({"scope": "run", "value": "bob-1", "mode": "delete"}, ADMIN)
        done = store.erasures.wait(record.id, 30)
        assert (done.status, rewritten) == ("bytes gone", [1])
        assert [step for step, _ in done.steps if step != "lot"] == [
            "requested", "frozen", "unreadable", "emptied", "completed", "bytes_gone", "scanned",
        ]  # fmt: skip


def test_a_step_that_fails_is_told_and_the_next_start_goes_on(tmp_path: Path) -> None:
    def broken() -> None:
        raise OSError("the disk is full")

    with opened(tmp_path, parts=Parts(rewrite=broken)) as store:
        fill(store)
        record = store.erasures.request({"scope": "run", "value": "bob-1", "mode": "delete"}, ADMIN)
        with pytest.raises(OSError, match="disk"):
            store.erasures.engine.finish(record.id)
        store.erasures.engine.failed(store.erasures.engine.record(record.id), OSError())
        failed = store.erasures.engine.record(record.id)
        assert (failed.status, failed.failures, failed.last_error) == ("completed", 1, "OSError")
    with opened(tmp_path, parts=Parts(rewrite=lambda: None)) as store:
        store.erasures.start()
        assert store.erasures.wait(record.id, 30).status == "bytes gone"


def _ids(numbers: set[int]) -> list[uuid.UUID]:
    return [uuid.UUID(int=number) for number in sorted(numbers)]


def _collector_said(store: Store, run_id: str) -> list[Any]:
    rows = store.rows(f"SELECT {CHUNK_COLUMNS} FROM contents WHERE run_id = ?", run_id)
    return [contents for _, contents in read_chunks(rows, store.database.vault)]


def test_what_an_erasure_said_can_be_emptied_while_it_goes_on(store: Store) -> None:
    fill(store)
    record = store.erasures.request({"scope": "run", "value": "bob-1", "note": "Bob of 4711"}, ADMIN)
    store.erase(scope="run", value=record.run_id, mode="scrub")
    assert not any("4711" in str(content) for content in _collector_said(store, record.run_id))
    store.erasures.engine.finish(record.id)
    assert store.count("events", f"run_id = '{record.run_id}'") == 3


def test_a_file_that_cannot_be_written_holds_up_nobody_elses_erasure(tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow() -> None:
        entered.set()
        leave.wait(30)

    with opened(tmp_path, parts=Parts(rewrite=slow)) as store:
        fill(store)
        store.erasures.start()
        store.erasures.request({"scope": "run", "value": "bob-1"}, ADMIN)
        assert entered.wait(30)
        other = store.erasures.request({"scope": "run", "value": "alice-1"}, ADMIN)
        wait_for(lambda: store.erasures.engine.record(other.id).completed_at is not None)
        leave.set()
        assert store.erasures.wait(other.id, 30).status == "bytes gone"


def test_content_from_before_there_were_keys_is_unreadable_only_once_the_file_was_written_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        fill(store)
        _as_before_keys(store)
        assert set(store.said()) == ALICE | OTHERS
        preview = store.erasures.preview({"scope": "subject", "value": "alice"}, ADMIN)
        assert (preview.unsealed, preview.keys) == (4, 0)
        record = store.erase(scope="subject", value="alice", mode="scrub")
        assert (record.status, record.unsealed, record.unreadable_since) == ("completed", 4, None)
        assert set(store.said()) == OTHERS
        # What shared a chunk with it is sealed from now on.
        assert store.count("contents", "run_id = 'both' AND key_id IS NOT NULL") == 1
    with opened(tmp_path, parts=Parts(rewrite=lambda: None)) as store:
        done = store.erasures.engine.finish(record.id)
        assert done.unreadable_since == done.bytes_gone_since is not None


def _as_before_keys(store: Store) -> None:
    """Write every chunk as a version before did: one frame of JSON, not sealed."""
    rows = store.rows(f"SELECT {CHUNK_COLUMNS} FROM contents")
    plain = [(zstandard.compress(open_chunk(Chunk(*row), store.database.vault)), row[0]) for row in rows]

    def unseal(committer: Committer) -> None:
        for body, chunk_id in plain:
            committer.connection.execute(
                "UPDATE contents SET body = ?, codec = ?, key_id = NULL WHERE chunk_id = ?", [body, PLAIN, chunk_id]
            )

    store.writer.run(unseal).result(30)
