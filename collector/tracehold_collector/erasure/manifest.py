"""Freezes what an erasure is about, in one transaction between two commits: nothing slips in beside it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Final

from tracehold.core.clock import now_ns

from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.erasure.holds import load_holds
from tracehold_collector.erasure.record import ErasureRecord, Stayed
from tracehold_collector.erasure.request import scope_of
from tracehold_collector.erasure.selection import Chosen, Size, choose, forget_chosen
from tracehold_collector.erasure.steps import tell
from tracehold_collector.sealing.vault import Vault
from tracehold_collector.store.committer import Committer

_RUNS: Final = """
SELECT
    run_id,
    count(chosen.event_id),
    -- Acts of people here go on, whatever was emptied of those before.
    all_of_it AND count(chosen.event_id) = count(*) FILTER (source <> 'collector')
FROM events
JOIN chosen_runs USING (run_id)
LEFT JOIN chosen USING (event_id, run_id)
WHERE tenant = $tenant
GROUP BY run_id, all_of_it
HAVING count(chosen.event_id) > 0
"""

_KEEP_EVENTS: Final = """
INSERT INTO erased_events
SELECT $erasure, $tenant, event_id, leaf_index, received_at
FROM chosen
ORDER BY leaf_index, received_at
"""

_KEEP_RUNS: Final = """
INSERT INTO erased_runs
SELECT $erasure, $tenant, unnest($digests::BLOB[]), unnest($whole::BOOLEAN[]), unnest($events::BIGINT[])
"""

_KEEP_KEYS: Final = """
INSERT INTO erased_keys
SELECT DISTINCT $erasure, $tenant, key_id
FROM contents
WHERE tenant = $tenant
  AND chunk_id IN (SELECT content_chunk FROM chosen)
  AND key_id IS NOT NULL
"""


def freeze(committer: Committer, vault: Vault, record: ErasureRecord, size: Size, pseudonyms: Pseudonyms) -> Chosen:
    """Write the manifest, and have nothing more taken in that it is about. On the writer's thread.

    A request of which legal holds leave nothing is refused here.

    Args:
        committer: the writer's.
        vault: what comes of a run from now on must not be sealed with a key that is about to be destroyed.
        record: what was requested.
        size: how much content it is about, as measured a moment ago.
        pseudonyms: of the store.

    Raises:
        duckdb.Error: nothing was written.
    """
    given = {"erasure": record.id, "tenant": record.tenant}
    scope = scope_of(record)
    with committer.transaction() as connection:
        at_ns = now_ns()
        holds = load_holds(connection, (record.tenant,), active=True)
        chosen = choose(connection, record.tenant, scope, record.mode, holds, pseudonyms)
        runs: list[tuple[str, int, bool]] = connection.execute(_RUNS, {"tenant": record.tenant}).fetchall()
        digests = [committer.erased.run_digest(record.tenant, run_id) for run_id, _, _ in runs]
        if chosen.held and not chosen.events:
            tell(connection, record.id, record.tenant, "refused", at_ns, refused_why="hold", stayed=what_stays(chosen))
        else:
            connection.execute(_KEEP_EVENTS, given)
            columns = {"digests": digests, "whole": [whole for *_, whole in runs], "events": [run[1] for run in runs]}
            connection.execute(_KEEP_RUNS, given | columns)
            connection.execute(_KEEP_KEYS, given)
            (keys,) = connection.execute(
                "SELECT count(*) FROM erased_keys WHERE erasure_id = $erasure", {"erasure": record.id}
            ).fetchone() or (0,)
            tell(
                connection,
                record.id,
                record.tenant,
                "frozen",
                at_ns,
                runs=chosen.runs,
                whole_runs=sum(whole for *_, whole in runs),
                events=chosen.events,
                chunks=size.chunks,
                content_bytes=size.content_bytes,
                keys=keys,
                unsealed=size.unsealed,
                stayed=what_stays(chosen),
            )
        forget_chosen(connection)
    if digests:
        if record.mode == "delete":
            committer.erased.add_events(committer.connection, events_of(record.id))
        committer.erased.add_runs([digest for digest, (*_, whole) in zip(digests, runs, strict=True) if whole])
        vault.renew((record.tenant, run_id) for run_id, _, _ in runs)
    return chosen


def events_of(erasure_id: str) -> str:
    """Return a statement that selects the events of a manifest."""
    return f"SELECT event_id FROM erased_events WHERE erasure_id = '{uuid.UUID(erasure_id).hex}'"  # noqa: S608 - hex digits


def what_stays(chosen: Chosen) -> Sequence[Stayed]:
    """Return what a choice leaves, in words for the data subject."""
    stayed = [
        Stayed(_count(count, "run"), f"under legal hold {hold_id}; asked for again once it is released", count)
        for hold_id, count in chosen.held.items()
    ]
    if chosen.left_events:
        what = f"{_count(chosen.left_events, 'event')} of {_count(chosen.left_runs, 'run')} shared with others"
        stayed.append(Stayed(what, "they name somebody else, or nobody", chosen.left_events))
    return stayed


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
