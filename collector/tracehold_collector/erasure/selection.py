"""Which events an erasure is about: the one place that says so, for the preview and for the manifest.

A run in which several people (or sessions) are named is not one person's: of it only the events that name this person
go. Events that name nobody stay then, and the report says how many.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb

from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.erasure.holds import Hold
from tracehold_collector.erasure.request import Scope
from tracehold_collector.erasure.words import Mode

_NOT_OURS: Final = "source <> 'collector'"
"""What the collector tells of itself stays: who erased what is what it has to answer for."""

_RUN_NAME: Final = re.compile("r_[0-9a-f]{32}")
_THESE_EVENTS: Final = "event_id IN (SELECT unnest($events::UUID[]))"


def _naming(column: str) -> str:
    """The runs in which somebody is named, and whether nobody else is."""
    return f"""
        SELECT run_id, count(*) FILTER ({column} <> $value) = 0 AS all_of_it
        FROM events
        WHERE tenant = $tenant
          AND run_id IN (SELECT run_id FROM events WHERE tenant = $tenant AND {column} = $value)
        GROUP BY run_id
    """  # noqa: S608 - column names of our own


_CHOSEN: Final = {
    "run": "SELECT $value::VARCHAR AS run_id, true AS all_of_it",
    "tenant": f"SELECT DISTINCT run_id, true AS all_of_it FROM events WHERE tenant = $tenant AND {_NOT_OURS}",  # noqa: S608
    "subject": _naming("user_ref"),
    "session": _naming("session_id"),
    # Whole runs only (FR-49). A session that is still used keeps all its runs, and so does an approval that is awaited.
    # Both the sender's clock and ours have to say that it is old: nobody gets rid of a record by dating it back.
    "age": f"""
        WITH of_runs AS (
            SELECT
                run_id,
                max(greatest(coalesce(started_at + coalesce(duration_ns, 0), 0), received_at)) AS last_ns,
                any_value(session_id) AS session_id,
                min_by(agent, coalesce(started_at, 0)) FILTER (agent IS NOT NULL) AS first_agent,
                count(*) FILTER (kind = 'approval' AND status = 'suspended')
                    > count(*) FILTER (kind = 'approval' AND status NOT IN ('suspended', 'started')) AS awaited
            FROM events
            WHERE tenant = $tenant AND {_NOT_OURS}
            GROUP BY run_id
        ),
        of_sessions AS (
            SELECT session_id, max(last_ns) AS last_ns
            FROM of_runs
            WHERE session_id IS NOT NULL
            GROUP BY session_id
        )
        SELECT of_runs.run_id, len($kinds::VARCHAR[]) = 0 AS all_of_it
        FROM of_runs
        LEFT JOIN of_sessions USING (session_id)
        WHERE greatest(of_runs.last_ns, coalesce(of_sessions.last_ns, 0)) < $before
          AND NOT awaited
          AND ($agent::VARCHAR IS NULL OR first_agent = $agent)
          AND (first_agent IS NULL OR NOT list_contains($not_agents::VARCHAR[], first_agent))
    """,  # noqa: S608 - as above
    "event": f"""
        SELECT DISTINCT run_id, false AS all_of_it FROM events WHERE tenant = $tenant AND {_THESE_EVENTS}
    """,  # noqa: S608 - as above
}
"""The runs a scope touches, and whether all of each is meant; by kind."""

_OF_KINDS: Final = "list_contains($kinds::VARCHAR[], kind)"
_PART: Final = {
    "subject": "user_ref = $value",
    "session": "session_id = $value",
    "event": _THESE_EVENTS,
    "age": _OF_KINDS,
}
"""Which events of a run are meant that is not meant whole."""

_HELD: Final = {
    "tenant": "SELECT run_id FROM chosen_runs",
    "run": "SELECT $value::VARCHAR",
    "subject": "SELECT run_id FROM events WHERE tenant = $tenant AND user_ref = $value",
    "session": "SELECT run_id FROM events WHERE tenant = $tenant AND session_id = $value",
}

_COUNTS: Final = """
SELECT
    count(DISTINCT run_id),
    count(*),
    (
        SELECT count(*) FILTER (of_run.chosen = of_run.stored AND all_of_it)
        FROM chosen_runs
        JOIN (
            SELECT run_id, count(*) AS stored, count(chosen.event_id) AS chosen
            FROM events
            LEFT JOIN chosen USING (event_id, run_id)
            WHERE tenant = $tenant AND run_id IN (SELECT run_id FROM chosen_runs)
            GROUP BY run_id
        ) AS of_run USING (run_id)
    )
FROM chosen
"""

_CHUNKS: Final = """
SELECT count(*), coalesce(sum(octet_length(body)), 0)::BIGINT, count(DISTINCT key_id), count(*) FILTER (key_id IS NULL)
FROM contents
WHERE tenant = $tenant
  AND chunk_id IN (SELECT content_chunk FROM chosen)
  AND received_at BETWEEN (SELECT min(received_at) FROM chosen) AND (SELECT max(received_at) FROM chosen)
  AND body IS NOT NULL
