"""What every session store promises: one suite over SQLite in memory, SQLite in a file, and the base's defaults."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tracehold.core.message import Message
from tracehold.core.scope import DIMENSIONS, Scope, scope_key
from tracehold.sessions import ScopeSummary, SessionStore, SqliteSessionStore


class ListSessionStore(SessionStore):
    """The least a store must write itself; everything else is the base's."""

    def __init__(self) -> None:
        self.rows: list[tuple[tuple[str, ...], Message]] = []
        self.threads: list[int] = []

    def append(self, message: Message, *, scope: Scope | None = None) -> None:
        if message.content == "refused":
            raise OSError("no room")
        self.threads.append(threading.get_ident())
        self.rows.append((scope_key(scope), message))

    def load(self, *, scope: Scope | None = None, all_scopes: bool = False) -> list[Message]:
        self.threads.append(threading.get_ident())
        return [message for key, message in self.rows if all_scopes or key == scope_key(scope)]

    def clear(self, *, scope: Scope | None = None, all_scopes: bool = False) -> None:
        self.threads.append(threading.get_ident())
        self.rows = [row for row in self.rows if not all_scopes and row[0] != scope_key(scope)]


@pytest.fixture(params=["base", "memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    made: SessionStore
    if request.param == "base":
        made = ListSessionStore()
    else:
        made = SqliteSessionStore(":memory:" if request.param == "memory" else tmp_path / "sessions.db")
    yield made
    made.close()


def said(store: SessionStore, scope: Scope | None = None, *, all_scopes: bool = False) -> list[object]:
    return [message.content for message in store.load(scope=scope, all_scopes=all_scopes)]


@pytest.mark.parametrize("method", ["append", "load", "clear"])
def test_a_store_must_write_append_load_and_clear_itself(method: str) -> None:  # SES-01
    written = {name: getattr(ListSessionStore, name) for name in ("append", "load", "clear") if name != method}
    incomplete = type("Incomplete", (SessionStore,), written)
    with pytest.raises(TypeError, match=method):
        incomplete()


def test_the_signatures_are_the_documented_ones() -> None:  # SES-01, SES-16
    def shape(method: object) -> list[str]:
        return [str(item).split(":")[0] + f"={item.default}" for item in inspect.signature(method).parameters.values()]  # type: ignore[arg-type]

    empty = inspect.Parameter.empty
    for cls in (SessionStore, SqliteSessionStore):
        assert shape(cls.append) == [f"self={empty}", f"message={empty}", "scope=None"]
        assert shape(cls.load) == [f"self={empty}", "scope=None", "all_scopes=False"]
        assert shape(cls.clear) == [f"self={empty}", "scope=None", "all_scopes=False"]
        keyword_only = inspect.signature(cls.load).parameters["scope"].kind
        assert keyword_only is inspect.Parameter.KEYWORD_ONLY
    assert shape(SqliteSessionStore.prune) == [
        f"self={empty}",
        "scope=None",
        "all_scopes=False",
        "keep_last=None",
        "before=None",
    ]


def test_messages_come_back_in_the_order_of_insertion(store: SessionStore) -> None:  # SES-09
    late, early = datetime(2030, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)
    store.append(Message("first", "user", timestamp=late))
    store.append(Message("second", "assistant", timestamp=early))
    assert said(store) == ["first", "second"]


def test_a_session_without_messages_is_an_empty_list(store: SessionStore) -> None:  # SES-09
    assert store.load(scope=Scope(session="nobody")) == []


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_reading_compares_every_dimension(store: SessionStore, dimension: str) -> None:  # SES-02
    full = Scope(base="b", user="u", agent="a", session="s", app="p")
    other, less = full.with_(**{dimension: "x"}), full.with_(**{dimension: None})
    for scope, text in ((full, "full"), (other, "other"), (less, "less")):
        store.append(Message(text, "user"), scope=scope)
    assert [said(store, scope) for scope in (full, other, less)] == [["full"], ["other"], ["less"]]


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_clearing_compares_every_dimension(store: SessionStore, dimension: str) -> None:  # SES-02, SES-15
    full = Scope(base="b", user="u", agent="a", session="s", app="p")
    for scope in (full, full.with_(**{dimension: "x"}), full.with_(**{dimension: None})):
        store.append(Message("kept", "user"), scope=scope)
    store.append(Message("gone", "user"), scope=full)

    store.clear(scope=full)

    assert said(store, full) == []
    assert said(store, all_scopes=True) == ["kept", "kept"]


@pytest.mark.parametrize("none", [None, Scope(), Scope(session="")])
def test_no_scope_is_the_bucket_with_nothing_set_and_no_other(
    store: SessionStore, none: Scope | None
) -> None:  # SES-02
    store.append(Message("mine", "user"), scope=Scope(session="s"))
    store.append(Message("nobody's", "user"), scope=none)
    assert said(store, none) == ["nobody's"]
    store.clear(scope=none)
    assert said(store, all_scopes=True) == ["mine"]


def test_all_scopes_reads_and_clears_across_sessions(store: SessionStore) -> None:  # SES-03, SES-15
    for session in ("a", "b", None):
        store.append(Message(f"in {session}", "user"), scope=Scope(session=session))
    assert said(store, all_scopes=True) == ["in a", "in b", "in None"]
    store.clear(all_scopes=True)
    assert said(store, all_scopes=True) == []


def test_append_many_keeps_the_order(store: SessionStore) -> None:  # SES-04, SES-13
    store.append_many([Message(str(number), "user") for number in range(5)], scope=Scope(user="u"))
    assert said(store, Scope(user="u")) == ["0", "1", "2", "3", "4"]


def test_append_many_of_nothing_does_nothing(store: SessionStore) -> None:  # SES-13
    store.append_many([])
    assert said(store, all_scopes=True) == []


def test_append_many_of_the_base_appends_one_by_one() -> None:  # SES-04
    store = ListSessionStore()
    with pytest.raises(OSError, match="no room"):
        store.append_many([Message("one", "user"), Message("refused", "user"), Message("three", "user")])
    assert said(store) == ["one"]


def test_the_async_twins_do_what_the_sync_methods_do(store: SessionStore) -> None:  # SES-05
    async def main() -> None:
        scope = Scope(session="s")
        await store.aappend(Message("one", "user"), scope=scope)
        await store.aappend_many([Message("two", "assistant"), Message("three", "user")], scope=scope)
        assert [message.content for message in await store.aload(scope=scope)] == ["one", "two", "three"]
        assert len(await store.aload(all_scopes=True)) == 3
        await store.aclear(scope=Scope(session="t"))
        assert len(await store.aload(scope=scope)) == 3
        await store.aclear(all_scopes=True)
        assert await store.aload(scope=scope) == []

    asyncio.run(main())


def test_the_async_twins_of_the_base_run_the_sync_method_on_a_worker_thread() -> None:  # SES-05
    store = ListSessionStore()
    listed_on: list[int] = []

    def list_scopes(*, along: str = "session", scope: Scope | None = None) -> list[ScopeSummary]:
        listed_on.append(threading.get_ident())
        return [ScopeSummary(along, str(scope), 1, None, None)]

    store.list_scopes = list_scopes  # type: ignore[method-assign]

    async def main() -> None:
        await store.aappend(Message("one", "user"))
        await store.aappend_many([Message("two", "user")])
        await store.aload()
        await store.aclear()
        found = await store.alist_scopes(along="user", scope=None)
        assert found == [ScopeSummary("user", "None", 1, None, None)]

    asyncio.run(main())
    assert len(store.threads) == 4
    assert threading.get_ident() not in {*store.threads, *listed_on}


def test_the_base_cannot_list_scopes() -> None:  # SES-06
    store = ListSessionStore()
    with pytest.raises(NotImplementedError, match="ListSessionStore cannot list scopes"):
        store.list_scopes()
    with pytest.raises(NotImplementedError, match="cannot list scopes"):
        asyncio.run(store.alist_scopes(along="user", scope=Scope(user="u")))


def test_a_scope_summary_is_immutable() -> None:  # SES-25
    now = datetime.now(UTC)
    summary = ScopeSummary("session", "s", 2, now, now)
    with pytest.raises(FrozenInstanceError):
        summary.message_count = 3  # type: ignore[misc]
    assert ScopeSummary(dimension="session", value="s", message_count=2, first_at=now, last_at=now) == summary
