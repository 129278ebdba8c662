"""Records that a policy is in force for an agent: one `policy_changed` event, under the login of whoever records it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import duckdb
from tracehold.core.clock import now_ns
from tracehold.core.errors import ConfigurationError
from tracehold.core.ids import new_event_id
from tracehold.governance import PolicyPermissions, canonical_json, parse_policy
from tracehold.observability.event_types import POLICY_CHANGED
from tracehold.privacy import Cleaner

from tracehold_collector.access.principal import Principal
from tracehold_collector.core.errors import BadBodyError, StoreError
from tracehold_collector.core.names import fit_name, is_id, stand_in_id, try_clean
from tracehold_collector.core.record import OWN_SOURCE, Record
from tracehold_collector.store.reader import Reader
from tracehold_collector.store.rows import encode
from tracehold_collector.store.writer import Writer

PREVIOUS: Final = "tracehold.policy.previous"
MAX_NOTE_CHARS: Final = 4_000

_MAX_NAME_CHARS: Final = 128
_COMMIT_S: Final = 60.0
_RECORDED: Final = """
SELECT attributes ->> 'policy_digest', source
FROM events
WHERE type = 'policy_changed'
  AND tenant = $tenant
  AND agent = $agent
  AND (attributes ->> 'policy_digest') IS NOT NULL
ORDER BY started_at DESC NULLS LAST, received_at DESC, event_id DESC
LIMIT $most
"""
_LOOKED_AT: Final = 100


@dataclass(frozen=True, slots=True)
class Registered:
    """What became of a policy that somebody recorded.

    Attributes:
        event_id: the event that says so; `None` when the policy was in force already, and nothing was added.
        digest: of the policy, "sha256:...".
        previous: of the one before; `None` for the agent's first.
    """

    event_id: uuid.UUID | None
    digest: str
    previous: str | None


class PolicyDesk:
    """Takes policies in. Safe to use from any thread; a call blocks until the event is committed.

    Args:
        reader: knows what was in force.
        writer: commits the event.
    """

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()
        self._cleaner = Cleaner(mask="[REDACTED]", mask_name=lambda name: f"[REDACTED:{name}]")

    def register(
        self, document: Mapping[str, Any], agent: str, tenant: str, who: Principal, note: str | None = None
    ) -> Registered:
        """Record that a policy is in force for `agent` from now on.

        The policy is stored as its canonical JSON (RFC 8785), unmasked: the digest is of those bytes, and anybody can
        check it. A policy is no place for secrets.

        Args:
            document: what a policy file holds, parsed.
            agent: its name, as its events name it.
            tenant: whose agent.
            who: records it.
            note: why, free text.

        Raises:
            BadBodyError: it is no policy, the agent's name is none, or the note cannot be masked.
            QueueFullError, StoreError: nothing was recorded; try again.
        """
        policy = _policy(document)
        name = fit_name(self._cleaner, agent, _MAX_NAME_CHARS)
        if name != agent:
            raise BadBodyError("'agent' is the agent's name as its events have it: up to 128 characters, few words")
        content = {"policy": canonical_json(policy.to_dict()).decode()} | self._noted(note)
        with self._lock:
            recorded = self._reader.run(lambda cursor: _recorded(cursor, tenant, agent))
            previous = next((digest for digest, _ in recorded if digest != policy.policy_digest), None)
            # What the agent's program claims is recorded again under a login: only that says who did it.
            if recorded[:1] == [(policy.policy_digest, OWN_SOURCE)]:
                return Registered(None, policy.policy_digest, previous)
            record = _record(policy.policy_digest, previous, agent, tenant, who, content)
            self._commit(record)
        return Registered(uuid.UUID(bytes=record.event_id), policy.policy_digest, previous)

    def _commit(self, record: Record) -> None:
        try:
            receipt = self._writer.submit(encode([record])).result(_COMMIT_S)
        except TimeoutError as error:
            raise StoreError(
                "the store is slow to take this in; record the policy again, which adds nothing twice"
            ) from error
        if not receipt.accepted:
            raise StoreError("the store could not take this policy in; nothing was recorded")

    def _noted(self, note: str | None) -> dict[str, str]:
        if note is None:
            return {}
        masked = try_clean(self._cleaner, note)
        if masked is None or not 0 < len(note) <= MAX_NOTE_CHARS:
            raise BadBodyError(f"'note' is a text of at most {MAX_NOTE_CHARS:,} characters; leave an empty one out")
        return {"note": masked}


def _policy(document: Mapping[str, Any]) -> PolicyPermissions:
    try:
        return parse_policy(document)
    except ConfigurationError as error:
        raise BadBodyError(f"this is no policy: {error}"[:2_000]) from None


def _recorded(cursor: duckdb.DuckDBPyConnection, tenant: str, agent: str) -> list[tuple[str, str]]:
    """Digest and source of the latest records, newest first."""
    asked = {"tenant": tenant, "agent": agent, "most": _LOOKED_AT}
    return cursor.execute(_RECORDED, asked).fetchall()


def _record(
    digest: str, previous: str | None, agent: str, tenant: str, who: Principal, content: dict[str, Any]
) -> Record:
    moment = now_ns()
    return Record(
        event_id=bytes.fromhex(new_event_id(moment)),
        tenant=tenant,
        run_id=f"policy:{agent if is_id(agent, _MAX_NAME_CHARS) else stand_in_id(agent)}",
        kind="other",
        type=POLICY_CHANGED,
        source=OWN_SOURCE,
        status="ok",
        started_at=moment,
        agent=agent,
        decided_by=who.name,
        attributes={"policy_digest": digest} | ({PREVIOUS: previous} if previous else {}),
        content=content,
    )
