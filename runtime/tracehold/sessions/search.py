"""A session store whose messages can be searched (SES-29..40)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any, Final

from tracehold.core.clock import now_ns
from tracehold.core.errors import RetrievalError, SessionError
from tracehold.core.ids import new_event_id
from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.retrieval.hybrid import HybridRetriever
from tracehold.retrieval.index_protocol import IndexItem, IndexSync
from tracehold.retrieval.index_sync import SyncIndexSync
from tracehold.retrieval.locks import ScopeLocks
from tracehold.retrieval.types import RetrievalResult
from tracehold.sessions.store import ScopeSummary, SessionStore

_log: Final = logging.getLogger(__name__)

_BASE: Final = "conversation"
_CONVERSATIONS: Final = Scope(base=_BASE)

_OWN_BASE: Final = "base"
"""The key of an entry's metadata that holds the message's own `base`, when it has one."""

MESSAGE_ID: Final = "message_id"
"""The key of a message's metadata that holds its id."""


class ConversationSearch(SessionStore):
    """Wraps a session store, the source of truth, and keeps an index of its messages beside it.

    Messages reach the store first. An index that fails costs hits, never messages: what could not be indexed or
    deleted is pending until `reconcile` (SES-31, DEC-20). An erased message never comes back from the index, pending
    or not, as long as the bookkeeping lives: it is in the retriever's own file by default, and in memory for a
    retriever without one.

    Write, clear and prune through this object; what another program does to the store beneath it shows in the index
    at the next `reconcile`. Calls that write to one session take turns, within this process (SES-39).

    In the index a message's `base` is always "conversation" (SES-33): sessions that differ in nothing else lie side by
    side there, and a search tells them apart by what it finds.

    Args:
        store: keeps the messages.
        retriever: finds them; it may be shared, and is not closed (SES-38).
        index_sync: keeps the index in step; default a `SyncIndexSync` over the retriever (SES-40).
    """

    def __init__(self, store: SessionStore, retriever: HybridRetriever, *, index_sync: IndexSync | None = None) -> None:
        self._store = store
        self._retriever = retriever
        self._index_sync: IndexSync = SyncIndexSync(retriever) if index_sync is None else index_sync
        self._locks = ScopeLocks()
        self._closed = False

    def append(self, message: Message, *, scope: Scope | None = None) -> None:
        """Give the message an id unless it has one, store it, then index it (SES-30).

        Args:
            message: its metadata gets `message_id`, a text; a retry after an error keeps it.
            scope: the session, unset dimensions included.

        Raises:
            SessionError: the store refused it, or its `message_id` is no text and no integer. It is not indexed.
        """
        _identify(message)
        with self._turn(scope):
            self._store.append(message, scope=scope)
            self._index([message], scope)

    def append_many(self, messages: Sequence[Message], *, scope: Scope | None = None) -> None:
        """Store messages in one go, then index them as one batch (SES-32).

        Raises:
            SessionError: as `append`.
        """
        batch = list(messages)
        for message in batch:
            _identify(message)
        with self._turn(scope):
            self._store.append_many(batch, scope=scope)
            self._index(batch, scope)

    def load(self, *, scope: Scope | None = None, all_scopes: bool = False) -> list[Message]:
        """Return what the wrapped store returns (SES-29)."""
        return self._store.load(scope=scope, all_scopes=all_scopes)

    def list_scopes(self, *, along: str = "session", scope: Scope | None = None) -> list[ScopeSummary]:
        """Return what the wrapped store returns (SES-29)."""
        return self._store.list_scopes(along=along, scope=scope)

    def clear(self, *, scope: Scope | None = None, all_scopes: bool = False) -> None:
        """Remove the session's messages from the index, then from the store (SES-34).

        A failing index stops nothing: its ids become pending, and are hidden from every search (DEC-20).

        Raises:
            SessionError: the store cannot be read or cleared. Read failed: nothing has happened. Clear failed: the
                messages are there but not found; call it again, or `reconcile`.
        """
        with self._turn(scope, all_scopes=all_scopes):
            self._forget(_ids(self._store.load(scope=scope, all_scopes=all_scopes)), scope, all_scopes=all_scopes)
            self._store.clear(scope=scope, all_scopes=all_scopes)

    def prune(self, *, scope: Scope | None = None, all_scopes: bool = False, **conditions: Any) -> int:
        """Prune the wrapped store and remove from the index what it deleted; return how many messages that were.

        Args:
            scope: the session, unset dimensions included.
            all_scopes: prune over all sessions together.
            conditions: `keep_last` and `before`, as `SqliteSessionStore.prune` takes them.

        Raises:
            SessionError: the wrapped store has no `prune`, or refused it.
        """
        pruning = getattr(self._store, "prune", None)
        if pruning is None:
            raise SessionError(f"{type(self._store).__name__} cannot prune; clear whole sessions instead")
        with self._turn(scope, all_scopes=all_scopes):
            before = _ids(self._store.load(scope=scope, all_scopes=all_scopes))
            deleted: int = pruning(scope=scope, all_scopes=all_scopes, **conditions)
            left = set(_ids(self._store.load(scope=scope, all_scopes=all_scopes)))
            self._forget([id_ for id_ in before if id_ not in left], scope, all_scopes=all_scopes)
        return deleted

    def search(
        self, query: str, *, top_k: int = 5, scope: Scope | None = None, all_scopes: bool = False
    ) -> list[RetrievalResult]:
        """Return the messages that fit a query best, best first, as `role: content` with role and time (SES-36).

        Args:
            query: any text; an empty one finds nothing.
            top_k: how many at most.
            scope: its set dimensions filter, so that `Scope(user="ada")` searches all of Ada's sessions. Without any
                set, or with `base` alone, only the session of exactly this scope is searched (DEC-04).
            all_scopes: with a scope like that, search the conversations of everybody.

        Raises:
            RetrievalError: `top_k` below 1, or an index that fails.
        """
        if type(top_k) is not int or top_k < 1:
            raise RetrievalError(f"top_k is an integer of at least 1, not {top_k!r}")
        given = scope or Scope()
        exact = given.with_(base=None).is_unset and not all_scopes
        # Hits that do not count take up places, so look at more until there are enough or no more.
        pool = max(top_k, self._retriever.config.candidate_pool)
        while True:
            hits = self._retriever.search(
                query, top_k=pool, candidate_pool=pool, scope=given.with_(base=_BASE), exact=exact
            )
            found = self._valid(hits, given, exact=exact)
            if len(found) >= top_k or len(hits) < pool:
                return found[:top_k]
            pool *= 4

    async def asearch(self, query: str, **kwargs: Any) -> list[RetrievalResult]:
        """`search` on a worker thread."""
        return await asyncio.to_thread(self.search, query, **kwargs)

    def pending_reindex(self, *, scope: Scope | None = None) -> set[str]:
        """Return the ids whose index entry failed to be written or deleted and has not converged (SES-37).

        Args:
            scope: its set dimensions filter, `base` aside; without any, those of all conversations.
        """
        return self._index_sync.pending(scope=_indexed(scope))

    def reconcile(self, *, scope: Scope | None = None, all_scopes: bool = False) -> int:
        """Make the index of a session equal to the store; return how many entries were written or deleted.

        Call it when something is pending, and for sessions written before this class wrapped their store: their
        messages are indexed as far as they have an id.

        Args:
            scope: the session, unset dimensions included.
            all_scopes: do so for every session that the index knows of.

        Raises:
            SessionError: the store cannot be read.
            RetrievalError: the bookkeeping cannot be read.
        """
        places = self._index_sync.entries(scope=_CONVERSATIONS) if all_scopes else [scope or Scope()]
        done = 0
        for place in {place.with_(base=_BASE) for place in places}:
            with self._locks.one(place):
                items = [
                    item
                    for session in self._sharing(place, None if all_scopes else scope)
                    for item in _items(self._store.load(scope=session), session)
                ]
                done += self._index_sync.reconcile(items, scope=place)
        return done

    def close(self) -> None:
        """Close the store and the bookkeeping, not the retriever; a second call does nothing (SES-38)."""
        if self._closed:
            return
        self._closed = True
        try:
            self._store.close()
        finally:
            self._index_sync.close()

    def _index(self, messages: list[Message], scope: Scope | None) -> None:
        try:
            items = _items(messages, scope or Scope())
            self._index_sync.index(
                [item.id for item in items],
                [item.content for item in items],
                scope=_indexed(scope),
                metadatas=[item.metadata or {} for item in items],
            )
        except Exception as error:  # noqa: BLE001 - the messages are stored: nothing may say otherwise now (SES-31)
            _log.warning("%d messages are stored but not indexed: %s", len(messages), type(error).__name__)

    def _forget(self, ids: list[str], scope: Scope | None, *, all_scopes: bool) -> None:
        if not all_scopes:
            self._index_sync.drop(ids, scope=_indexed(scope))
            return
        left = set(ids)
        for place, held in self._index_sync.entries(scope=_CONVERSATIONS).items():
            self._index_sync.drop(sorted(held.intersection(ids)), scope=place)
            left -= held
        # Nobody knows where these are, if anywhere; a failure hides them from every search all the same.
        self._index_sync.drop(sorted(left), scope=_CONVERSATIONS)

    def _valid(self, hits: list[RetrievalResult], given: Scope, *, exact: bool) -> list[RetrievalResult]:
        # Asked after the search, so that nothing slips through which is erased meanwhile; and of all conversations,
        # since an id may be pending elsewhere than it is found.
        hidden = self._index_sync.pending(scope=_CONVERSATIONS)
        any_base = not exact and given.base in {None, _BASE}
        return [hit for hit in hits if hit.id not in hidden and (any_base or hit.metadata.get(_OWN_BASE) == given.base)]

    def _sharing(self, place: Scope, asked: Scope | None) -> list[Scope]:
        """Return the sessions that share a place in the index: those that differ in `base` only."""
        bases = {None, (asked or Scope()).base}
        with contextlib.suppress(NotImplementedError):
            listed = self._store.list_scopes(along="base", scope=place.with_(base=None))
            bases.update(summary.value or None for summary in listed)
        return [place.with_(base=base) for base in bases]

    @contextlib.contextmanager
    def _turn(self, scope: Scope | None, *, all_scopes: bool = False) -> Iterator[None]:
        # By the place in the index, so that sessions that share one take turns, too.
        with self._locks.all() if all_scopes else self._locks.one(_indexed(scope)):
            yield


