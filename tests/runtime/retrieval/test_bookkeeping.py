"""One suite for every bookkeeping, then what each has of its own."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope
from tracehold.retrieval import InMemoryBookkeeping, SqliteBookkeeping, SyncBookkeeping
from tracehold.retrieval.fallback import FallbackBookkeeping

ADA = Scope(user="ada")
ADA_1 = Scope(user="ada", session="1")

MAKERS: dict[str, Callable[[], SyncBookkeeping]] = {
    "memory": InMemoryBookkeeping,
    "sqlite": lambda: SqliteBookkeeping(":memory:"),
    "fallback": lambda: FallbackBookkeeping(SqliteBookkeeping(":memory:")),
}


@pytest.fixture(params=list(MAKERS))
def notes(request: pytest.FixtureRequest) -> Iterator[SyncBookkeeping]:
    made = MAKERS[request.param]()
    yield made
    made.close()


def test_an_entry_has_the_hash_it_was_noted_with(notes: SyncBookkeeping) -> None:
    notes.set_hashes(ADA, [("1", "h1"), ("2", "h2")])
    notes.set_hashes(ADA, [("1", "h3")])
    assert (notes.get_hash(ADA, "1"), notes.get_hash(ADA, "2"), notes.get_hash(ADA, "3")) == ("h3", "h2", None)
    assert notes.tracked_ids(ADA) == {"1", "2"}


def test_a_pending_entry_has_no_hash_until_it_is_noted_again(notes: SyncBookkeeping) -> None:
    notes.set_hashes(ADA, [("1", "h1")])
    notes.mark_pending(ADA, ["1"])
    assert notes.get_hash(ADA, "1") is None
    assert (notes.tracked_ids(ADA), notes.pending_ids(ADA)) == (set(), {"1"})
    notes.set_hashes(ADA, [("1", "h1")])
    assert (notes.tracked_ids(ADA), notes.pending_ids(ADA)) == ({"1"}, set())


def test_a_struck_entry_is_neither_noted_nor_pending(notes: SyncBookkeeping) -> None:
    notes.set_hashes(ADA, [("1", "h1")])
    notes.mark_pending(ADA, ["2"])
    notes.delete_hashes(ADA, ["1", "2", "unknown"])
    assert notes.exact_scopes() == set()


def test_scopes_are_told_apart_exactly_and_listed_restrictively(notes: SyncBookkeeping) -> None:  # SCP-03
    notes.set_hashes(ADA, [("1", "h")])
    notes.mark_pending(ADA_1, ["1"])
    notes.set_hashes(Scope(), [("1", "h")])
    assert notes.get_hash(ADA_1, "1") is None
    assert notes.exact_scopes() == {ADA, ADA_1, Scope()}
    assert notes.exact_scopes(ADA) == {ADA, ADA_1}
    assert notes.exact_scopes(ADA, pending=True) == {ADA_1}


def test_any_text_can_be_an_id(notes: SyncBookkeeping) -> None:
    odd = ["\ud800", "a\0b", "'; DROP TABLE x; --", "日本"]
    notes.set_hashes(ADA, [(id_, "h") for id_ in odd])
    assert notes.tracked_ids(ADA) == set(odd)


def test_threads_that_note_at_once_lose_nothing(notes: SyncBookkeeping) -> None:
    def note(thread: int) -> None:
        for number in range(25):
            notes.set_hashes(ADA, [(f"{thread}-{number}", "h")])
            notes.exact_scopes()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(note, range(4)))
    assert len(notes.tracked_ids(ADA)) == 100


steps = st.lists(
    st.tuples(
        st.sampled_from(["set", "delete", "mark"]),
        st.sampled_from([ADA, ADA_1, Scope()]),
        st.lists(st.sampled_from("abc"), max_size=3),
    )
)


@given(steps)
def test_all_bookkeepings_agree(history: list[tuple[str, Scope, list[str]]]) -> None:
    made = [make() for make in MAKERS.values()]
    for verb, scope, ids in history:
        for notes in made:
            if verb == "set":
                notes.set_hashes(scope, [(id_, f"hash of {id_}") for id_ in ids])
            elif verb == "delete":
                notes.delete_hashes(scope, ids)
            else:
                notes.mark_pending(scope, ids)
    told = [
        (
            notes.exact_scopes(),
            notes.exact_scopes(pending=True),
            [(notes.tracked_ids(scope), notes.pending_ids(scope)) for scope in (ADA, ADA_1, Scope())],
        )
        for notes in made
    ]
    for notes in made:
        notes.close()
    assert told == [told[0]] * len(told)


def test_notes_in_a_file_outlive_the_process(path: Path) -> None:
    first = SqliteBookkeeping(path)
    first.set_hashes(ADA, [("1", "h")])
    first.mark_pending(ADA, ["2"])
    first.close()
    second = SqliteBookkeeping(path)
    assert (second.tracked_ids(ADA), second.pending_ids(ADA)) == ({"1"}, {"2"})
    second.close()


def test_tables_of_other_names_are_other_notes(path: Path) -> None:
    one, other = SqliteBookkeeping(path), SqliteBookkeeping(path, table="Select")
    one.set_hashes(ADA, [("1", "h")])
    assert other.tracked_ids(ADA) == set()
    one.close()
    other.close()


@pytest.mark.parametrize("table", ["", "a b", "x; DROP TABLE y", 'a"b', "1a", "sqlite_x", "a" * 64, "tab\n", "é", None])
def test_a_name_that_is_no_name_is_refused(path: Path, table: str) -> None:
    with pytest.raises(RetrievalError, match="name of a bookkeeping table"):
        SqliteBookkeeping(path, table=table)
    assert not path.exists()


def test_a_table_of_another_program_is_refused(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (id TEXT)")
    with pytest.raises(RetrievalError, match="mine was made by another program and lacks base"):
        SqliteBookkeeping(path, table="mine")


class Broken(InMemoryBookkeeping):
    """Refuses to write, or to read, while told so."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False

    def mark_pending(self, scope: Scope, ids: object) -> None:
        self._check()
        super().mark_pending(scope, ids)  # type: ignore[arg-type]  # passed on

    def set_hashes(self, scope: Scope, pairs: object) -> None:
        self._check()
        super().set_hashes(scope, pairs)  # type: ignore[arg-type]  # passed on

    def get_hash(self, scope: Scope, id: str) -> str | None:  # noqa: A002 - documented name
        self._check()
        return super().get_hash(scope, id)

    def _check(self) -> None:
        if self.broken:
            raise OSError("disk full")


def test_what_cannot_be_noted_counts_as_pending_until_it_can() -> None:
    inner = Broken()
    notes = FallbackBookkeeping(inner)
    notes.set_hashes(ADA, [("1", "h")])
    inner.broken = True
    notes.mark_pending(ADA, ["1"])
    notes.set_hashes(ADA, [("2", "h")])
    assert notes.get_hash(ADA, "1") is None
    assert notes.pending_ids(ADA) == {"1", "2"}
    assert notes.exact_scopes(pending=True) == {ADA}
    assert notes.tracked_ids(ADA) == set()
    inner.broken = False
    notes.set_hashes(ADA, [("1", "h"), ("2", "h")])
    assert (notes.tracked_ids(ADA), notes.pending_ids(ADA)) == ({"1", "2"}, set())
