"""Who may have a copy of what is erased: receivers of forwards, downloads, and backups of the keys (GDPR Art. 19)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import structlog
from tracehold.core.clock import now_ns

from tracehold_collector.access.file import open_file
from tracehold_collector.core.errors import StoreError
from tracehold_collector.erasure.record import ErasureRecord, Recipient
from tracehold_collector.forward.progress import load_progress
from tracehold_collector.store.database import Database

_log = structlog.get_logger(__name__)

_DOWNLOADS: Final = """
SELECT who, what, min(at), max(at)
FROM access_log
WHERE action = 'export'
  AND at >= :since
  AND (tenants IS NULL OR EXISTS (SELECT 1 FROM json_each(tenants) WHERE value = :tenant))
GROUP BY who, what
ORDER BY min(at)
"""

_FIRST_SEEN: Final = "SELECT min(received_at) FROM erased_events WHERE erasure_id = ?"

ART_19: Final = "tell them of the erasure (GDPR Art. 19)"


class Recipients:
    """Knows who was handed copies.

    Args:
        database: the open store.
        folder: its data folder, with the access log and the progress of forwards.
    """

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder

    def of(self, record: ErasureRecord) -> list[Recipient]:
        """Return who may have a copy of what this erasure is about: handed over since its first event came in.

        Raises:
            duckdb.Error: the manifest cannot be read.
            StoreError: the access log or the key store cannot be read.
        """
        with self._database.cursor() as cursor:
            (row,) = cursor.execute(_FIRST_SEEN, [record.id]).fetchall()
        if row[0] is None:
            return []
        first_ns = int(row[0])
        return [*self._forwards(first_ns), *self._downloads(record.tenant, first_ns), *self._key_backups(record)]

    def _forwards(self, first_ns: int) -> Iterator[Recipient]:
        for path in sorted(self._folder.glob("forward-*.json")):
            try:
                progress = load_progress(path)
            except StoreError:
                yield Recipient("forward", path.name, note=f"its progress cannot be read; {ART_19}")
                continue
            if progress is not None and progress.position.received_at >= first_ns:
                yield Recipient("forward", progress.receiver, since=first_ns, note=ART_19)

    def _downloads(self, tenant: str, first_ns: int) -> Iterator[Recipient]:
        with closing(open_file(self._folder)) as connection:
            rows = connection.execute(_DOWNLOADS, {"since": first_ns, "tenant": tenant}).fetchall()
        for who, what, first, last in rows:
            yield Recipient("download", f"{who} ({what})", first, last, f"a file that was made here; {ART_19}")

    def _key_backups(self, record: ErasureRecord) -> Iterator[Recipient]:
        """Until such a backup is gone, who has it and an old copy of the database can read what was erased."""
        if not record.keys:
            return
        before = record.unreadable_since or record.started_at or record.requested_at
        for backup in self._database.vault.keys.backups():
            if backup.made_at < before and backup.expires_at > now_ns():
                note = "it holds the keys, and opens content in old copies of the database: delete it by then"
                yield Recipient("key backup", backup.path, backup.made_at, backup.expires_at, note)
