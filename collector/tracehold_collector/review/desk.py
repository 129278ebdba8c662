"""Where reviewers act: the rules are held here, under one lock, and an act counts once it is committed."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

import duckdb
from tracehold.core.clock import NS_PER_S, now_ns
from tracehold.privacy import Cleaner

from tracehold_collector.access.principal import Principal
from tracehold_collector.core.errors import BadBodyError, ConflictError, NotFoundError, QueryError, StoreError
from tracehold_collector.core.names import try_clean
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Record
from tracehold_collector.core.tenants import is_tenant
from tracehold_collector.review.acts import Author, DayFigures, act_record, day_record
from tracehold_collector.review.reading import (
    Denial,
    StoredAct,
    find_denial,
    read_acts,
    read_day,
    read_review,
)
from tracehold_collector.review.states import Review, Wish, after
from tracehold_collector.store.reader import Reader
from tracehold_collector.store.rows import encode
from tracehold_collector.store.writer import Writer

DUE_HOURS: Final = 24
"""Hours after receipt by which a denial should be reviewed, where nothing else is said."""

_COMMIT_S: Final = 60.0
_NS_PER_HOUR: Final = 3_600 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Done:
    """An act that is committed: its event, and how the review stands now."""

    event_id: uuid.UUID
    denial: Denial
    review: Review


@dataclass(frozen=True, slots=True)
class SignedDay:
    """A signature that is committed: its event, what it says, and which signature under that day it is."""

    event_id: uuid.UUID
    tenant: str
    day: date
    figures: DayFigures
    revision: int


class ReviewDesk:
    """Takes in what reviewers do. Safe to use from any thread; calls block until the act is committed.

    Of two who act on the same state, the first to be committed wins and the other is told. Two things hold that: acts
    of one process are judged one after the other, and the id of an act is made of the denial and the number of the act,
    so that the store takes it once, also where several processes write.

    Args:
        reader: answers how reviews stand.
        writer: commits the acts.
        pseudonyms: of this store, for the ids of acts.
    """

    def __init__(self, reader: Reader, writer: Writer, pseudonyms: Pseudonyms) -> None:
        self._reader = reader
        self._writer = writer
        self._pseudonyms = pseudonyms
        self._lock = threading.Lock()
        self._cleaner = Cleaner(mask="[REDACTED]", mask_name=lambda name: f"[REDACTED:{name}]")

    def look(self, event_id: str, tenant: str | None, who: Principal) -> tuple[Denial, Review, Sequence[StoredAct]]:
        """Return a denial, how its review stands, and what was done about it.

        Raises:
            QueryError: it is no id, or names several tenants' denials.
            NotFoundError: there is no such denial that `who` may see.
        """

        def read(cursor: duckdb.DuckDBPyConnection) -> tuple[Denial, Review, Sequence[StoredAct]]:
            denial = find_denial(cursor, event_id, tenant, who.tenants)
            return denial, read_review(cursor, denial), read_acts(cursor, denial)

        return self._reader.run(read)

    def act(self, event_id: str, tenant: str | None, wish: Wish, who: Principal) -> Done:
        """Do what `who` wishes about a denial.

        Raises:
            QueryError, NotFoundError: as in `look`.
            ConflictError: somebody acted since `who` looked, or the step is none from here.
            NotAllowedError: a second sign-off by the login that gave the verdict.
            BadBodyError: the note cannot be masked.
            QueueFullError, StoreError: nothing was done; try again.
        """
        note = self._masked(wish.note)
        with self._lock:
            denial, review, _ = self.look(event_id, tenant, who)
            following = after(review, wish, who)
            record = act_record(wish.act, denial.event_id, following, self._author(who, denial.tenant), note)
            self._commit(record)
        return Done(uuid.UUID(bytes=record.event_id), denial, following)

    def day(self, day: date, tenant: str | None, who: Principal, due_hours: int = DUE_HOURS) -> tuple[DayFigures, int]:
        """Return what a day's denials come to, and how often the day was signed off.

        Raises:
            QueryError: the key names several tenants and none is said, or it is no tenant's name.
            NotFoundError: the tenant is not the key's.
        """
        whose = tenant_of(tenant, who)
        due_before = now_ns() - due_hours * _NS_PER_HOUR
        return self._reader.run(lambda cursor: read_day(cursor, whose, day, due_before))

    def sign_day(self, day: date, tenant: str | None, seen: DayFigures, who: Principal, note: str | None) -> SignedDay:
        """Sign a day off.

        Args:
            day: of receipt, UTC; it must be over.
            tenant: whose; `None` is the key's only one.
            seen: what `who` saw; `overdue` is not compared, since it grows by itself.
            who: signs.
            note: free text.

        Raises:
            QueryError, NotFoundError: as in `day`.
            ConflictError: the day is not over, or the figures are others than `who` saw.
            BadBodyError: the note cannot be masked.
            QueueFullError, StoreError: nothing was done; try again.
        """
        masked = self._masked(note)
        whose = tenant_of(tenant, who)
        if day >= datetime.now(UTC).date():
            raise ConflictError(f"{day} is not over in UTC: more denials may come in. Sign it off from tomorrow on")
        with self._lock:
            figures, revision = self.day(day, whose, who)
            if _compared(figures) != _compared(seen):
                raise ConflictError(
                    f"the figures of {day} are others than you saw: {figures.denials} denials, {figures.unreviewed} "
                    f"without a verdict, {figures.awaiting_sign_off} awaiting sign-off. Look again; nothing was signed"
                )
            record = day_record(day, revision + 1, figures, self._author(who, whose), masked)
            self._commit(record)
        return SignedDay(uuid.UUID(bytes=record.event_id), whose, day, figures, revision + 1)

    def _author(self, who: Principal, tenant: str) -> Author:
        return Author(who, tenant, self._pseudonyms.of(tenant))

    def _commit(self, record: Record) -> None:
        try:
            receipt = self._writer.submit(encode([record])).result(_COMMIT_S)
        except TimeoutError as error:
            raise StoreError(
                "the store is slow to take this in; look whether it was recorded before you repeat it"
            ) from error
        if receipt.duplicates:
            raise ConflictError("somebody acted on this at the same moment; look at it again. Nothing was changed")
        if receipt.refused:
            raise StoreError("the store could not take this act in; nothing was changed")

    def _masked(self, note: str | None) -> str | None:
        if note is None:
            return None
        masked = try_clean(self._cleaner, note)
        if masked is None:
            raise BadBodyError("the note cannot be masked; write it plainer")
        return masked


def tenant_of(tenant: str | None, who: Principal) -> str:
    """Return whose log an act goes into that names no event.

    Raises:
        QueryError: none is said, and the key names several or all.
        NotFoundError: it is not the key's.
    """
    if tenant is None:
        if who.tenants is not None and len(who.tenants) == 1:
            return who.tenants[0]
        raise QueryError("this key names several tenants; say which with 'tenant'")
    if who.tenants is not None and tenant not in who.tenants:
        raise NotFoundError(f"there is no tenant {tenant[:64]!r} that you may see")
    if not is_tenant(tenant):
        raise QueryError("'tenant' is an identifier of at most 128 letters, digits and _.:/@+-")
    return tenant


def _compared(figures: DayFigures) -> tuple[int, int, int]:
    return figures.denials, figures.unreviewed, figures.awaiting_sign_off
