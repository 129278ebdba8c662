"""Searching conversations: the store is the truth, the index follows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import RetrievalError, SessionError
from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.retrieval import HybridRetriever, InMemoryBookkeeping, SqliteBookkeeping, SyncIndexSync
from tracehold.sessions.search import ConversationSearch
from tracehold.sessions.sqlite import SqliteSessionStore
from tracehold.sessions.store import SessionStore

ADA_1 = Scope(user="ada", session="1")
ADA_2 = Scope(user="ada", session="2")
BOB_1 = Scope(user="bob", session="1")


class Index(HybridRetriever):
    """A real index that fails while `broken` names the operation."""

    broken: tuple[str, ...] = ()

    def replace(self, *arguments: Any, **options: Any) -> None:
        self._check("replace")
        super().replace(*arguments, **options)

    def delete_exact(self, *arguments: Any, **options: Any) -> None:
        self._check("delete")
        super().delete_exact(*arguments, **options)

    def entries(self, **options: Any) -> Any:
        self._check("entries")
        return super().entries(**options)

    def _check(self, operation: str) -> None:
        if operation in self.broken:
            raise OSError("the index is down")


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    yield made
    made.close()


@pytest.fixture
def store() -> SqliteSessionStore:
    return SqliteSessionStore()


@pytest.fixture
def search(store: SqliteSessionStore, index: Index) -> Iterator[ConversationSearch]:
    made = ConversationSearch(store, index)
    yield made
    made.close()


def said(text: Any, role: Any = "user", **options: Any) -> Message:
    return Message(text, role, **options)


def contents(search: ConversationSearch, query: str, **options: Any) -> list[str]:
    return [hit.content for hit in search.search(query, **options)]


def test_it_is_a_session_store_whose_load_and_list_scopes_are_those_of_the_wrapped_one(  # SES-29
    search: ConversationSearch, store: SqliteSessionStore
) -> None:
    search.append(said("tea"), scope=ADA_1)
    store.append(said("unseen"), scope=ADA_2)
    assert isinstance(search, SessionStore)
    assert search.load(scope=ADA_2) == store.load(scope=ADA_2)
    assert search.load(all_scopes=True) == store.load(all_scopes=True)
    assert search.list_scopes(along="user") == store.list_scopes(along="user")
    assert search.list_scopes(scope=Scope(user="bob")) == []


def test_append_gives_a_message_an_id_that_is_stored_and_found(search: ConversationSearch) -> None:  # SES-30
    message = said("green tea", metadata={"mine": 1})
    search.append(message, scope=ADA_1)
    (stored,) = search.load(scope=ADA_1)
    (hit,) = search.search("tea", scope=ADA_1)
    assert stored.metadata == {"mine": 1, "message_id": hit.id}
    assert message.metadata["message_id"] == hit.id
    assert len(hit.id) == 32


@pytest.mark.parametrize("given_id", ["mine", 7, "\ud800", "a\0b"])
def test_an_id_that_a_message_has_is_kept(search: ConversationSearch, given_id: Any) -> None:  # SES-30
    search.append(said("green tea", metadata={"message_id": given_id}), scope=ADA_1)
    assert [message.metadata["message_id"] for message in search.load(scope=ADA_1)] == [given_id]
    assert [hit.id for hit in search.search("tea", scope=ADA_1)] == [str(given_id)]


@pytest.mark.parametrize("given_id", [[1], True, 1.5, {}])
def test_an_id_that_cannot_be_one_is_refused_before_anything_is_stored(  # SES-30
    search: ConversationSearch, given_id: Any
) -> None:
    with pytest.raises(SessionError, match="message_id is a text or an integer"):
        search.append_many([said("tea"), said("tea", metadata={"message_id": given_id})], scope=ADA_1)
    assert search.load(scope=ADA_1) == []


@pytest.mark.parametrize("given_id", [None, ""])
def test_an_empty_id_is_none(search: ConversationSearch, given_id: Any) -> None:  # SES-30
    search.append(said("tea", metadata={"message_id": given_id}), scope=ADA_1)
    assert len(search.load(scope=ADA_1)[0].metadata["message_id"]) == 32


def test_the_store_is_written_before_the_index(search: ConversationSearch, index: Index) -> None:  # SES-30
    stored: list[int] = []
    write = index.add

    def add(*arguments: Any, **options: Any) -> None:
        stored.append(len(search.load(scope=ADA_1)))
        write(*arguments, **options)

    index.add = add  # type: ignore[method-assign]  # a witness
    search.append(said("tea"), scope=ADA_1)
    search.append_many([said("tea"), said("tea")], scope=ADA_1)
    assert stored == [1, 3]


def test_what_the_store_refuses_is_not_indexed(search: ConversationSearch, index: Index) -> None:  # SES-30
    with pytest.raises(SessionError):
        search.append(said("tea", metadata={"x": object()}), scope=ADA_1)
    with pytest.raises(SessionError):
        search.append_many([said("tea"), said("tea", metadata={"x": object()})], scope=ADA_1)
    assert index.entries() == {}


def test_an_index_failure_does_not_fail_the_append(search: ConversationSearch, index: Index) -> None:  # SES-31, SES-37
    index.broken = ("replace",)
    search.append(said("green tea"), scope=ADA_1)
    search.append_many([said("black tea")], scope=ADA_2)
    ids = {message.metadata["message_id"] for message in search.load(all_scopes=True)}
    assert search.pending_reindex() == ids
    assert len(search.pending_reindex(scope=ADA_1)) == 1
    assert search.pending_reindex(scope=BOB_1) == set()
    index.broken = ()
    assert search.reconcile(scope=ADA_1) == 1
    assert search.reconcile(scope=ADA_2) == 1
    assert search.pending_reindex() == set()
    assert len(search.search("tea", scope=Scope(user="ada"))) == 2


def test_an_index_sync_that_breaks_its_word_does_not_fail_the_append_either(  # SES-31
    store: SqliteSessionStore, index: Index
) -> None:
    class Rude(SyncIndexSync):
        def index(self, *arguments: Any, **options: Any) -> None:
            raise OSError("no")

    search = ConversationSearch(store, index, index_sync=Rude(index))
    search.append(said("tea"), scope=ADA_1)
    assert len(search.load(scope=ADA_1)) == 1
    search.close()


def test_append_many_writes_the_store_in_one_go_and_indexes_the_whole_batch(  # SES-32
    store: SqliteSessionStore, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []
    append_many, add = store.append_many, index.add

    def storing(messages: Sequence[Message], **options: Any) -> None:
        calls.append(("store", len(messages)))
        append_many(messages, **options)

    def indexing(ids: Sequence[str], *arguments: Any, **options: Any) -> None:
        calls.append(("index", len(ids)))
        add(ids, *arguments, **options)

    monkeypatch.setattr(store, "append_many", storing)
    monkeypatch.setattr(index, "add", indexing)
    search = ConversationSearch(store, index)
    search.append_many((said(f"tea {number}") for number in range(3)), scope=ADA_1)  # type: ignore[arg-type]  # also an iterator
    search.append_many([], scope=ADA_1)
    assert calls == [("store", 3), ("index", 3), ("store", 0)]
    search.close()


def test_an_entry_says_role_and_content_and_keeps_role_and_time(search: ConversationSearch, index: Index) -> None:
    # SES-33
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    search.append(said("green tea", "assistant", timestamp=moment), scope=Scope(user="ada", base="other"))
    (hit,) = index.search("tea", scope=Scope(base="conversation"))
    assert hit.content == "assistant: green tea"
    assert (hit.metadata["role"], hit.metadata["time"]) == ("assistant", "2026-01-02T01:04:05+00:00")
    assert hit.scope == Scope(user="ada", base="conversation")


def test_a_naive_time_is_utc(search: ConversationSearch) -> None:  # SES-33, SES-10
    search.append(said("tea", timestamp=datetime(2026, 1, 2, 3)), scope=ADA_1)  # noqa: DTZ001 - what is tested
    assert search.search("tea", scope=ADA_1)[0].metadata["time"] == "2026-01-02T03:00:00+00:00"


def test_the_texts_among_parts_are_found(search: ConversationSearch) -> None:  # SES-33
    parts = [
        {"type": "text", "text": "green"},
        {"type": "image_url", "image_url": "u"},
        {"type": "text", "text": "tea"},
    ]
    search.append(said(parts), scope=ADA_1)
    assert contents(search, "tea", scope=ADA_1) == ["user: green\ntea"]
    assert search.load(scope=ADA_1)[0].content == parts


def test_clear_removes_the_session_from_index_and_store_and_no_other(  # SES-34
    search: ConversationSearch, index: Index
) -> None:
    for scope in (ADA_1, ADA_2, BOB_1):
        search.append(said("tea"), scope=scope)
    search.clear(scope=ADA_1)
    assert search.load(scope=ADA_1) == []
    assert set(index.entries()) == {scope.with_(base="conversation") for scope in (ADA_2, BOB_1)}
    assert len(search.load(all_scopes=True)) == 2


def test_clear_empties_the_index_before_the_store(  # SES-34
    store: SqliteSessionStore, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = ConversationSearch(store, index)
    search.append(said("tea"), scope=ADA_1)
    seen: list[dict[Scope, set[str]]] = []
    clear = store.clear

    def clearing(**options: Any) -> None:
        seen.append(index.entries())
        clear(**options)

    monkeypatch.setattr(store, "clear", clearing)
    search.clear(scope=ADA_1)
    assert seen == [{}]
    search.close()


def test_messages_without_an_id_are_cleared_too(search: ConversationSearch, store: SqliteSessionStore) -> None:
    # SES-34
    store.append(said("older than the index"), scope=ADA_1)
    search.append(said("tea"), scope=ADA_1)
    search.clear(scope=ADA_1)
    assert search.load(scope=ADA_1) == []
    assert search.search("tea", scope=ADA_1) == []


def test_clearing_all_scopes_empties_every_session_and_leaves_other_entries(  # SES-34
    search: ConversationSearch, index: Index
) -> None:
    index.add(["fact"], ["tea"], scope=Scope(base="memory", user="ada"))
    for scope in (ADA_1, BOB_1, None, Scope(base="other")):
        search.append(said("tea"), scope=scope)
    search.clear(all_scopes=True)
    assert search.load(all_scopes=True) == []
    assert index.entries() == {Scope(base="memory", user="ada"): {"fact"}}


@pytest.mark.parametrize("how", [{"scope": ADA_1}, {"all_scopes": True}])
@pytest.mark.parametrize("broken", [("delete",), ("delete", "entries")])
def test_a_failing_index_deletion_is_pending_and_the_store_is_cleared(  # SES-35, DEC-20
    search: ConversationSearch, index: Index, how: dict[str, Any], broken: tuple[str, ...]
) -> None:
    search.append(said("my secret tea"), scope=ADA_1)
    (message,) = search.load(scope=ADA_1)
    index.broken = broken
    search.clear(**how)
    assert search.load(all_scopes=True) == []
    assert search.pending_reindex() == {message.metadata["message_id"]}
    for scope in (ADA_1, Scope(user="ada"), Scope(session="1")):
        assert search.search("tea", scope=scope) == []
    assert search.search("tea", all_scopes=True) == []
    index.broken = ()
    search.reconcile(all_scopes=True)
    assert search.pending_reindex() == set()
    assert index.entries() == {}


def test_an_erased_message_stays_hidden_when_even_the_bookkeeping_fails(  # DEC-20
    store: SqliteSessionStore, index: Index
) -> None:
    class Full(InMemoryBookkeeping):
        full = False

        def mark_pending(self, scope: Scope, ids: Any) -> None:
            if self.full:
                raise OSError("disk full")
            super().mark_pending(scope, ids)

    notes = Full()
    search = ConversationSearch(store, index, index_sync=SyncIndexSync(index, bookkeeping=notes))
    search.append(said("my secret tea"), scope=ADA_1)
    notes.full = True
    index.broken = ("delete",)
    search.clear(scope=ADA_1)
    assert search.search("tea", scope=ADA_1) == []
    assert len(search.pending_reindex()) == 1
    search.close()


def test_an_erased_message_stays_hidden_after_a_restart(tmp_path: Path) -> None:  # DEC-20
    path = tmp_path / "all.db"
    index = Index(db_path=path)
    search = ConversationSearch(SqliteSessionStore(path), index)
    search.append(said("my secret tea"), scope=ADA_1)
    index.broken = ("delete",)
    search.clear(scope=ADA_1)
    search.close()
    index.close()
    index = Index(db_path=path)
    search = ConversationSearch(SqliteSessionStore(path), index)
    assert search.search("tea", all_scopes=True) == []
    assert search.reconcile(scope=ADA_1) == 1
    assert index.entries() == {}
    search.close()
    index.close()


def test_hidden_hits_do_not_take_the_place_of_others(search: ConversationSearch, index: Index) -> None:
    search.append_many([said("tea tea tea") for _ in range(60)], scope=ADA_1)
    search.append(said("a cup of tea and much else besides"), scope=ADA_2)
    index.broken = ("delete",)
    search.clear(scope=ADA_1)
    assert contents(search, "tea", scope=Scope(user="ada")) == ["user: a cup of tea and much else besides"]


def test_search_is_restricted_to_the_scope_and_best_comes_first(search: ConversationSearch, index: Index) -> None:
    # SES-36
    index.add(["fact"], ["tea"], scope=ADA_1.with_(base="memory"))
    search.append(said("tea, or rather not: coffee, and then some cake"), scope=ADA_1)
    search.append(said("tea"), scope=ADA_2)
    search.append(said("tea of bob"), scope=BOB_1)
    hits = search.search("tea", scope=Scope(user="ada"))
    assert [hit.content for hit in hits] == ["user: tea", "user: tea, or rather not: coffee, and then some cake"]
    assert hits[0].score > hits[1].score
    assert contents(search, "tea", scope=ADA_2) == ["user: tea"]
    assert len(search.search("tea", scope=Scope(user="ada"), top_k=1)) == 1


def test_top_k_may_exceed_the_candidate_pool_and_must_be_positive(search: ConversationSearch) -> None:  # SES-36
    search.append_many([said("tea") for _ in range(50)], scope=ADA_1)
    assert len(search.search("tea", scope=ADA_1)) == 5
    assert len(search.search("tea", scope=ADA_1, top_k=50)) == 50
    for top_k in (0, -1, True, "5"):
        with pytest.raises(RetrievalError, match="top_k is an integer of at least 1"):
            search.search("tea", scope=ADA_1, top_k=top_k)  # type: ignore[arg-type]  # what is tested


def test_asearch_is_search_on_a_worker_thread(search: ConversationSearch) -> None:  # SES-36
    async def scenario() -> list[str]:
        await search.aappend(said("green tea"), scope=ADA_1)
        await search.aappend_many([said("black tea")], scope=ADA_1)
        hits = await search.asearch("tea", top_k=1, scope=ADA_1)
        await search.aclear(scope=ADA_1)
        return [hit.content for hit in hits]

    assert asyncio.run(scenario()) == ["user: black tea"]
    assert search.load(scope=ADA_1) == []


@pytest.mark.parametrize("scope", [None, Scope(), Scope(user="", session="")])
def test_without_a_scope_only_the_default_bucket_is_searched(  # DEC-04
    search: ConversationSearch, scope: Scope | None
) -> None:
    search.append(said("tea of nobody"))
    search.append(said("tea of ada"), scope=ADA_1)
    search.append(said("tea of a base"), scope=Scope(base="other"))
    assert contents(search, "tea", scope=scope) == ["user: tea of nobody"]
    assert len(search.search("tea", scope=scope, all_scopes=True)) == 3


def test_a_base_alone_names_one_session_and_not_everybody(search: ConversationSearch) -> None:  # DEC-04
    search.append(said("tea of ada"), scope=ADA_1.with_(base="other"))
    search.append(said("tea of a base"), scope=Scope(base="other"))
    search.append(said("tea of another"), scope=Scope(base="another"))
    for base, expected in (("other", ["user: tea of a base"]), ("conversation", [])):
        assert contents(search, "tea", scope=Scope(base=base)) == expected


def test_all_scopes_does_not_widen_a_scope_that_is_set(search: ConversationSearch) -> None:  # DEC-04
    search.append(said("tea of ada"), scope=ADA_1)
    search.append(said("tea of bob"), scope=BOB_1)
    assert contents(search, "tea", scope=Scope(user="ada"), all_scopes=True) == ["user: tea of ada"]


def test_sessions_that_differ_in_base_only_are_told_apart(search: ConversationSearch, index: Index) -> None:
    one, other = ADA_1.with_(base="one"), ADA_1.with_(base="other")
    search.append(said("tea one"), scope=one)
    search.append(said("tea other"), scope=other)
    assert contents(search, "tea", scope=one) == ["user: tea one"]
    assert len(search.search("tea", scope=ADA_1)) == 2
    assert search.reconcile(scope=one) == 0
    search.clear(scope=one)
    assert contents(search, "tea", scope=ADA_1) == ["user: tea other"]


def test_close_closes_store_and_bookkeeping_but_not_the_retriever(  # SES-38
    store: SqliteSessionStore, index: Index, tmp_path: Path
) -> None:
    notes = SqliteBookkeeping(tmp_path / "notes.db")
    search = ConversationSearch(store, index, index_sync=SyncIndexSync(index, bookkeeping=notes))
    search.close()
    search.close()
    with pytest.raises(SessionError, match="closed"):
        store.load()
    with pytest.raises(RetrievalError, match="closed"):
        notes.pending_ids(ADA_1)
    index.add(["1"], ["tea"], scope=ADA_1)


@pytest.mark.parametrize("how", [{"scope": ADA_1}, {"all_scopes": True}])
def test_append_and_clear_on_one_scope_take_turns(  # SES-39
    store: SqliteSessionStore, index: Index, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    """Otherwise a message could be indexed after the session it belonged to was cleared."""
    search = ConversationSearch(store, index)
    clearing = threading.Thread(target=lambda: search.clear(**how))
    append = store.append

    def interrupted(message: Message, **options: Any) -> None:
        append(message, **options)
        clearing.start()
        clearing.join(0.2)  # it cannot end, however long one waits
        assert clearing.is_alive()

    monkeypatch.setattr(store, "append", interrupted)
    search.append(said("tea"), scope=ADA_1)
    clearing.join(30)
    assert search.load(scope=ADA_1) == []
    assert index.entries() == {}
    search.close()


def test_without_an_index_sync_a_synchronous_one_is_used(search: ConversationSearch) -> None:  # SES-40
    assert isinstance(search._index_sync, SyncIndexSync)
    search.append(said("tea"), scope=ADA_1)
    assert len(search.search("tea", scope=ADA_1)) == 1


def test_prune_takes_from_the_index_what_it_takes_from_the_store(search: ConversationSearch) -> None:
    old = datetime(2020, 1, 1, tzinfo=UTC)
    for scope in (ADA_1, BOB_1):
        search.append_many([said("old tea", timestamp=old), said("new tea")], scope=scope)
    assert search.prune(scope=ADA_1, keep_last=1) == 1
    assert contents(search, "tea", scope=ADA_1) == ["user: new tea"]
    assert search.prune(all_scopes=True, before=old + timedelta(days=1)) == 1
    assert contents(search, "tea", all_scopes=True) == ["user: new tea"] * 2


def test_a_store_that_cannot_prune_says_so(index: Index) -> None:
    class Small(SessionStore):
        def append(self, message: Message, *, scope: Scope | None = None) -> None: ...
        def load(self, *, scope: Scope | None = None, all_scopes: bool = False) -> list[Message]:
            return []

        def clear(self, *, scope: Scope | None = None, all_scopes: bool = False) -> None: ...

    search = ConversationSearch(Small(), index)
    with pytest.raises(SessionError, match="Small cannot prune"):
        search.prune(keep_last=1)
    assert search.reconcile(scope=ADA_1) == 0
    search.close()


def test_reconcile_indexes_what_was_stored_without_the_index(
    search: ConversationSearch, store: SqliteSessionStore
) -> None:
    store.append(said("tea", metadata={"message_id": "1"}), scope=ADA_1)
    store.append(said("tea without an id"), scope=ADA_1)
    assert search.reconcile(scope=ADA_1) == 1
    assert [hit.id for hit in search.search("tea", scope=ADA_1)] == ["1"]


scopes = st.sampled_from([Scope(), ADA_1, ADA_2, BOB_1, ADA_1.with_(base="other")])
actions = st.tuples(st.sampled_from(["append", "append", "append", "clear", "reconcile"]), scopes, st.booleans())


@given(st.lists(actions, max_size=12))
def test_search_never_shows_what_the_store_does_not_hold_and_finds_all_once_reconciled(
    history: list[tuple[str, Scope, bool]],
) -> None:
    index = Index()
    search = ConversationSearch(SqliteSessionStore(), index)
    for number, (verb, scope, works) in enumerate(history):
        index.broken = () if works else ("replace", "delete")
        if verb == "append":
            search.append(said(f"tea {number}"), scope=scope)
        elif verb == "clear":
            search.clear(scope=scope)
        else:
            search.reconcile(scope=scope)
        held = {message.metadata["message_id"] for message in search.load(all_scopes=True)}
        assert {hit.id for hit in search.search("tea", top_k=100, all_scopes=True)} <= held
    index.broken = ()
    for scope in (Scope(), ADA_1, ADA_2, BOB_1):
        search.reconcile(scope=scope)
    for scope in (Scope(), ADA_1, ADA_2, BOB_1, ADA_1.with_(base="other")):
        stored = {message.metadata["message_id"] for message in search.load(scope=scope)}
        assert {hit.id for hit in search.search("tea", top_k=100, scope=scope)} >= stored
    assert search.pending_reindex() == set()
    search.close()
    index.close()
