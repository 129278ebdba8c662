"""Replacing one event's payload in place: for every store, and what a file then still holds (DEC-14)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.event_stores import STORES, completed, fact, facts, on, started
from tracehold.core.errors import SchemaError
from tracehold.events import BlobRef, Event, EventStore, StoredSnapshot
from tracehold.events.chain import ChainReport
from tracehold.events.sqlite_store import SQLiteEventStore

SECRET = "planted-zq-8841"
REF = BlobRef("blob:plain/" + "a" * 64, "a" * 64, 3)


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> EventStore:
    made: EventStore = STORES[request.param](tmp_path)
    return made


def anywhere(folder: Path, text: str) -> list[str]:
    """Return the files below a folder that hold a text."""
    return [file.name for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]


# DEC-14
def test_a_replaced_payload_is_the_only_thing_that_changes(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        event = fact("2", {"v": SECRET}, meta={"user": "ann"}, subject="s", blobs=(REF,), tenant="t", run_id="r")
        await store.append("a", [fact("1"), event, fact("3")])
        await store.append("b", facts("2"))
        before = await store.read("a")
        assert await store.replace_data("a", "2", {"v": {"$erased": True}})
        expected = before[1].with_(data={"v": {"$erased": True}}, blobs=())
        assert await store.read("a") == [before[0], expected, before[2]]
        assert (await store.read("b"))[0].data == {"n": "2"}
        assert (await store.append("a", [fact("2")]))[0] == expected.with_(dup=True)

    on(store, act)


# DEC-14
def test_what_is_not_there_is_not_replaced(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("1"))
        assert not await store.replace_data("a", "9", {})
        assert not await store.replace_data("nobody", "1", {})
        assert (await store.read("a"))[0].data == {"n": "1"}
        assert await store.last_seq("nobody") == -1

    on(store, act)


# DEC-14: a projection may have folded what was replaced
def test_snapshots_of_the_stream_go_and_others_stay(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("1"))
        for stream in ("a", "b"):
            await store.save_snapshot(StoredSnapshot(stream, "p", 0, 1, f'"{SECRET}"'))
        await store.replace_data("a", "1", {})
        assert await store.load_snapshot("a", "p") is None
        assert await store.load_snapshot("b", "p") is not None

    on(store, act)


# DEC-14
def test_a_payload_that_cannot_be_stored_changes_nothing(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("1"))
        with pytest.raises(SchemaError):
            await store.replace_data("a", "1", {"v": float("nan")})
        assert (await store.read("a"))[0].data == {"n": "1"}

    on(store, act)


# DEC-14, ERA-04: a later scrub empties a replaced event too, and the other way round
@pytest.mark.parametrize("scrub_first", [False, True])
def test_scrubbing_and_replacing_one_stream_go_together(store: EventStore, scrub_first: bool) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", [started("a"), fact("1", {"v": SECRET}), completed("a")])
        if scrub_first:
            await store.scrub("a")
        assert await store.replace_data("a", "1", {"other": 1})
        assert (await store.read("a"))[1].data == {"other": 1}
        await store.scrub("a")
        assert [event.data.get("$erased") for event in await store.read("a")] == [True, True, True]
        assert (await store.read("a"))[1].data == {"$erased": True}

    on(store, act)


# DEC-14: the old bytes are gone from the file and its write-ahead file, whether the row shrinks or grows
@pytest.mark.parametrize(
    "new", [{}, {"v": {"$erased": True}}, {"v": "y" * 50_000}], ids=["smaller", "marker", "larger"]
)
@pytest.mark.parametrize("old", [SECRET, SECRET + "x" * 30_000, {"k": SECRET}], ids=["short", "long", "nested"])
def test_a_file_holds_nothing_of_what_was_replaced(tmp_path: Path, old: Any, new: dict[str, Any]) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", [fact(str(n), {"v": f"kept {n}"}) for n in range(40)])
        await store.append("a", [fact("x", {"v": old})])
        await store.append("a", [fact(f"b{n}", {"v": f"kept {n}"}) for n in range(40)])
        await store.replace_data("a", "x", new)
        assert anywhere(tmp_path, SECRET) == []
        assert len(await store.read("a")) == 81

    on(STORES["sqlite"](tmp_path), act)
    assert anywhere(tmp_path, SECRET) == []


# DEC-14: a row that would move others is written with the whole file; what is erased later is gone from everywhere
def test_a_growing_row_leaves_no_shadow_of_its_neighbours(tmp_path: Path) -> None:
    async def act(store: EventStore) -> None:
        for n in range(60):
            await store.append(f"s{n}", [fact("x", {"v": f"{SECRET}-{n}"})])
        await store.replace_data("s30", "x", {"v": "z" * 3000})
        for n in range(60):
            await store.scrub(f"s{n}")
        assert anywhere(tmp_path, SECRET) == []

    on(STORES["sqlite"](tmp_path), act)


def chain_after(path: Path, *statements: str) -> ChainReport:
    """Return what verification finds after somebody with a SQLite shell was there."""

    async def fill(store: SQLiteEventStore) -> None:
        await store.append("a", [started("a"), *facts("1", "2"), completed("a")])
        await store.append("b", facts("1", "2"))
        await store.replace_data("a", "1", {"v": {"$erased": True}})
        await store.replace_data("a", "1", {"v": {"$erased": True}})
        await store.append("a", facts("late"))
        await store.replace_data("a", "late", {})

    on(SQLiteEventStore(path), fill)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)
    return on(SQLiteEventStore(path), lambda store: store.verify_chain())


# DEC-08, DEC-14
def test_the_chain_still_verifies_and_tells_how_much_was_replaced(tmp_path: Path) -> None:
    report = chain_after(tmp_path / "log.db")
    assert report.ok, report.problems
    assert (report.events, report.erased) == (7, 2)


# DEC-08, DEC-14
@pytest.mark.parametrize(
    "statement",
    [
        'UPDATE log_events SET content = \'{"data":{"v":1}}\' WHERE stream_no = 1 AND seq = 1',
        "UPDATE log_events SET erased = 1 WHERE stream_no = 1 AND seq = 1",
        "UPDATE log_events SET erased = 0 WHERE stream_no = 1 AND seq = 1",
        "UPDATE log_events SET erased = 2, salt = NULL, content = '{\"data\":{}}' WHERE stream_no = 1 AND seq = 2",
        "UPDATE log_events SET erased = 2, salt = NULL, content = '{\"data\":{}}' WHERE stream_no = 2 AND seq = 1",
        "DELETE FROM log_acts WHERE no = 1",
        "UPDATE log_acts SET kind = 'scrub' WHERE no = 1",
    ],
)
def test_an_edit_shows_beside_a_replacement(tmp_path: Path, statement: str) -> None:
    assert not chain_after(tmp_path / "log.db", statement).ok


# DEC-08, DEC-14
def test_the_chain_verifies_through_replacing_scrubbing_and_compacting(tmp_path: Path) -> None:
    async def act(store: SQLiteEventStore) -> None:
        await store.append("a", [started("a"), *facts("1", "2"), completed("a")])
        await store.replace_data("a", "2", {"v": "w" * 5000})
        await store.scrub("a")
        await store.append("a", [fact("3", {"v": SECRET})])
        await store.replace_data("a", "3", {})
        await store.compact()
        await store.scrub("a")
        report = await store.verify_chain()
        assert report.ok, report.problems
        assert report.erased == 5

    on(SQLiteEventStore(tmp_path / "log.db"), act)


# STO-05: whoever subscribes reads what was replaced as it is now
def test_a_subscription_reads_the_replaced_payload(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", [fact("1", {"v": SECRET})])
        await store.replace_data("a", "1", {"v": 0})
        first: Event = await anext(store.subscribe("a"))
        assert first.data == {"v": 0}

    on(store, act)
