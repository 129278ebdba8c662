"""Tells whether something in another place is what an erasure is about, without its knowing any name in clear."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import duckdb

from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.erasure.record import ErasureRecord


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an erasure is about, as it can be recognised elsewhere.

    Attributes:
        record: the erasure.
        pseudonyms: of its tenant.
        runs: keyed digests of the runs that go whole.
        events: ids of the events that go, 16 bytes each.
    """

    record: ErasureRecord
    pseudonyms: Pseudonyms
    runs: frozenset[bytes] = field(repr=False)
    events: frozenset[bytes] = field(repr=False)

    @classmethod
    def of(cls, cursor: duckdb.DuckDBPyConnection, record: ErasureRecord, pseudonyms: Pseudonyms) -> Wanted:
        """Read it from the manifest.

        Raises:
            duckdb.Error: the store cannot be read.
        """
        runs = cursor.execute("SELECT run_digest FROM erased_runs WHERE erasure_id = ? AND whole", [record.id])
        digests = frozenset(bytes(row[0]) for row in runs.fetchall())
        events = cursor.execute("SELECT event_id FROM erased_events WHERE erasure_id = ?", [record.id])
        ids = frozenset(row[0].bytes for row in events.fetchall())
        return cls(record, pseudonyms.of(record.tenant), digests, ids)

    @property
    def everything(self) -> bool:
        """Whether all of the tenant goes."""
        return self.record.scope == "tenant"

    def run(self, run_id: object) -> bool:
        """Whether a run goes whole: one of the manifest, or the one named, which this collector may never have seen."""
        if self.everything:
            return True
        if not isinstance(run_id, str):
            return False
        named = self.record.scope == "run" and self.record.scope_value in {run_id, self.pseudonyms.run_name(run_id)}
        return named or self.pseudonyms.run(run_id) in self.runs

    def event(self, event_id: object) -> bool:
        """Whether an event goes."""
        try:
            return isinstance(event_id, str) and uuid.UUID(event_id).bytes in self.events
        except ValueError:
            return False

    def user(self, user: object) -> bool:
        """Whether a person, by their own id, is the one it is about."""
        return self.everything or self._named("subject", self.pseudonyms.user, user)

    def session(self, session: object) -> bool:
        """Whether a session, by its own id, is the one it is about."""
        return self.everything or self._named("session", self.pseudonyms.session, session)

    def _named(self, scope: str, pseudonym: Callable[[str], str], said: object) -> bool:
        if self.record.scope != scope or not isinstance(said, str | int) or said == "":
            return False
        return self.record.scope_value in {said, pseudonym(str(said))}
