"""What an erasure reaches beyond the database, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.erasure.places import Places
from tracehold_collector.erasure.places_file import Place
from tracehold_collector.erasure.recipients import Recipients
from tracehold_collector.erasure.record import ErasureRecord, PlaceCount, Recipient, Stayed
from tracehold_collector.store.database import Database

_OLD_COPIES: Final = Stayed(
    "backups of the database that were made before",
    "their content cannot be read without its keys, which are destroyed; ids, times and other open fields stay in them "
    "until they are deleted",
)
_UNSEALED: Final = Stayed(
    "backups of the database from before content was sealed",
    "they can be read as they are, until they are deleted",
)
_LOOKED_AT: Final = Stayed(
    "lines of the access log about who looked at it",
    "who asked for what has to be told; the ids that were asked for stand in them until the log is trimmed "
    "(access_log_days)",
)


class BeyondDatabase:
    """The registered places, and the recipients.

    Args:
        database: the open store.
        folder: its data folder.
        pseudonyms: of the store.
        places: as they were written down.
    """

    def __init__(self, database: Database, folder: Path, pseudonyms: Pseudonyms, places: Sequence[Place]) -> None:
        self._places = Places(database, pseudonyms, places)
        self._recipients = Recipients(database, folder)

    def erase(self, record: ErasureRecord) -> tuple[Sequence[PlaceCount], Sequence[Stayed]]:
        """Erase it in the registered places of its tenant.

        Raises:
            duckdb.Error: the manifest cannot be read.
        """
        counts, stayed = self._places.erase(record)
        if record.events:
            stayed = [*stayed, _OLD_COPIES]
            if record.mode == "delete":
                stayed.append(_LOOKED_AT)
            if record.unreadable_since is None:
                stayed.append(_UNSEALED)
        return counts, stayed

    def recipients(self, record: ErasureRecord) -> Sequence[Recipient]:
        """Return who may have a copy.

        Raises:
            StoreError, duckdb.Error: what tells of them cannot be read.
        """
        return self._recipients.of(record)
