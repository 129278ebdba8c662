"""Keeping an index in step, with a real one that fails when told to."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope
from tracehold.observability.exporters.memory import MemoryExporter
from tracehold.observability.tracer import Tracer
from tracehold.retrieval import (
    HybridRetriever,
    InMemoryBookkeeping,
    SqliteBookkeeping,
    SyncIndexSync,
)

ADA = Scope(user="ada")
ADA_1 = Scope(user="ada", session="1")
BOB = Scope(user="bob")


def contents(retriever: HybridRetriever, scope: Scope) -> dict[str, str]:
    hits = retriever.search("text", top_k=1000, candidate_pool=1000, scope=scope, exact=True)
    return {hit.id: hit.content for hit in hits}


def test_index_writes_entries_with_their_metadata(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    sync.index(["1", "2"], ["text one", "text two"], scope=ADA, metadatas=[{"n": 1}, {}])
    (hit,) = trouble.search("one", scope=ADA, exact=True)
    assert (hit.id, hit.metadata) == ("1", {"n": 1})
    assert sync.pending() == set()


def test_a_failing_index_raises_nothing_and_leaves_the_ids_pending(  # IDX-01
    trouble: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sync = SyncIndexSync(trouble)
    trouble.fail("add")
    sync.index(["1", "2"], ["text one", "text two"], scope=ADA)
    assert sync.pending() == {"1", "2"}
    assert "OSError" in caplog.text
    assert "secret" not in caplog.text
    assert "text one" not in caplog.text


def test_a_failure_is_logged_once_until_the_backend_works_again(trouble: Any, caplog: pytest.LogCaptureFixture) -> None:
    sync = SyncIndexSync(trouble)
    for text in ("text one", "text two"):
        trouble.fail("add")
        for number in range(3):
            sync.index([str(number)], [text], scope=ADA)
        trouble.fail()
        sync.index(["1"], [text], scope=ADA)
    assert len(caplog.records) == 2


def test_pending_ids_are_listed_by_the_set_dimensions(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    trouble.fail("add")
    for scope in (ADA, ADA_1, BOB):
        sync.index([f"{scope.user}{scope.session}"], ["text"], scope=scope)
    assert sync.pending(scope=ADA) == {"adaNone", "ada1"}
    assert sync.pending(scope=ADA_1) == {"ada1"}
    assert sync.pending() == {"adaNone", "ada1", "bobNone"}


def test_writing_a_pending_entry_again_settles_it(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    trouble.fail("add")
    sync.index(["1"], ["text"], scope=ADA)
    trouble.fail()
    sync.index(["1"], ["text"], scope=ADA)
    assert sync.pending() == set()
    assert contents(trouble, ADA) == {"1": "text"}


def test_a_failing_replace_raises_and_leaves_old_and_new_pending(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    sync.index(["1"], ["text one"], scope=ADA)
    trouble.fail("replace")
    with pytest.raises(RetrievalError, match="failed to replace 2 entries with OSError") as caught:
        sync.replace(["1"], ["2"], ["text two"], scope=ADA)
    assert "secret" not in str(caught.value)
    assert sync.pending() == {"1", "2"}


def test_replace_takes_old_entries_away_and_writes_new_ones(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    sync.index(["1", "2"], ["text one", "text two"], scope=ADA)
    sync.replace(["1"], ["3"], ["text three"], scope=ADA)
    assert contents(trouble, ADA) == {"2": "text two", "3": "text three"}
    assert sync.entries() == {ADA: {"2", "3"}}
    assert sync.pending() == set()


def test_drop_raises_only_when_strict_and_is_pending_either_way(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    sync.index(["1", "2"], ["text", "text"], scope=ADA)
    trouble.fail("delete_exact")
    sync.drop(["1"], scope=ADA)
    assert sync.pending() == {"1"}
    with pytest.raises(RetrievalError, match="failed to drop 1 entries with OSError"):
        sync.drop(["2"], scope=ADA, strict=True)
    assert sync.pending() == {"1", "2"}


def test_drop_deletes_from_exactly_its_scope(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    sync.index(["1"], ["text"], scope=ADA)
    sync.index(["1"], ["text"], scope=ADA_1)
    sync.drop(["1", "unknown"], scope=ADA)
    assert trouble.entries() == {ADA_1: {"1"}}
    assert sync.pending() == set()


def test_a_deletion_is_noted_before_it_is_tried(trouble: Any, path: Path) -> None:
    """So that a process killed in between finds it pending when it comes back."""
    notes = SqliteBookkeeping(path)
    sync = SyncIndexSync(trouble, bookkeeping=notes)
    sync.index(["1"], ["text"], scope=ADA)
    seen: list[set[str]] = []
    trouble.before = lambda _operation: seen.append(notes.pending_ids(ADA))
    sync.drop(["1"], scope=ADA)
    assert seen == [{"1"}]
    sync.close()


def test_a_changed_text_is_not_taken_for_unchanged_after_a_crash_in_between(trouble: Any) -> None:
    class Killed(BaseException):
        pass

    def kill(_operation: str) -> None:
        raise Killed

    sync = SyncIndexSync(trouble)
    sync.index(["1"], ["text old"], scope=ADA)
    trouble.after = kill
    with pytest.raises(Killed):
        sync.index(["1"], ["text new"], scope=ADA)
    trouble.after = lambda _operation: None
    sync.index(["1"], ["text old"], scope=ADA)
    assert contents(trouble, ADA) == {"1": "text old"}


def test_unchanged_content_is_not_written_again(trouble: Any) -> None:  # IDX-02
    sync = SyncIndexSync(trouble)
    sync.index(["1", "2"], ["text one", "text two"], scope=ADA)
    sync.index(["1", "2"], ["text one", "text TWO"], scope=ADA)
    sync.index(["1"], ["text one"], scope=ADA)
    sync.reconcile([("1", "text one"), ("2", "text TWO")], scope=ADA)
    assert trouble.calls == [("add", 2), ("add", 1)]


def test_changed_metadata_and_another_embedder_count_as_changes(  # IDX-02
    make_trouble: Callable[..., Any], embedder: Any, path: Path
) -> None:
    first = make_trouble(db_path=path)
    sync = SyncIndexSync(first)
    sync.index(["1"], ["text"], scope=ADA)
    sync.index(["1"], ["text"], scope=ADA, metadatas=[{"n": 1}])
    assert first.calls == [("add", 1), ("add", 1)]
    sync.close()
    first.close()
    second = make_trouble(embedder, db_path=path)
    sync = SyncIndexSync(second)
    sync.index(["1"], ["text"], scope=ADA, metadatas=[{"n": 1}])
    assert second.calls == [("add", 1)]
    sync.close()
    second.close()


@pytest.mark.parametrize("verb", ["index", "replace"])
def test_batches_of_unequal_length_are_refused(trouble: Any, verb: str) -> None:  # IDX-02
    sync = SyncIndexSync(trouble)
    before = () if verb == "index" else ([],)
    for ids, texts, metadatas in ((["1", "2"], ["text"], None), ([], ["text"], None), (["1"], ["text"], [{}, {}])):
        with pytest.raises(RetrievalError, match="as many ids as contents"):
            getattr(sync, verb)(*before, ids, texts, scope=ADA, metadatas=metadatas)
    assert trouble.calls == []
    assert sync.pending() == set()


def test_reconcile_makes_the_index_equal_to_the_source(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    sync.index(["same", "changed", "gone"], ["text", "text old", "text"], scope=ADA)
    trouble.add(["stranger"], ["text nobody noted"], scope=ADA)
    trouble.add(["elsewhere"], ["text"], scope=ADA_1)
    trouble.delete_exact(["same"], scope=ADA)
    done = sync.reconcile([("same", "text"), ("changed", "text new", {"n": 1}), ("new", "text")], scope=ADA)
    assert contents(trouble, ADA) == {"same": "text", "changed": "text new", "new": "text"}
    assert contents(trouble, ADA_1) == {"elsewhere": "text"}
    assert done == 5
    assert sync.reconcile([("same", "text"), ("changed", "text new", {"n": 1}), ("new", "text")], scope=ADA) == 0


def test_reconcile_raises_nothing_when_the_backend_fails(trouble: Any) -> None:  # IDX-01
    sync = SyncIndexSync(trouble)
    sync.index(["gone"], ["text"], scope=ADA)
    trouble.fail("add", "delete_exact")
    assert sync.reconcile([("1", "text")], scope=ADA) == 0
    assert sync.pending() == {"1", "gone"}
    trouble.fail()
    assert sync.reconcile([("1", "text")], scope=ADA) == 2
    assert sync.pending() == set()


def test_one_entry_that_always_fails_does_not_hold_up_its_batch(trouble: Any) -> None:
    sync = SyncIndexSync(trouble)
    add = trouble.add

    def picky(ids: list[str], texts: list[str], **options: Any) -> None:
        if "text poison" in texts:
            raise OSError("no")
        add(ids, texts, **options)

    trouble.add = picky
    items = [(str(number), "text poison" if number == 77 else "text") for number in range(200)]
    assert sync.reconcile(items, scope=ADA) == 199
    assert sync.pending() == {"77"}


def test_a_dead_backend_is_asked_a_bounded_number_of_times(trouble: Any) -> None:
    sync = SyncIndexSync(trouble)
    asked: list[str] = []

    def dead(operation: str) -> None:
        asked.append(operation)
        raise OSError("dead")

    trouble.before = dead
    sync.reconcile([(str(number), "text") for number in range(2000)], scope=ADA)
    assert len(asked) < 40
    assert len(sync.pending()) == 2000


def test_items_of_another_shape_are_refused(trouble: Any) -> None:
    sync = SyncIndexSync(trouble)
    for items in ([("1",)], [1], [("1", "text", {}, "more")]):
        with pytest.raises(RetrievalError, match="a tuple of id, content"):
            sync.reconcile(items, scope=ADA)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(RetrievalError, match="batch_size"):
        sync.reconcile([], scope=ADA, batch_size=0)


ids = st.sampled_from("abcdef")
sources = st.dictionaries(ids, st.sampled_from(["text one", "text two", "text three"]))


@given(
    st.lists(st.tuples(st.sampled_from(["index", "drop", "replace", "reconcile"]), sources)),
    sources,
    st.integers(0, 2**32),
)
def test_reconcile_converges_from_any_state_over_a_backend_that_fails_at_random(  # IDX-01
    history: list[tuple[str, dict[str, str]]], source: dict[str, str], seed: int
) -> None:
    retriever = _random_trouble(random.Random(seed))
    sync = SyncIndexSync(retriever, bookkeeping=InMemoryBookkeeping())
    for verb, given_ in history:
        if verb == "index":
            sync.index(list(given_), list(given_.values()), scope=ADA)
        elif verb == "drop":
            sync.drop(list(given_), scope=ADA)
        elif verb == "reconcile":
            sync.reconcile(list(given_.items()), scope=ADA, batch_size=2)
        else:
            try:
                sync.replace(list(given_)[:2], list(given_), list(given_.values()), scope=ADA)
            except RetrievalError:
                assert sync.pending(scope=ADA) >= set(given_)
    for _ in range(200):
        sync.reconcile(list(source.items()), scope=ADA, batch_size=2)
        if not sync.pending():
            break
    assert contents(retriever, ADA) == source
    assert sync.pending() == set()
    retriever.close()


def _random_trouble(chance: random.Random) -> Any:
    class Flaky(HybridRetriever):
        """Each call may fail before its work, or after it."""

        def replace(self, *args: Any, **options: Any) -> None:
            self._toss()
            super().replace(*args, **options)
            self._toss()

        def delete_exact(self, *args: Any, **options: Any) -> None:
            self._toss()
            super().delete_exact(*args, **options)
            self._toss()

        def entries(self, **options: Any) -> Any:
            self._toss()
            return super().entries(**options)

        def _toss(self) -> None:
            if chance.random() < 0.25:
                raise OSError("chance")

    return Flaky()


def traced() -> tuple[Tracer, Callable[[], list[dict[str, Any]]]]:
    exporter = MemoryExporter()
    names = ("type", "operation", "count", "items", "pending")
    return Tracer(exporters=[exporter]), lambda: [
        {name: event[name] for name in names if name in event} for event in exporter.events
    ]


def test_what_fails_is_told_to_the_tracer_with_operation_and_count(trouble: Any) -> None:  # IDX-03
    tracer, events = traced()
    sync = SyncIndexSync(trouble, tracer=tracer)
    sync.index(["0"], ["text"], scope=ADA)
    trouble.fail("add", "replace", "delete_exact")
    sync.index(["1", "2"], ["text", "text"], scope=ADA)
    sync.drop(["1"], scope=ADA)
    with pytest.raises(RetrievalError):
        sync.replace(["0"], ["3", "4"], ["text", "text"], scope=ADA)
    assert events() == [
        {"type": "index_sync_pending", "operation": "index", "count": 2},
        {"type": "index_sync_pending", "operation": "drop", "count": 1},
        {"type": "index_sync_pending", "operation": "replace", "count": 3},
    ]


def test_a_reconcile_is_told_with_items_and_what_is_still_pending(trouble: Any) -> None:  # IDX-03
    tracer, events = traced()
    sync = SyncIndexSync(trouble, tracer=tracer)
    trouble.fail("add")
    sync.reconcile([("1", "text"), ("2", "text")], scope=ADA)
    trouble.fail()
    sync.reconcile([("1", "text"), ("2", "text")], scope=ADA)
    assert events() == [
        {"type": "index_sync_reconcile", "items": 2, "pending": 2},
        {"type": "index_sync_reconcile", "items": 2, "pending": 0},
    ]


def test_notes_are_kept_in_the_retrievers_own_file(make_trouble: Callable[..., Any], path: Path) -> None:
    first = make_trouble(db_path=path)
    sync = SyncIndexSync(first)
    sync.index(["1", "2"], ["text", "text"], scope=ADA)
    first.fail("delete_exact")
    sync.drop(["1"], scope=ADA)
    sync.close()
    first.close()
    second = make_trouble(db_path=path)
    sync = SyncIndexSync(second)
    assert sync.pending() == {"1"}
    sync.index(["2"], ["text"], scope=ADA)
    assert second.calls == []
    sync.close()
    second.close()


def test_close_closes_the_bookkeeping_and_not_the_retriever(trouble: Any, path: Path) -> None:  # IDX-01
    notes = SqliteBookkeeping(path)
    sync = SyncIndexSync(trouble, bookkeeping=notes)
    sync.close()
    sync.close()
    with pytest.raises(RetrievalError, match="closed"):
        notes.pending_ids(ADA)
    trouble.add(["1"], ["text"], scope=ADA)


def test_calls_on_one_scope_take_turns_and_other_scopes_do_not_wait(trouble: Any) -> None:
    sync = SyncIndexSync(trouble)
    other = next(scope for scope in (Scope(user=str(n)) for n in range(999)) if hash(scope) % 64 != hash(ADA) % 64)
    entered, go_on = threading.Event(), threading.Event()

    def wait(operation: str) -> None:
        if operation == "add" and not entered.is_set():
            entered.set()
            assert go_on.wait(30)

    trouble.before = wait
    slow = threading.Thread(target=lambda: sync.index(["1"], ["text old"], scope=ADA))
    slow.start()
    assert entered.wait(30)
    sync.index(["1"], ["text"], scope=other)
    later = threading.Thread(target=lambda: sync.index(["1"], ["text new"], scope=ADA))
    later.start()
    assert trouble.calls == [("add", 1)]
    go_on.set()
    slow.join(30)
    later.join(30)
    assert contents(trouble, ADA) == {"1": "text new"}
    assert sync.reconcile([("1", "text new")], scope=ADA) == 0