"""

_LEFT: Final = """
SELECT count(*), count(DISTINCT run_id)
FROM events
WHERE tenant = $tenant
  AND run_id IN (SELECT run_id FROM chosen_runs WHERE NOT all_of_it)
  AND event_id NOT IN (SELECT event_id FROM chosen)
"""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a scope comes to, holds taken into account.

    Attributes:
        runs, events: how many are touched.
        whole_runs: of these runs, how many go whole.
        held: runs that stay since they are under a legal hold, by its id.
        left_runs, left_events: runs that are shared with others, and their events that stay.
    """

    runs: int
    events: int
    whole_runs: int
    held: dict[str, int] = field(default_factory=dict)
    left_runs: int = 0
    left_events: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """How much content that is.

    Attributes:
        chunks: rows of `contents` that hold some of it.
        content_bytes: how large they are, compressed and sealed.
        keys: keys they are sealed with.
        unsealed: chunks from before there were keys.
    """

    chunks: int
    content_bytes: int
    keys: int
    unsealed: int


def choose(
    connection: duckdb.DuckDBPyConnection,
    tenant: str,
    scope: Scope,
    mode: Mode,
    holds: Sequence[Hold],
    pseudonyms: Pseudonyms,
) -> Chosen:
    """Put what is meant into the temporary tables `chosen_runs` and `chosen` of this connection; return how much it is.

    Args:
        connection: the writer's for a manifest, any for a preview.
        tenant: whose data.
        scope: what is meant.
        mode: what is to become of it.
        holds: the active legal holds of this tenant: they beat everything.
        pseudonyms: of the store, for a run that is named by what stands for it.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    value = scope.value
    if scope.kind == "run" and value is not None and _RUN_NAME.fullmatch(value):
        value = _named(connection, tenant, value, pseudonyms.of(tenant))
    given: dict[str, Any] = {"tenant": tenant, "value": value, "events": scope.events, "before": scope.before_ns}
    given |= {"agent": scope.agent, "not_agents": list(scope.not_agents), "kinds": list(scope.kinds)}
    _run(connection, f"CREATE OR REPLACE TEMP TABLE chosen_runs AS {_CHOSEN[scope.kind]}", given)
    held = {hold.id: count for hold in holds if (count := _spare(connection, tenant, hold))}
    part = _PART.get(scope.kind, "true")
    ours = "true" if mode == "scrub" and scope.kind in {"run", "event"} else _NOT_OURS
    new = "true"
    if scope.kind == "age" and mode == "scrub":  # what a pass before this one has scrubbed is not told again
        new = "event_id NOT IN (SELECT event_id FROM erased_events WHERE tenant = $tenant)"
    _run(
        connection,
        f"""
        CREATE OR REPLACE TEMP TABLE chosen AS
        SELECT event_id, run_id, leaf_index, received_at, content_chunk
        FROM events
        JOIN chosen_runs USING (run_id)
        WHERE tenant = $tenant AND (all_of_it OR ({part})) AND {ours} AND {new}
        """,  # noqa: S608 - conditions of our own
        given,
    )
    runs, events, whole = _row(connection, _COUNTS, given)
    left_events, left_runs = _row(connection, _LEFT, given) if scope.kind in {"subject", "session"} else (0, 0)
    return Chosen(runs, events, whole or 0, held, left_runs, left_events)


def size_of_chosen(connection: duckdb.DuckDBPyConnection, tenant: str) -> Size:
    """Return how much content `choose` has found; reads the length of every chunk, so not on the writer's thread."""
    return Size(*_row(connection, _CHUNKS, {"tenant": tenant}))


def forget_chosen(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop what `choose` made."""
    connection.execute("DROP TABLE IF EXISTS chosen; DROP TABLE IF EXISTS chosen_runs")


def _named(connection: duckdb.DuckDBPyConnection, tenant: str, name: str, pseudonyms: Pseudonyms) -> str:
    """Return the run that `name` stands for, or itself when there is none: a sender may call a run like that."""
    runs = connection.execute("SELECT DISTINCT run_id FROM events WHERE tenant = ?", [tenant]).fetchall()
    return next((run_id for (run_id,) in runs if pseudonyms.run_name(run_id) == name), name)


def _spare(connection: duckdb.DuckDBPyConnection, tenant: str, hold: Hold) -> int:
    """Take the runs of a hold out of the chosen ones, and return how many they are."""
    condition = f"run_id IN ({_HELD[hold.scope.kind]})"
    given = {"tenant": tenant, "value": hold.scope.value}
    (count,) = _row(connection, f"SELECT count(*) FROM chosen_runs WHERE {condition}", given)  # noqa: S608 - ours
    if count:
        _run(connection, f"DELETE FROM chosen_runs WHERE {condition}", given)  # noqa: S608 - ours
    return int(count)


def _row(connection: duckdb.DuckDBPyConnection, sql: str, given: dict[str, Any]) -> tuple[Any, ...]:
    (row,) = _run(connection, sql, given).fetchall()
    return tuple(row)


def _run(connection: duckdb.DuckDBPyConnection, sql: str, given: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """DuckDB refuses a value that no place-holder names."""
    return connection.execute(sql, {name: value for name, value in given.items() if re.search(rf"\${name}\b", sql)})
