"""Makes, lists, changes and revokes keys in the access file, each together with its line in the access log."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tracehold.core.clock import now_ns

from tracehold_collector.access.file import changing, open_file, server_secret
from tracehold_collector.access.journal import Entry, write_entries
from tracehold_collector.access.limits import NO_LIMIT, Limit
from tracehold_collector.access.roles import ROLES, Role, effective
from tracehold_collector.access.tokens import Token, masked, new_token, token_hash
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.core.tenants import Tenants, is_tenant

_NAME: Final = re.compile(r"\w[\w .:@/+\-]{0,63}")
_COLUMNS: Final = (
    "id, name, hash, previous_hash, previous_until, roles, tenants, created_at, expires_at, revoked_at, rotated_at, "
    "requests_per_s, events_per_day"
)


class KeyFileError(CollectorError):
    """A key cannot be made or changed as asked; the text says why."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is kept. Times are UTC nanoseconds since the epoch.

    Attributes:
        id: its public part.
        name: what people call it.
        roles: as given.
        tenants: whose data it may write and see; `None` is everybody's.
        created_at, expires_at, revoked_at, rotated_at: `None` when that never was, or never will be.
        last_used_at: to about a minute.
        limit: what it may use up.
        hash: of id and secret.
        previous_hash, previous_until: of the secret before the last rotation, and until when that is still taken.
    """

    id: str
    name: str
    roles: tuple[Role, ...]
    tenants: Tenants
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    rotated_at: int | None
    last_used_at: int | None
    limit: Limit
    hash: bytes = field(repr=False)
    previous_hash: bytes | None = field(repr=False)
    previous_until: int | None

    def state(self, now: int) -> str:
        """Return `active`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "active"


@dataclass(frozen=True, slots=True)
class NewKey:
    """What a key is to be.

    Attributes:
        name: 1 to 64 letters, digits, spaces and `.:@/+-_`; no two keys that are not revoked share one.
        roles: at least one; `content` only with `read`.
        tenants: whose data; `None` is everybody's. The first is that of items which claim none.
        expires_at: UTC nanoseconds, in the future; `None` is never.
        limit: what it may use up.
    """

    name: str
    roles: Sequence[Role]
    tenants: Tenants
    expires_at: int | None = None
    limit: Limit = NO_LIMIT