def message_text(message: Message) -> str:
    """Return what a message says: its text, or the texts among its parts, a line each."""
    if isinstance(message.content, str):
        return message.content
    parts = [part.get("text") for part in message.content if isinstance(part, dict)]
    return "\n".join(text for text in parts if isinstance(text, str))


def _identify(message: Message) -> None:
    if not isinstance(message, Message):
        raise SessionError(f"a session stores Message objects, not {type(message).__name__}")
    if not isinstance(message.metadata, dict):
        raise SessionError(f"a message's metadata is a dict, not {type(message.metadata).__name__}")
    given = message.metadata.get(MESSAGE_ID)
    if given is None or given == "":
        message.metadata[MESSAGE_ID] = new_event_id(now_ns())
    elif not _is_id(given):
        raise SessionError(f"a message's message_id is a text or an integer, not {type(given).__name__}")


def _is_id(value: object) -> bool:
    return (isinstance(value, str) and value != "") or (isinstance(value, int) and not isinstance(value, bool))


def _ids(messages: Sequence[Message]) -> list[str]:
    """Return the ids of those that have one (SES-34)."""
    found = (message.metadata.get(MESSAGE_ID) for message in messages)
    return list(dict.fromkeys(str(id_) for id_ in found if _is_id(id_)))


def _items(messages: Sequence[Message], scope: Scope) -> list[IndexItem]:
    """Return messages with an id as they are indexed (SES-33)."""
    return [
        IndexItem(id_, f"{message.role}: {message_text(message)}", _metadata(message, scope))
        for message in messages
        for id_ in _ids([message])
    ]


def _metadata(message: Message, scope: Scope) -> dict[str, Any]:
    moment = message.timestamp
    aware = moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)
    known = {"role": message.role, "time": aware.isoformat()}
    return {**known, _OWN_BASE: scope.base} if scope.base else known


def _indexed(scope: Scope | None) -> Scope:
    return (scope or Scope()).with_(base=_BASE)
