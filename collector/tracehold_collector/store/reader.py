"""Reads beside the writer: named queries, one event, contents. Each call has a cursor of its own and a time limit."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from tracehold_queries import Query, QueryParameterError, catalogue

from tracehold_collector.core.errors import QueryError, StoreError
from tracehold_collector.core.record import Record
from tracehold_collector.sealing.vault import Vault
from tracehold_collector.store.database import Database
from tracehold_collector.store.opened import Bounds, OpenedChunks
from tracehold_collector.store.records import read_records, unpack
from tracehold_collector.store.traces import Load, StoredTrace, read_outlines, read_whole

DEFAULT_TIMEOUT_S = 30.0

NO_CONTENT = "what was said is left out: this key does not have the role content"

MAX_PACKED_BYTES = 16 * 1024 * 1024
"""Compressed content that one answer may be made of; unpacked it is about ten times that."""

_T = TypeVar("_T")

_EVENT = """
SELECT *
FROM events
WHERE event_id = $key
  AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
ORDER BY received_at
LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Access:
    """What the asker may see.

    Attributes:
        tenants: the tenants whose data it is allowed; `None` is all.
        content: whether it may see what was said, beside the envelope.
    """

    tenants: tuple[str, ...] | None = None
    content: bool = True


class Reader:
    """Answers questions from the store; safe to use from any thread.

    Args:
        database: the open store.
        timeout_s: a query that runs longer is interrupted.
    """

    def __init__(self, database: Database, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self._database = database
        self._timeout_s = timeout_s

    def query(self, name: str, parameters: Mapping[str, object], access: Access) -> pa.Table:
        """Run a named query.

        Args:
            name: a name of the catalogue.
            parameters: values, as text or typed; `tenants` is bound from `access` and may not be given.
            access: what the asker may see.

        Raises:
            QueryError: no such query, a parameter it does not have or cannot use, or it took too long.
            StoreError: the store could not answer.
        """
        query = find_query(name)
        if "tenants" in parameters:
            raise QueryError("the parameter 'tenants' is set from your key; leave it out, or narrow down with 'tenant'")
        try:
            bound = query.bind({**parameters, "tenants": _tenants(access)})
        except QueryParameterError as error:
            raise QueryError(str(error)) from error
        return self._run(lambda cursor: query.arrow(cursor, **bound))

    def event(self, event_id: str, access: Access) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
        """Return one event's envelope and content, or `None` when there is none the asker may see.

        Raises:
            QueryError: `event_id` is no UUID (32 hex digits, dashes allowed).
        """
        key = _uuid(event_id)

        def read(cursor: duckdb.DuckDBPyConnection) -> tuple[dict[str, Any], dict[str, Any] | None] | None:
            cursor.execute(_EVENT, {"key": key, "tenants": _tenants(access)})
            rows = cursor.fetchall()
            if not rows:
                return None
            envelope = dict(zip([column[0] for column in cursor.description or []], rows[0], strict=True))
            only = Access((envelope["tenant"],), access.content)
            return envelope, self._contents(cursor, [key], only).get(key)

        return self._run(read)

    def contents(self, event_ids: Sequence[str], access: Access) -> dict[str, dict[str, Any] | None]:
        """Return the contents of several events by the ids asked for; `None` where there is none to see.

        Raises:
            QueryError: one of them is no UUID.
        """
        keys = {text: _uuid(text) for text in event_ids}
        found = self._run(lambda cursor: self._contents(cursor, list(keys.values()), access))
        return {text: found.get(key) for text, key in keys.items()}

    def traces(
        self, trace_ids: Collection[str], access: Access, *, max_events: int, with_content: bool
    ) -> list[StoredTrace]:
        """Return traces, in no order; an id that is not there, or not to be seen, is left out.

        Args:
            trace_ids: 32 lower-case hex digits each.
            access: what the asker may see.
            max_events: of all together; `StoredTrace.events` tells when some are missing.
            with_content: whether their records have what the events said; what does not fit into `MAX_PACKED_BYTES`
                is left out and counted in `StoredTrace.unread`.
        """
        opened = OpenedChunks(self.vault, MAX_PACKED_BYTES if with_content and access.content else 0)
        tenants = _tenants(access)
        found, bounds = self._run(
            lambda cursor: read_outlines(cursor, trace_ids, tenants, max_events=max_events, opened=opened)
        )
        for trace in found:
            trace.load = self._load(trace, bounds, opened)
        return found

    def _load(self, trace: StoredTrace, bounds: Bounds, opened: OpenedChunks) -> Load:
        """Each part in a statement of its own: whoever writes a long answer keeps nothing open meanwhile."""
        ids = [record.event_id for record in trace.outline]

        def load(places: Sequence[int]) -> list[Record]:
            wanted = [ids[place] for place in places]
            return self._run(lambda cursor: read_whole(cursor, trace.tenant, wanted, bounds, opened))

        return load

    def records(
        self, event_ids: Collection[str], access: Access, *, between_ns: tuple[int, int]
    ) -> tuple[dict[str, Record], bool]:
        """Return events as records with the contents the asker may see, by id, and whether each of these fitted in.

        Args:
            event_ids: UUIDs as text, as queries give them.
            access: what the asker may see.
            between_ns: the first and the last start among them; one without a start is not found.
        """
        packed = MAX_PACKED_BYTES if access.content else 0
        return self._run(
            lambda cursor: read_records(
                cursor, self.vault, event_ids, _tenants(access), between_ns=between_ns, max_packed=packed
            )
        )

    @property
    def vault(self) -> Vault:
        """Opens contents."""
        return self._database.vault

    def run(self, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> _T:
        """Do `work` with a cursor of its own, within the time limit of one question.

        Raises:
            QueryError: it took too long.
            StoreError: the store could not answer.
        """
        return self._run(work)

    def ping(self) -> None:
        """Raise `StoreError` unless the store answers."""
        self._run(lambda cursor: cursor.execute("SELECT 1").fetchall())

    def _run(self, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> _T:
        try:
            with self._database.cursor() as cursor, _time_limit(cursor, self._timeout_s):
                return work(cursor)
        except duckdb.InterruptException as error:
            raise QueryError(
                f"the question took longer than {self._timeout_s:g} s and was stopped; narrow it down, say by time"
            ) from error
        except duckdb.Error as error:
            # DuckDB takes a JSON path apart when it plans the question: what is none is the asker's fault.
            if isinstance(error, duckdb.BinderException) and "JSON path error" in str(error):
                raise QueryError("a JSON path in the question is none; one looks like $.finish_reason") from error
            raise StoreError(f"the store could not answer: {type(error).__name__}") from error

    def _contents(
        self, cursor: duckdb.DuckDBPyConnection, keys: Sequence[uuid.UUID], access: Access
    ) -> dict[uuid.UUID, dict[str, Any] | None]:
        if not access.content:
            return {}
        tenants = _tenants(access)
        places = cursor.execute(
            """
            SELECT event_id, content_chunk, content_pos
            FROM events
            WHERE event_id IN (SELECT unnest($keys::UUID[]))
              AND content_chunk IS NOT NULL
              AND ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
            """,
            {"keys": list(keys), "tenants": tenants},
        ).fetchall()
        found, beyond = unpack(
            cursor, self.vault, {key: (chunk, position) for key, chunk, position in places}, MAX_PACKED_BYTES
        )
        if beyond:
            raise QueryError(f"these {len(keys)} events say too much for one answer; ask for fewer at once")
        return {**found}


def find_query(name: str) -> Query:
    """Return a query of the catalogue.

    Raises:
        QueryError: there is none of that name; the text lists those that exist.
    """
    queries = catalogue()
    if name not in queries:
        raise QueryError(f"there is no query {name!r}; there are: {', '.join(queries)}")
    return queries[name]


@contextmanager
def _time_limit(cursor: duckdb.DuckDBPyConnection, timeout_s: float) -> Iterator[None]:
    timer = threading.Timer(timeout_s, cursor.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tenants(access: Access) -> list[str] | None:
    return None if access.tenants is None else list(access.tenants)


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise QueryError(
            f"{text[:64]!r} is no event id; an event id is a UUID: 32 hex digits, dashes allowed"
        ) from None