class KeyFile:
    """The keys of one data folder. Works whether or not a collector runs, which sees a change within a second.

    Args:
        folder: the data folder; made when missing.
        actor: who makes the changes, for the access log.

    Raises:
        StoreError: the file cannot be opened.
    """

    def __init__(self, folder: Path, actor: str) -> None:
        self._folder = folder
        self._actor = actor
        self._connection = open_file(folder)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def listed(self) -> list[Key]:
        """Return every key, the oldest first."""
        return read_keys(self._connection)

    def create(self, wanted: NewKey) -> tuple[Key, Token]:
        """Make a key; its secret is in what is returned, and nowhere else.

        Raises:
            KeyFileError: it cannot be as asked.
            StoreError: it could not be stored.
        """
        _check(wanted)
        token = new_token()
        with self._change("keys create", {"name": wanted.name, "id": token.key_id, **_said(wanted)}, wanted.tenants):
            before = self.listed()
            if any(key.name == wanted.name and key.revoked_at is None for key in before):
                raise KeyFileError(
                    f"there is a key named {wanted.name!r}; choose another name, or rotate or revoke that one"
                )
            secret = server_secret(self._folder, may_create=not before)
            tenants = None if wanted.tenants is None else json.dumps(wanted.tenants)
            row = (token.key_id, wanted.name, token_hash(secret, token), json.dumps(list(wanted.roles)), tenants)
            limit = wanted.limit
            self._connection.execute(
                "INSERT INTO keys (id, name, hash, roles, tenants, created_at, expires_at, requests_per_s, "
                "events_per_day) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, now_ns(), wanted.expires_at, limit.requests_per_s, limit.events_per_day),
            )
        return self.find(token.key_id), token

    def revoke(self, which: str) -> Key:
        """End a key for good. Revoking it again changes nothing.

        Raises:
            KeyFileError: there is none of that id or name.
            StoreError: it could not be stored.
        """
        key = self.find(which)
        with self._change("keys revoke", {"name": key.name, "id": key.id}, key.tenants):
            self._set(key.id, "revoked_at = coalesce(revoked_at, ?)", now_ns())
        return self.find(key.id)

    def rotate(self, which: str, grace_ns: int) -> tuple[Key, Token]:
        """Give a key a new secret; the old one is taken for `grace_ns` more nanoseconds.

        Raises:
            KeyFileError: there is none of that id or name, or it is revoked or expired.
            StoreError: it could not be stored.
        """
        key = self.find(which)
        now = now_ns()
        state = key.state(now)
        if state != "active":
            raise KeyFileError(f"the key {key.id} ({key.name}) is {state}; make a new one with 'tracehold keys create'")
        token = new_token(key.id)
        with self._change("keys rotate", {"name": key.name, "id": key.id, "grace_s": grace_ns // 10**9}, key.tenants):
            hashed = token_hash(server_secret(self._folder, may_create=False), token)
            self._set(
                key.id,
                "previous_hash = hash, previous_until = ?, hash = ?, rotated_at = ?",
                now + grace_ns,
                hashed,
                now,
            )
        return self.find(key.id), token

    def limit(self, which: str, limit: Limit) -> Key:
        """Set what a key may use up.

        Raises:
            KeyFileError: there is none of that id or name, or the limit is none.
            StoreError: it could not be stored.
        """
        key = self.find(which)
        _check_limit(limit)
        said = {"name": key.name, "id": key.id, **_limits(limit)}
        with self._change("keys limit", said, key.tenants):
            self._set(key.id, "requests_per_s = ?, events_per_day = ?", limit.requests_per_s, limit.events_per_day)
        return self.find(key.id)

    def find(self, which: str) -> Key:
        """Return the key of this id, or of this name when only one that is not revoked has it.

        Raises:
            KeyFileError: there is none.
        """
        keys = self.listed()
        named = [key for key in keys if key.name == which and key.revoked_at is None]
        found = [key for key in keys if key.id == which] or named
        if len(found) != 1:
            raise KeyFileError(
                f"there is no key {masked(which)[:80]!r}; 'tracehold keys list' shows the ids and names there are"
            )
        return found[0]

    def _set(self, key_id: str, assignments: str, *values: Any) -> None:
        self._connection.execute(f"UPDATE keys SET {assignments} WHERE id = ?", (*values, key_id))  # noqa: S608 - ours

    @contextmanager
    def _change(self, what: str, said: dict[str, Any], tenants: Tenants) -> Iterator[None]:
        """A change and its line in the access log: both are there or neither is."""
        with changing(self._connection):
            yield
            self._connection.execute("UPDATE key_changes SET number = number + 1")
            write_entries(self._connection, [Entry("admin", what, None, self._actor, said, tenants)])


def read_keys(connection: sqlite3.Connection) -> list[Key]:
    """Return every key in the access file, the oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS}, last_used_at FROM keys LEFT JOIN key_use USING (id) ORDER BY created_at, id"  # noqa: S608 - ours
    ).fetchall()
    return [_key(row) for row in rows]


def _key(row: Sequence[Any]) -> Key:
    key_id, name, hashed, previous, until, roles, tenants, created, expires, revoked, rotated, rate, events, used = row
    return Key(
        id=key_id,
        name=name,
        roles=tuple(role for role in json.loads(roles) if role in ROLES),
        tenants=None if tenants is None else tuple(json.loads(tenants)),
        created_at=created,
        expires_at=expires,
        revoked_at=revoked,
        rotated_at=rotated,
        last_used_at=used,
        limit=Limit(rate, events),
        hash=hashed,
        previous_hash=previous,
        previous_until=until,
    )


def _check(wanted: NewKey) -> None:
    if not _NAME.fullmatch(wanted.name):
        raise KeyFileError(
            "a key's name has 1 to 64 letters, digits, spaces and .:@/+-_ and begins with a letter or digit"
        )
    if not wanted.roles or (unknown := [role for role in wanted.roles if role not in ROLES]):
        said = f"; there is no role {unknown[0]!r}" if wanted.roles else ""
        raise KeyFileError(f"a key has one role or more of {', '.join(ROLES)}{said}")
    if "content" in wanted.roles and "read" not in effective(wanted.roles):
        raise KeyFileError("the role content opens what was said to a key that may read: give it the role read as well")
    if wanted.tenants is not None:
        if not wanted.tenants or not all(is_tenant(tenant) for tenant in wanted.tenants):
            raise KeyFileError(
                "a key names one tenant or more, each an identifier of at most 128 letters, digits and _.:/@+-"
            )
        if len(set(wanted.tenants)) != len(wanted.tenants):
            raise KeyFileError("a tenant is named twice")
    if wanted.expires_at is not None and wanted.expires_at <= now_ns():
        raise KeyFileError("the time at which the key expires is in the past")
    _check_limit(wanted.limit)


def _check_limit(limit: Limit) -> None:
    if limit.requests_per_s is not None and not 0 < limit.requests_per_s <= 1e6:  # noqa: PLR2004
        raise KeyFileError("a limit of requests is more than 0 and at most 1,000,000 a second; leave it out for none")
    if limit.events_per_day is not None and not 0 < limit.events_per_day <= 10**15:
        raise KeyFileError("a limit of events is 1 a day or more; leave it out for none")


def _said(wanted: NewKey) -> dict[str, Any]:
    tenants = "all" if wanted.tenants is None else list(wanted.tenants)
    said: dict[str, Any] = {"roles": list(wanted.roles), "tenants": tenants, **_limits(wanted.limit)}
    if wanted.expires_at is not None:
        said["expires_at"] = wanted.expires_at
    return said


def _limits(limit: Limit) -> dict[str, Any]:
    return {"requests_per_s": limit.requests_per_s, "events_per_day": limit.events_per_day}
