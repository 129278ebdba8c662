"""Carries erasures out, a step at a time; each is durable before the next, and may be done again after a crash.

    frozen      the manifest stands, and nothing more is taken in that it is about
    unreadable  the keys are destroyed; what shared them is sealed again
    emptied     cells are empty, of a deletion the rows are gone
    completed   the places beyond the database are done, and the root over the erased leaves is told
    bytes_gone  the file was written anew
    scanned     pieces of what was erased were looked for, in every file

The key store goes first of all that destroys: from then on the content is gone, whatever happens.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import duckdb
import orjson
import structlog
from tracehold.core.clock import now_ns

from tracehold_collector.core.errors import CollectorError, StoreError
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.erasure.acts import act
from tracehold_collector.erasure.emptying import empty_cells
from tracehold_collector.erasure.keys import Sealer
from tracehold_collector.erasure.leaves import erased_root
from tracehold_collector.erasure.manifest import events_of, freeze
from tracehold_collector.erasure.record import Canaries, ErasureRecord, PlaceCount, Recipient, Stayed, load_erasures
from tracehold_collector.erasure.request import scope_of
from tracehold_collector.erasure.selection import choose, forget_chosen, size_of_chosen
from tracehold_collector.erasure.steps import tell
from tracehold_collector.erasure.words import Step
from tracehold_collector.sealing.keystore import ListedErasure
from tracehold_collector.store.committer import Committer
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer

_log = structlog.get_logger(__name__)

OURS: Final = "the collector"
"""Who does the steps that nobody asked for one by one."""

_WAIT_S: Final = 600.0
_SLOW: Final = frozenset({"completed", "bytes_gone"})
"""What comes after these takes a while."""

_REWRITE_EVERY_NS: Final = 24 * 3600 * 1_000_000_000

_COUNTS: Final = "SELECT details::VARCHAR FROM erasures WHERE erasure_id = ? AND step = 'lot'"
_PIECES: Final = "SELECT details::VARCHAR FROM erasures WHERE erasure_id = ? AND step = 'unreadable'"
_TABLES: Final = ("resealed", "contents", "run_deltas", "costs", "usage_shares")


class Beyond(Protocol):
    """What an erasure reaches beyond the database, and whom it cannot reach."""

    def erase(self, record: ErasureRecord) -> tuple[Sequence[PlaceCount], Sequence[Stayed]]:
        """Erase it in the places that were registered; may be called again."""
        ...

    def recipients(self, record: ErasureRecord) -> Sequence[Recipient]:
        """Return who may have a copy."""
        ...


class Scanner(Protocol):
    """Looks for pieces of what was erased."""

    def remember(self, record: ErasureRecord) -> list[bytes]:
        """Take pieces of what is about to be erased, and return those that may be kept on disk meanwhile."""
        ...

    def scan(self, record: ErasureRecord, sealed: Sequence[bytes]) -> Canaries:
        """Look for these, and for those that were kept in memory, in every file."""
        ...


class _Nothing:
    """No places, no recipients, no canaries."""

    def erase(self, _record: ErasureRecord) -> tuple[Sequence[PlaceCount], Sequence[Stayed]]:
        return (), ()

    def recipients(self, _record: ErasureRecord) -> Sequence[Recipient]:
        return ()

    def remember(self, _record: ErasureRecord) -> list[bytes]:
        return []

    def scan(self, _record: ErasureRecord, sealed: Sequence[bytes]) -> Canaries:
        return Canaries(len(sealed), 0, {}, 0, 0)


@dataclass(frozen=True, slots=True)
class Parts:
    """What an engine works with besides the store.

    Attributes:
        rewrite: writes the store's file anew without what was erased, and returns when it has; `None` when that is not
            to be had: then nobody says that the bytes are gone.
        beyond: other places and recipients.
        scanner: looks for remains.
    """

    rewrite: Callable[[], object] | None = None
    beyond: Beyond = field(default_factory=_Nothing)
    scanner: Scanner = field(default_factory=_Nothing)


class ErasureEngine:
    """Takes erasures from step to step. One at a time, on the caller's thread.

    Args:
        database: the open store.
        writer: what changes the store goes through it.
        pseudonyms: of the store, for the ids of what is told in the log.
        parts: what else there is.
        stopping: set when the collector ends; the step at hand is left where it is, and goes on at the next start.
    """

    def __init__(
        self, database: Database, writer: Writer, pseudonyms: Pseudonyms, parts: Parts, stopping: threading.Event
    ) -> None:
        self._database = database
        self._pseudonyms = pseudonyms
        self._writer = writer
        self._parts = parts
        self._stopping = stopping
        self._sealer = Sealer(database, writer, stopping.is_set)
        self._steps: dict[Step, Callable[[ErasureRecord], None]] = {
            "requested": self._freeze,
            "approved": self._freeze,
            "frozen": self._make_unreadable,
            "unreadable": self._empty,
            "emptied": self._complete,
            "completed": self._rewrite,
            "bytes_gone": self._scan,
        }

    def record(self, erasure_id: str) -> ErasureRecord:
        """Return how an erasure stands.

        Raises:
            StoreError: there is none of this id, or the store cannot be read.
        """
        with self._database.cursor() as cursor:
            found = load_erasures(cursor, None, ids=[erasure_id])
        if not found:
            raise StoreError(f"there is no erasure {erasure_id}")
        return found[0]

    def unfinished(self) -> list[ErasureRecord]:
        """Return the erasures that are to be taken further, the oldest request first."""
        with self._database.cursor() as cursor:
            records = load_erasures(cursor, None)
        return [record for record in reversed(records) if self.next_step(record) is not None]

    def next_step(self, record: ErasureRecord) -> Callable[[ErasureRecord], None] | None:
        """Return what is to be done next, `None` when nothing is or somebody has to say yes first."""
        if record.status in {"waiting for approval", "refused"}:
            return None
        step = last_step(record)
        if step == "completed" and not self._rewrite_due(record):
            return None
        return self._steps.get(step)

    def _rewrite_due(self, record: ErasureRecord) -> bool:
        """For a request at once; for what a policy took, once a day: writing a large file anew takes a while."""
        if self._parts.rewrite is None:
            return False
        if record.basis != "retention":
            return True
        with self._database.cursor() as cursor:
            (row,) = cursor.execute("SELECT max(happened_at) FROM erasures WHERE step = 'bytes_gone'").fetchall()
        return row[0] is None or now_ns() - row[0] > _REWRITE_EVERY_NS

    def advance(self, record: ErasureRecord) -> bool:
        """Do the next step of an erasure; return whether there was one.

        Raises:
            CollectorError, duckdb.Error, TimeoutError: it failed, and is to be tried again; what is done stays done.
        """
        step = self.next_step(record)
        if step is None:
            return False
        step(record)
        return True

    def finish(self, erasure_id: str, *, slow: bool = True) -> ErasureRecord:
        """Take an erasure as far as it goes, unless the collector is stopping; return how it stands then.

        Args:
            erasure_id: which one.
            slow: whether also to write the file anew and to search it, which takes a while.

        Raises:
            CollectorError, duckdb.Error, TimeoutError: as `advance`.
        """
        record = self.record(erasure_id)
        while not self._stopping.is_set() and (slow or last_step(record) not in _SLOW) and self.advance(record):
            record = self.record(erasure_id)
        return record

    def destroy_again(self, record: ErasureRecord) -> None:
        """Destroy the keys of an erasure whose tables are done already: the key store was restored from before it.

        Raises:
            CollectorError, duckdb.Error, TimeoutError: as `advance`.
        """
        self._sealer.make_unreadable(record, now_ns())
        self._list(record)

    def failed(self, record: ErasureRecord, error: BaseException) -> None:
        """Tell that a step failed."""
        _log.error("erasure_step_failed", erasure=record.id, after=last_step(record), error=type(error).__name__)

        def note(committer: Committer) -> None:
            with committer.transaction() as connection:
                tell(connection, record.id, record.tenant, "failed", now_ns(), error=type(error).__name__)

        self._writer.run(note).result(_WAIT_S)

    def log_act(self, what: str, subject_id: str, tenant: str, principal: str, **told: Any) -> None:
        """Put an act into the log, as `acts.act` writes it; one that is there already adds nothing.

        Raises:
            StoreError: it could not be stored.
        """
        record = act(self._pseudonyms, what, subject_id, tenant, principal, **told)
        self._writer.submit([record]).result(_WAIT_S)

    def _freeze(self, record: ErasureRecord) -> None:
        with self._database.cursor() as cursor:
            choose(cursor, record.tenant, scope_of(record), record.mode, (), self._pseudonyms)
            size = size_of_chosen(cursor, record.tenant)
            forget_chosen(cursor)
        vault = self._database.vault
        self._writer.run(lambda committer: freeze(committer, vault, record, size, self._pseudonyms)).result(_WAIT_S)
        frozen = self.record(record.id)
        if frozen.refused_at is not None:
            self._act(frozen, "refused", status="blocked", why=frozen.refused_why)

    def _make_unreadable(self, record: ErasureRecord) -> None:
        # Again after a crash: the event before the keys, the list before the keys, each adding nothing the second time.
        self._act(record, "started", runs=record.runs, events=record.events, keys=record.keys)
        pieces = self._parts.scanner.remember(record)
        self._list(record)
        if self._sealer.make_unreadable(record, now_ns()):
            self._tell(record, "unreadable", pieces=pieces)

    def _empty(self, record: ErasureRecord) -> None:
        if empty_cells(self._writer, record, self._stopping.is_set):
            self._tell(record, "emptied")

    def _complete(self, record: ErasureRecord) -> None:
        places, stayed = self._parts.beyond.erase(record)
        recipients = self._parts.beyond.recipients(record)
        with self._database.cursor() as cursor:
            leaves, root = erased_root(cursor, record.id, record.tenant)
        places = [*self._places(record), *places]
        self._act(record, "completed", leaves=leaves, root=root.hex() if root else None)
        self._tell(
            record,
            "completed",
            leaves=leaves,
            root=root,
            places=places,
            stayed=[*record.stayed, *stayed],
            recipients=recipients,
        )

    def _rewrite(self, _record: ErasureRecord) -> None:
        assert self._parts.rewrite is not None  # noqa: S101 - `next_step` has looked
        with self._database.cursor() as cursor:
            waiting = [each for each in load_erasures(cursor, None) if last_step(each) == "completed"]
        self._parts.rewrite()
        for each in waiting:  # one new file is without what any of them was about
            self._act(each, "bytes_gone")
            self._tell(each, "bytes_gone")

    def _scan(self, record: ErasureRecord) -> None:
        with self._database.cursor() as cursor:
            rows = cursor.execute(_PIECES, [record.id]).fetchall()
        pieces = [bytes.fromhex(piece) for (told,) in rows for piece in orjson.loads(told).get("pieces", ())]
        canaries = self._parts.scanner.scan(record, pieces)
        found = sum(canaries.found.values())
        looked_for = canaries.sealed + canaries.plain
        self._act(record, "scanned", canaries=looked_for, found=found, status="error" if found else "ok")
        self._tell(record, "scanned", **{name: getattr(canaries, name) for name in Canaries.__slots__})

    def _list(self, record: ErasureRecord) -> None:
        """Put it on the key store's list: a database that is restored from before it has it applied from there."""
        with self._database.cursor() as cursor:
            runs = cursor.execute(
                "SELECT run_digest FROM erased_runs WHERE erasure_id = ? AND whole", [record.id]
            ).fetchall()
            # Of runs that went whole, the run says it all.
            whole = len(runs) == record.runs
            events = [] if whole else cursor.execute(events_of(record.id)).fetchall()
            ((request,),) = cursor.execute(
                "SELECT details::VARCHAR FROM erasures WHERE erasure_id = ? AND step = 'requested' LIMIT 1", [record.id]
            ).fetchall()
        self._database.vault.keys.list_erasure(
            ListedErasure(
                record.id,
                record.tenant,
                record.mode,
                now_ns(),
                tuple(bytes(row[0]) for row in runs),
                tuple(row[0].bytes for row in events),
                request,
            )
        )

    def _places(self, record: ErasureRecord) -> list[PlaceCount]:
        """What was done in the database and the key store, put together from the lots."""
        with self._database.cursor() as cursor:
            lots = [orjson.loads(row[0]) for row in cursor.execute(_COUNTS, [record.id]).fetchall()]
        done = {name: sum(lot.get(name, 0) for lot in lots) for name in _TABLES}
        deleted, contents, resealed = record.mode == "delete", done.pop("contents"), done.pop("resealed")
        gone, emptied = (contents, 0) if deleted else (0, contents)
        return [
            PlaceCount("keys", record.keys, removed=record.keys),
            PlaceCount("contents", contents + resealed, gone, emptied, resealed),
            PlaceCount("events", record.events, removed=record.events if deleted else 0),
            *(PlaceCount(name, count, removed=count) for name, count in done.items()),
        ]

    def _act(self, record: ErasureRecord, what: str, *, status: Any = "ok", **attributes: Any) -> None:
        given = {"erasure.mode": record.mode, "erasure.scope": record.scope, "erasure.basis": record.basis}
        given |= {f"erasure.{name}": value for name, value in attributes.items()}
        self.log_act(f"erasure.{what}", record.id, record.tenant, OURS, attributes=given, status=status)

    def _tell(self, record: ErasureRecord, step: Step, **details: Any) -> None:
        def note(committer: Committer) -> None:
            with committer.transaction() as connection:
                tell(connection, record.id, record.tenant, step, now_ns(), **details)

        self._writer.run(note).result(_WAIT_S)


def last_step(record: ErasureRecord) -> Step:
    """Return the step an erasure has reached."""
    return next(step for step, _ in reversed(record.steps) if step not in {"failed", "lot"})


ERRORS: Final = (CollectorError, duckdb.Error, TimeoutError)
"""What a step may fail with."""
