"""Keyed pseudonyms: a person or a conversation is recognised again, and never named (design: Data)."""

from __future__ import annotations

import hmac
from typing import Final

_REMEMBERED: Final = 4096


class Pseudonyms:
    """Turns identifiers into pseudonyms with HMAC-SHA256; without the key nobody can test a guess.

    The tenant is part of the message, so that one person at two tenants has two pseudonyms. Instances may be
    shared between threads: the memo below is only ever a cache of a pure function.

    Args:
        key: secret of this store, at least 16 bytes; the same key gives the same pseudonyms.
        tenant: whose identifiers these are.

    Raises:
        ValueError: the key is shorter than 16 bytes.
    """

    def __init__(self, key: bytes, tenant: str) -> None:
        if len(key) < 16:  # noqa: PLR2004
            raise ValueError(f"a pseudonym key needs at least 16 bytes; got {len(key)}")
        self._key = key
        self._tenant = tenant.encode("utf-8", "replace")
        self._seen: dict[tuple[bytes, str], str] = {}

    def of(self, tenant: str) -> Pseudonyms:
        """Return those of another tenant of the same store."""
        return Pseudonyms(self._key, tenant)

    def user(self, text: str) -> str:
        """Return `u_` and 16 hex digits for a person's identifier."""
        return "u_" + self._hex(b"user", text)

    def session(self, text: str) -> str:
        """Return `s_` and 16 hex digits for a conversation's or session's identifier."""
        return "s_" + self._hex(b"session", text)

    def sought(self, text: str) -> str:
        """Return `q_` and 16 hex digits for a text somebody looked for: the access log tells no words."""
        return "q_" + self._digest(b"sought", text.encode("utf-8", "replace"))[:8].hex()

    def run(self, text: str) -> bytes:
        """Return 16 bytes for a run: how one that was erased is remembered without its name."""
        return self._digest(b"run", text.encode("utf-8", "replace"))[:16]

    def run_name(self, text: str) -> str:
        """Return `r_` and 32 hex digits: what stands for the name of a run that was deleted."""
        return "r_" + self.run(text).hex()

    def event_id(self, content: bytes, position: int) -> bytes:
        """Return the 16-byte id of an event that has none of its own: a keyed digest of content and place.

        Keyed, because an id outlives an erasure and must not let anyone confirm a guess at what was erased.
        """
        return self._digest(b"event", position.to_bytes(8, "big") + content)[:16]

    def _hex(self, purpose: bytes, text: str) -> str:
        known = self._seen.get((purpose, text))
        if known is None:
            known = self._digest(purpose, text.encode("utf-8", "replace"))[:8].hex()
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[(purpose, text)] = known
        return known

    def _digest(self, purpose: bytes, message: bytes) -> bytes:
        # The tenant's length goes first: no tenant and text can be cut differently into the same message.
        prefix = purpose + b"\x00" + len(self._tenant).to_bytes(4, "big") + self._tenant
        return hmac.digest(self._key, prefix + message, "sha256")
