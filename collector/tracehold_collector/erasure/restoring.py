"""A database that was restored from before an erasure does not know of it; the key store does, and has it applied.

The other way round, too: a key store that was restored from before an erasure has the keys again, and the database
knows which ones. When both are restored from before it, nobody here knows: then it has to be asked for again, by the
register that was kept elsewhere.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any, Final

import orjson
import structlog
from tracehold.core.clock import now_ns

from tracehold_collector.erasure.engine import ErasureEngine, last_step
from tracehold_collector.erasure.manifest import events_of
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.steps import tell
from tracehold_collector.sealing.keystore import ListedErasure
from tracehold_collector.store.committer import Committer
from tracehold_collector.store.database import Database
from tracehold_collector.store.writer import Writer

_log = structlog.get_logger(__name__)

_WAIT_S: Final = 3600.0

_KEEP_EVENTS: Final = """
INSERT INTO erased_events
SELECT $erasure, $tenant, event_id, leaf_index, received_at
FROM events
WHERE tenant = $tenant
  AND (
      event_id IN (SELECT unnest($events::UUID[]))
      OR run_id IN (SELECT unnest($runs::VARCHAR[])) AND source <> 'collector'
  )
"""

_KEEP_KEYS: Final = """
INSERT INTO erased_keys
SELECT DISTINCT $erasure, $tenant, key_id
FROM contents
WHERE tenant = $tenant
  AND key_id IS NOT NULL
  AND chunk_id IN (
      SELECT content_chunk
      FROM events
      WHERE tenant = $tenant
        AND event_id IN (SELECT event_id FROM erased_events WHERE erasure_id = $erasure)
  )
"""

_UNSEALED: Final = """
SELECT count(*)
FROM contents
WHERE tenant = $tenant
  AND key_id IS NULL
  AND body IS NOT NULL
  AND chunk_id IN (
      SELECT content_chunk
      FROM events
      WHERE tenant = $tenant
        AND event_id IN (SELECT event_id FROM erased_events WHERE erasure_id = $erasure)
  )
"""


def apply_list(database: Database, writer: Writer, engine: ErasureEngine) -> int:
    """Apply every erasure that one of the two stores knows of and the other does not; return how many.

    Raises:
        CollectorError, duckdb.Error, TimeoutError: nothing may be served before it has been done.
    """
    with database.cursor() as cursor:
        rows = cursor.execute("SELECT DISTINCT erasure_id FROM erasures WHERE step = 'frozen'").fetchall()
    known = {row[0] for row in rows}
    keys = database.vault.keys
    unknown = keys.listed_erasures(known)
    for erasure in unknown:
        writer.run(partial(_freeze_again, erasure=erasure)).result(_WAIT_S)
        _finish_tables(engine, erasure.erasure_id)
        _log.info("erasure_applied_after_restore", erasure=erasure.erasure_id)
    listed = {erasure.erasure_id for erasure in keys.listed_erasures()} if known else set()
    forgotten = [record for record in map(engine.record, sorted(known - listed)) if last_step(record) != "frozen"]
    for record in forgotten:
        engine.destroy_again(record)
        _log.info("keys_destroyed_after_restore", erasure=record.id)
    for record in engine.unfinished():
        if last_step(record) == "frozen":  # a crash came between: nobody reads what its manifest names
            engine.advance(record)
    return len(unknown) + len(forgotten)


def _finish_tables(engine: ErasureEngine, erasure_id: str) -> ErasureRecord:
    """Take it as far as no question can show any of it; the file is written anew beside the traffic."""
    record = engine.record(erasure_id)
    while record.completed_at is None and engine.advance(record):
        record = engine.record(erasure_id)
    return record


def _freeze_again(committer: Committer, erasure: ListedErasure) -> None:
    """Write the manifest anew, from what the key store remembers."""
    connection = committer.connection
    tenant = erasure.tenant
    wanted = set(erasure.runs)
    stored = connection.execute("SELECT DISTINCT run_id FROM events WHERE tenant = ?", [tenant]).fetchall()
    digests = {run_id: committer.erased.run_digest(tenant, run_id) for (run_id,) in stored} if wanted else {}
    runs = [run_id for run_id, digest in digests.items() if digest in wanted]
    given: dict[str, Any] = {"erasure": erasure.erasure_id, "tenant": tenant}
    events = [uuid.UUID(bytes=event_id) for event_id in erasure.events]
    with committer.transaction():
        connection.execute(_KEEP_EVENTS, given | {"events": events, "runs": runs})
        connection.execute(_KEEP_KEYS, given)
        connection.execute(
            "INSERT INTO erased_runs SELECT $erasure, $tenant, unnest($digests::BLOB[]), true, 0",
            given | {"digests": list(wanted)},
        )
        ((found,),) = connection.execute(
            "SELECT count(*) FROM erased_events WHERE erasure_id = ?", [erasure.erasure_id]
        ).fetchall()
        ((unsealed,),) = connection.execute(_UNSEALED, given).fetchall()
        _tell_again(committer, erasure, events=found, runs=len(runs), unsealed=unsealed)
    if erasure.mode == "delete":
        committer.erased.add_events(connection, events_of(erasure.erasure_id))
    committer.erased.add_runs(list(wanted))


def _tell_again(committer: Committer, erasure: ListedErasure, **found: int) -> None:
    connection = committer.connection
    rows = connection.execute("SELECT 1 FROM erasures WHERE erasure_id = ? LIMIT 1", [erasure.erasure_id]).fetchall()
    request = orjson.loads(erasure.request)
    if not rows:
        tell(connection, erasure.erasure_id, erasure.tenant, "requested", erasure.at_ns, **request)
    if request.get("strict"):  # approved of before the backup or after it: else it would not be on the list
        tell(connection, erasure.erasure_id, erasure.tenant, "approved", erasure.at_ns)
    tell(connection, erasure.erasure_id, erasure.tenant, "frozen", now_ns(), **found)
