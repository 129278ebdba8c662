r"""What is known about an erasure, from its first step to its last: what the register and the report are made of.

The table `erasures` has one row a step, and none is changed. An erasure is at the step that came last:

    requested -> approved -> frozen -> unreadable -> emptied -> completed -> bytes_gone -> scanned
             \-> refused   (by the second person, by a legal hold that was placed meanwhile, or withdrawn)

`approved` is there in strict mode only. Sealing again and emptying tell of each `lot`. A step that failed is tried
again, and tells of it in a row `failed`.
"""

from __future__ import annotations

import calendar
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import duckdb
import orjson

from tracehold_collector.core.tenants import Tenants
from tracehold_collector.erasure.words import Basis, Mode, ScopeKind, Status, Step


@dataclass(frozen=True, slots=True)
class PlaceCount:
    """What was found and done in one place; zero is told too (FR-47).

    Attributes:
        place: `events`, `contents`, `run_deltas`, `costs`, `usage_shares`, `keys`, or the name of a registered place.
        found: rows, chunks, keys, lines or files that belonged to it.
        removed: taken away.
        emptied: kept without what was said.
        resealed: sealed again under a new key, since they hold what stays, too.
        error: why the place could not be reached; it stands in the list of what stayed as well.
    """

    place: str
    found: int
    removed: int = 0
    emptied: int = 0
    resealed: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Stayed:
    """Something that was not erased, and why; written for the data subject to read.

    Attributes:
        what: "4 events of 2 runs that several people share".
        why: one sentence.
        count: how many; `None` when nobody can know.
        until: when it goes by itself, UTC nanoseconds.
    """

    what: str
    why: str
    count: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody who may have a copy and is to be told (GDPR Art. 19), or a copy that this collector cannot reach.

    Attributes:
        kind: what it is.
        name: a host, a key's name, a path.
        since, until: when it was handed over first, and when it is gone or was handed over last; UTC nanoseconds.
        note: what to do.
    """

    kind: Literal["forward", "download", "key backup", "database backup", "place"]
    name: str
    since: int | None = None
    until: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Canaries:
    """Pieces of what was erased, looked for byte by byte afterwards.

    Attributes:
        sealed: how many pieces of sealed content.
        plain: how many pieces of what was said, as it was said; they are kept in memory only, and are none after a
            restart.
        found: by the name of the file, how many of them were found there; empty when it is clean.
        files: how many files were read.
        bytes_read: how large they were together.
    """

    sealed: int
    plain: int
    found: dict[str, int]
    files: int
    bytes_read: int


@dataclass(frozen=True, slots=True)
class ErasureRecord:
    """One erasure. Times are UTC nanoseconds; `None` for what has not happened.

    Attributes:
        id: 32 hex digits; its events are those of the run `erasure:<id>`.
        tenant: whose data.
        scope: what kind of thing was to be erased.
        scope_value: which one: a pseudonym for a subject or a session, the id of a run (of one to be deleted, what
            stands for it), the ids of events with commas between, a time for an age; `None` for a tenant.
        policy, agent, not_agents, kinds: of a retention policy, its name and what it is limited to.
        mode: `scrub` (what was said) or `delete` (that it was, too).
        basis: on what ground.
        requester: the name of the key that asked for it, or of the policy.
        requester_key: the public part of that key; `None` without keys, and of a policy.
        approver: the second person's; in strict mode only.
        strict: whether a second person was needed.
        received_at: when the person asked, as stated; else when it was requested here.
        due_at: one month after that (GDPR Art. 12(3)).
        requested_at, approved_at, refused_at, started_at: what the names say; started is when the manifest was frozen.
        refused_why: `hold`, `rejected` or `withdrawn`.
        unreadable_since: from then on the content could be read nowhere but in what `recipients` lists.
        completed_at: the rows were emptied or gone, in every place that was reached.
        bytes_gone_since: the file was written anew without them.
        runs, whole_runs, events, chunks, content_bytes, keys: what the manifest holds; `content_bytes` as stored.
        unsealed: of these chunks, those from before there were keys: they could be read until `bytes_gone_since`.
        places: what was done where.
        stayed: what was not erased, and why.
        recipients: who may have a copy.
        canaries: what the search for remains found.
        leaves: how many leaves of the log its events have.
        root: RFC 6962 root over the leaf hashes of these, in the order of their index; `None` without a log.
        failures: how often a step had to be tried again.
        last_error: the kind of the last of these errors.
    """

    id: str
    tenant: str
    scope: ScopeKind
    scope_value: str | None
    mode: Mode
    basis: Basis
    requester: str
    received_at: int
    due_at: int
    requested_at: int
    requester_key: str | None = None
    policy: str | None = None
    agent: str | None = None
    not_agents: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    strict: bool = False
    approver: str | None = None
    approved_at: int | None = None
    refused_at: int | None = None
    refused_why: str | None = None
    started_at: int | None = None
    unreadable_since: int | None = None
    completed_at: int | None = None
    bytes_gone_since: int | None = None
    runs: int = 0
    whole_runs: int = 0
    events: int = 0
    chunks: int = 0
    content_bytes: int = 0
    keys: int = 0
    unsealed: int = 0
    places: tuple[PlaceCount, ...] = ()
    stayed: tuple[Stayed, ...] = ()
    recipients: tuple[Recipient, ...] = ()
    canaries: Canaries | None = None
    leaves: int = 0
    root: bytes | None = None
    failures: int = 0
    last_error: str | None = None
    steps: tuple[tuple[Step, int], ...] = field(default=(), repr=False)

    @property
    def run_id(self) -> str:
        """The run that its own events make."""
        return f"erasure:{self.id}"

    @property
    def status(self) -> Status:
        """Where it stands."""
        if self.refused_at is not None:
            return "refused"
        if self.bytes_gone_since is not None:
            return "bytes gone"
        if self.completed_at is not None:
            return "completed"
        if self.unreadable_since is not None:
            return "unreadable"
        return "waiting for approval" if self.strict and self.approved_at is None else "running"

    def overdue(self, now_ns: int) -> bool:
        """Whether it should have been done by now, and was neither completed nor refused."""
        return self.completed_at is None and self.refused_at is None and now_ns > self.due_at


def due_one_month_after(ns: int) -> int:
    """Return the moment one month later: the same day and time of the next month, or its last day.

    GDPR Art. 12(3), counted as Regulation (EEC, Euratom) 1182/71, Art. 3(2)(c) says.
    """
    moment = datetime.fromtimestamp(ns // 1_000_000_000, UTC)
    year, month = moment.year + moment.month // 12, moment.month % 12 + 1
    day = min(moment.day, calendar.monthrange(year, month)[1])
    later: timedelta = moment.replace(year=year, month=month, day=day) - moment
    return ns + int(later.total_seconds()) * 1_000_000_000


def load_erasures(
    cursor: duckdb.DuckDBPyConnection, tenants: Tenants, *, ids: Sequence[str] | None = None
) -> list[ErasureRecord]:
    """Return the erasures of these tenants, the latest request first.

    Args:
        cursor: on the open store.
        tenants: whose; `None` is everybody's.
        ids: only these.

    Raises:
        duckdb.Error: the store cannot be read.
    """
    rows = cursor.execute(
        """
        SELECT erasure_id, step, happened_at, tenant, details::VARCHAR
        FROM erasures
        WHERE ($tenants::VARCHAR[] IS NULL OR list_contains($tenants::VARCHAR[], tenant))
          AND ($ids::VARCHAR[] IS NULL OR list_contains($ids::VARCHAR[], erasure_id))
        ORDER BY happened_at, rowid
        """,
        {"tenants": None if tenants is None else list(tenants), "ids": None if ids is None else list(ids)},
    ).fetchall()
    steps: dict[str, list[tuple[Step, int, str, dict[str, Any]]]] = defaultdict(list)
    for erasure_id, step, at, tenant, details in rows:
        steps[erasure_id].append((step, at, tenant, orjson.loads(details)))
    found = [_record(erasure_id, told) for erasure_id, told in steps.items()]
    return sorted(found, key=lambda record: record.requested_at, reverse=True)


def _record(erasure_id: str, told: Sequence[tuple[Step, int, str, dict[str, Any]]]) -> ErasureRecord:
    values: dict[str, Any] = {"id": erasure_id, "tenant": told[0][2], "scope_value": None}
    for step, at, _, details in told:
        values |= _READ[step](at, details)
    if values.get("unsealed"):  # that could be read until the file was written anew
        values["unreadable_since"] = values.get("bytes_gone_since")
    failed = [details for step, _, _, details in told if step == "failed"]
    values["failures"] = len(failed)
    values["last_error"] = failed[-1].get("error") if failed else None
    values["steps"] = tuple((step, at) for step, at, _, _ in told)
    for name in ("not_agents", "kinds"):
        values[name] = tuple(values.get(name, ()))
    values["places"] = tuple(PlaceCount(**place) for place in values.get("places", ()))
    values["stayed"] = tuple(Stayed(**stayed) for stayed in values.get("stayed", ()))
    values["recipients"] = tuple(Recipient(**recipient) for recipient in values.get("recipients", ()))
    return ErasureRecord(**values)


def _completed(at: int, details: dict[str, Any]) -> dict[str, Any]:
    root = details.pop("root", None)
    return {"completed_at": at, "root": None if root is None else bytes.fromhex(root), **details}


_READ: Final[dict[Step, Callable[[int, dict[str, Any]], dict[str, Any]]]] = {
    "requested": lambda at, details: {"requested_at": at, **details},
    "approved": lambda at, details: {"approved_at": at, **details},
    "refused": lambda at, details: {"refused_at": at, **details},
    "frozen": lambda at, details: {"started_at": at, **details},
    "unreadable": lambda at, _: {"unreadable_since": at},
    "lot": lambda _, __: {},
    "emptied": lambda _, __: {},
    "completed": _completed,
    "bytes_gone": lambda at, _: {"bytes_gone_since": at},
    "scanned": lambda _, details: {"canaries": Canaries(**details)},
    "failed": lambda _, __: {},
}
"""What each step adds."""
