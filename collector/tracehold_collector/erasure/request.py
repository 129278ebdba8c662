"""What somebody asks to have erased, read from what they wrote."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.times import iso_utc, parse_moment_ns
from tracehold_collector.erasure.record import ErasureRecord
from tracehold_collector.erasure.words import BASES, MODES, SCOPES, Basis, Mode, ScopeKind

MAX_EVENTS: Final = 1_000
"""Events of one request; whoever has more names their runs."""

MAX_NOTE_CHARS: Final = 10_000
_MAX_VALUE_CHARS: Final = 1_024
_KNOWN: Final = frozenset({"tenant", "scope", "value", "mode", "basis", "received_at", "note"})
_PSEUDONYM: Final = {"subject": re.compile("u_[0-9a-f]{16}"), "session": re.compile("s_[0-9a-f]{16}")}


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to be erased.

    Attributes:
        kind: what kind of thing.
        value: which one, as `ErasureRecord.scope_value` tells it.
        agent, not_agents, kinds: of an age, only runs of this agent, none of these agents, and only events of these
            kinds; retention policies have them.
    """

    kind: ScopeKind
    value: str | None = None
    agent: str | None = None
    not_agents: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def events(self) -> list[uuid.UUID]:
        """The events named one by one."""
        return [uuid.UUID(text) for text in (self.value or "").split(",")] if self.kind == "event" else []

    @property
    def before_ns(self) -> int | None:
        """Of an age, the moment: runs that ended before it are meant."""
        return parse_moment_ns(self.value or "") if self.kind == "age" else None


def scope_of(record: ErasureRecord) -> Scope:
    """Return what an erasure was asked for."""
    return Scope(record.scope, record.scope_value, record.agent, record.not_agents, record.kinds)


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked for.

    Attributes:
        tenant: whose data.
        scope: what.
        mode: `scrub` (what was said) or `delete` (that it was, too).
        basis: on what ground.
        received_at: when the person asked; UTC nanoseconds.
        note: free text, kept as what the erasure's first event says.
        policy: the retention policy that asks.
    """

    tenant: str
    scope: Scope
    mode: Mode
    basis: Basis
    received_at: int
    note: str = ""
    policy: str | None = None


def read_request(body: Mapping[str, Any], tenant: str, pseudonyms: Pseudonyms, now_ns: int) -> Request:
    """Return what a request's body asks for; a person's or session's own id becomes the tenant's pseudonym here.

    Args:
        body: `scope` and `value` ("subject" and an id), `mode`, `basis`, `received_at` (ISO 8601), `note`.
        tenant: whose data it is about.
        pseudonyms: of the store.
        now_ns: what time it is.

    Raises:
        BadBodyError: says what is wrong, and what would be right; never repeats an id of a person.
    """
    if unknown := body.keys() - _KNOWN:
        raise BadBodyError(f"a request has no {', '.join(sorted(map(repr, unknown)))[:200]}")
    mode = _one_of(body, "mode", MODES, "scrub")
    basis = _one_of(body, "basis", tuple(basis for basis in BASES if basis != "retention"), "operator")
    received_at = _moment(body, "received_at")
    if received_at is not None and received_at > now_ns:
        raise BadBodyError("'received_at' is when the person asked, and lies in the future")
    note = body.get("note") or ""
    if not isinstance(note, str) or len(note) > MAX_NOTE_CHARS:
        raise BadBodyError(f"'note' is text of at most {MAX_NOTE_CHARS} characters")
    scope = read_scope(body.get("scope"), body.get("value"), pseudonyms.of(tenant))
    return Request(tenant, scope, cast("Mode", mode), cast("Basis", basis), received_at or now_ns, note)


def read_scope(kind: object, value: object, pseudonyms: Pseudonyms) -> Scope:
    """Return a scope; `value` of a subject or session is its own id or its pseudonym.

    Raises:
        BadBodyError: as `read_request`.
    """
    if kind not in SCOPES:
        raise BadBodyError(f"'scope' is one of {', '.join(SCOPES)}")
    if kind == "tenant":
        if value is not None:
            raise BadBodyError("with scope 'tenant', 'tenant' names it; leave 'value' out")
        return Scope("tenant")
    if not isinstance(value, str) or not 0 < len(value) <= (_MAX_VALUE_CHARS if kind != "event" else 40 * MAX_EVENTS):
        raise BadBodyError(f"'value' says which {kind}: text of at most {_MAX_VALUE_CHARS} characters")
    if kind == "subject":
        return Scope("subject", value if _PSEUDONYM["subject"].fullmatch(value) else pseudonyms.user(value))
    if kind == "session":
        return Scope("session", value if _PSEUDONYM["session"].fullmatch(value) else pseudonyms.session(value))
    if kind == "event":
        return Scope("event", _event_ids(value))
    if kind == "age":
        moment = parse_moment_ns(value)
        if moment is None:
            raise BadBodyError("with scope 'age', 'value' is a time as 2026-11-29 or 2026-11-29T17:00:00, UTC")
        return Scope("age", iso_utc(moment))
    return Scope("run", value)


def _event_ids(text: str) -> str:
    try:
        ids = sorted({uuid.UUID(part.strip()) for part in text.split(",")})
    except ValueError:
        raise BadBodyError("with scope 'event', 'value' is the ids of events, with commas between") from None
    if len(ids) > MAX_EVENTS:
        raise BadBodyError(f"one request names at most {MAX_EVENTS} events; name their runs instead")
    return ",".join(map(str, ids))


def _one_of(body: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = body.get(name) or default
    if value not in allowed:
        raise BadBodyError(f"{name!r} is one of {', '.join(allowed)}")
    return str(value)


def _moment(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    moment = parse_moment_ns(value) if isinstance(value, str) else None
    if moment is None:
        raise BadBodyError(f"{name!r} is a time as 2026-11-29 or 2026-11-29T17:00:00, UTC")
    return moment
