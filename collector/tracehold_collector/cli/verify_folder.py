"""A data folder whose collector does not run, for `tracehold verify --data-dir`."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tracehold.core.clock import now_ns

from tracehold_collector.audit.signing import SIGNING_FILE, Signer
from tracehold_collector.core.errors import StoreError
from tracehold_collector.heads.copies import read_copies
from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.log import log_sizes
from tracehold_collector.store.log_rows import Contents
from tracehold_collector.verify.stored import StoredLog
from tracehold_collector.verify.window import LogSource


def open_folder(stack: ExitStack, folder: Path, contents: Contents) -> tuple[LogSource, list[dict[str, Any]], Any]:
    """Return the logs of a folder: how to read them, which there are, and a way to an event's leaf.

    Args:
        stack: closes the store.
        folder: the data folder.
        contents: what to do about contents.

    Raises:
        StoreError: there is no store in it, or a collector runs on it.
    """
    if not (folder / FILE_NAME).exists() or not (folder / SIGNING_FILE).exists():
        raise StoreError(
            f"there is no store with an audit log in {folder}; name the folder the collector was started with"
        )
    database = stack.enter_context(
        closing(
            Database(
                folder / FILE_NAME,
                keys=lambda may_create: SqliteKeyStore.open_in(folder, may_create=may_create),
            )
        )
    )
    signer = Signer(folder, now_ns())
    logs = [
        {
            "tenant": tenant,
            "size": size,
            "origin": signer.origin(tenant),
            "keys": [str(key) for key in signer.verifier_keys(tenant)],
        }
        for tenant, size in sorted(log_sizes(database).items())
    ]

    def place(event_id: str) -> tuple[str, int]:
        with database.cursor() as cursor:
            row = cursor.execute("SELECT tenant, leaf_index FROM events WHERE event_id = ?", [event_id]).fetchone()
        if row is None or row[1] is None:
            raise StoreError(f"event {event_id[:64]} has no leaf in this store's logs")
        return row[0], row[1]

    return StoredLog(database, read_copies(folder), contents=contents), logs, place
