"""The gate: looks at the key that is shown and says who it is. One rule for HTTP and gRPC."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tracehold.core.clock import now_ns

from tracehold_collector.access.book import KeyBook
from tracehold_collector.access.keys import Key
from tracehold_collector.access.limits import Meters
from tracehold_collector.access.principal import Principal, owner
from tracehold_collector.access.tokens import Token, parse_token, token_hash

NO_KEY: Final = "this collector needs an API key"
HOW_TO_SHOW: Final = (
    "send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'; clients of ours read it from TRACEHOLD_API_KEY"
)
_NEW_ONE: Final = "ask who runs the collector for a new one (tracehold keys create, tracehold keys rotate)"

_NOBODY: Final = bytes(32)
"""What a key that does not exist is compared with, so that the time taken tells nothing."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nobody was let in.

    Attributes:
        error, hint: for whoever asked; never a secret.
        key_id, name: the key's, when its secret was right.
    """

    error: str
    hint: str
    key_id: str | None = None
    name: str | None = None


class Gate:
    """Says who is asking.

    Args:
        book: the keys made with `tracehold keys`.
        api_key: the one key of the settings, or `None`.
        tenant: whose data this collector takes in by default, and shows to its one user.
    """

    def __init__(self, book: KeyBook, *, api_key: str | None, tenant: str) -> None:
        self._book = book
        # In one environment with a client, the variable may hold a key of the book: that one means what the book says.
        made = api_key is not None and parse_token(api_key) is not None
        self._own = None if api_key is None or made else api_key.encode()
        self._asks = api_key is not None
        self._tenant = tenant
        self._nobody = owner("anyone on this machine", tenant)
        self._owner = owner("the key of the settings", tenant)

    @property
    def keyless(self) -> bool:
        """Whether no key is asked for: there is none. Over with the first key that is made."""
        return not self._asks and not self._book.asks

    @property
    def shut(self) -> bool:
        """Whether a key is asked for that nobody can have: one that was made, and not for this collector."""
        return self._asks and self._own is None and not self._book.asks

    @property
    def meters(self) -> Meters:
        """What each key has used up."""
        return self._book.meters

    def admit(self, authorization: str, x_api_key: str) -> Principal | Refusal:
        """Return who shows these headers.

        Args:
            authorization: the `authorization` header or metadata, empty when absent.
            x_api_key: the same for `x-api-key`.
        """
        if self.keyless:
            return self._nobody
        refusal = Refusal(NO_KEY, HOW_TO_SHOW)
        for shown in _shown(authorization, x_api_key):
            if self._is_own(shown):
                return self._owner
            token = parse_token(shown)
            if token is None:
                continue
            found = self._look_up(token)
            if isinstance(found, Principal):
                return found
            refusal = found or refusal
        return refusal

    def _is_own(self, shown: str) -> bool:
        return self._own is not None and hmac.compare_digest(shown.encode("utf-8", "replace"), self._own)

    def _look_up(self, token: Token) -> Principal | Refusal | None:
        """The key's owner; a refusal with its reason when the secret is right all the same; `None` for anyone else."""
        key = self._book.keys.get(token.key_id)
        hashed = token_hash(self._book.secret, token)
        now = now_ns()
        right = hmac.compare_digest(hashed, key.hash if key else _NOBODY)
        before = hmac.compare_digest(hashed, (key.previous_hash if key else None) or _NOBODY)
        if key is None or not (right or before):
            return None
        if not right and now >= (key.previous_until or 0):
            return _refusal(key, "was replaced, and its time of grace is over")
        state = key.state(now)
        if state != "active":
            return _refusal(key, "was revoked" if state == "revoked" else "has expired")
        self._book.used(key.id, now)
        return self._book.principal(key, self._tenant)


def _refusal(key: Key, what: str) -> Refusal:
    return Refusal(f"this API key {what}", _NEW_ONE, key.id, key.name)


def _shown(authorization: str, x_api_key: str) -> Iterable[str]:
    if x_api_key:
        yield x_api_key.strip()
    # RFC 9110 section 11.1: the scheme's case does not matter.
    scheme, _, shown = authorization.partition(" ")
    if shown and scheme.lower() == "bearer":
        yield shown.strip()
