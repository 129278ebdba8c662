"""API keys as they are shown: `th_`, a public id, and a secret of 256 bits; kept only as a keyed hash."""

from __future__ import annotations

import hmac
import re
import secrets
import string
from dataclasses import dataclass, field
from typing import Final

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
ID_CHARS: Final = 12
SECRET_CHARS: Final = 43
"""62 ** 43 is more than 2 ** 256."""

_TOKEN: Final = re.compile(rf"th_([0-9A-Za-z]{{{ID_CHARS}}})_([0-9A-Za-z]{{{SECRET_CHARS}}})", re.ASCII)
SHOWN: Final = re.compile(r"th_[0-9A-Za-z]{12}_[0-9A-Za-z]{4,}", re.ASCII)
"""Anything that looks like a key in a text, whole or cut, for masking."""

_MAX_SHOWN_CHARS: Final = 256


@dataclass(frozen=True, slots=True)
class Token:
    """A key taken apart.

    Attributes:
        key_id: its public part, for lists and logs.
        secret: never logged, stored or shown again.
    """

    key_id: str
    secret: str = field(repr=False)

    def reveal(self) -> str:
        """Return the whole key, to be shown once."""
        return f"th_{self.key_id}_{self.secret}"


def new_token(key_id: str | None = None) -> Token:
    """Return a fresh key, or a fresh secret for the key `key_id`."""
    return Token(key_id or _random(ID_CHARS), _random(SECRET_CHARS))


def parse_token(text: str) -> Token | None:
    """Return the parts of a key, or `None` when `text` is none."""
    # Before the pattern looks at it: a header may be large.
    match = _TOKEN.fullmatch(text) if len(text) <= _MAX_SHOWN_CHARS else None
    return Token(match[1], match[2]) if match else None


def token_hash(server_secret: bytes, token: Token) -> bytes:
    """Return the 32 bytes that stand for a key in the store: HMAC-SHA-256 with a secret that lies beside it.

    A fast hash is enough: the secret of the key has 256 bits, so that nobody guesses it, with or without the store.
    """
    return hmac.digest(server_secret, f"tracehold-key\0{token.key_id}\0{token.secret}".encode(), "sha256")


def masked(text: str) -> str:
    """Return `text` with everything masked that looks like a key."""
    return SHOWN.sub("th_[REDACTED]", text)


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
