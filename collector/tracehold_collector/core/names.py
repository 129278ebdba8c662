"""What may stand in the open envelope as a name: nothing that could be somebody's words (design: Data)."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Any, Final, Protocol


class Cleaner(Protocol):
    """What masks secrets and personal data; `tracehold.privacy.Cleaner` is the real one."""

    def __hash__(self) -> int: ...

    def clean(self, value: Any, *, max_len: int | None = None) -> Any:
        """Return a masked deep copy of `value`; texts beyond `max_len` characters are cut after masking."""
        ...


_ADDRESS: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,63}")
_NAME: Final = re.compile(r"[\w{(<\[/@#$*+.\-][\w .,:/@#&+\-=*~!'(){}\[\]<>$%^]*")
_ID: Final = re.compile(r"\w[\w.:/@+=~\-]*")
_MAX_WORDS: Final = 8
"""Names people give to code have fewer; a longer one is more likely a sentence, and a sentence is content."""


@lru_cache(maxsize=8192)
def fit_name(cleaner: Cleaner, text: str, max_chars: int) -> str | None:
    """Return `text` as the envelope may hold it: masked, or `None` when it does not look like a name.

    Names repeat from span to span, so results are remembered.

    Args:
        cleaner: masks what a name should not contain (FR-35).
        text: a name as the source wrote it.
        max_chars: `Limits.max_name_chars`.
    """
    if not _looks_like_name(text, max_chars):
        return None
    masked = try_clean(cleaner, text)
    return masked if masked is not None and (masked == text or _looks_like_name(masked, max_chars)) else None


def fit_principal(cleaner: Cleaner, text: str, max_chars: int) -> str | None:
    """Return who decided, as the envelope may hold it: an account's address stays, since it answers for the decision.

    Args:
        cleaner: masks what a name should not contain.
        text: the principal's id, or the gate's name.
        max_chars: `Limits.max_name_chars`.
    """
    if len(text) <= max_chars and _ADDRESS.fullmatch(text):
        return text
    return fit_name(cleaner, text, max_chars)


def _looks_like_name(text: str, max_chars: int) -> bool:
    return len(text) <= max_chars and _NAME.fullmatch(text) is not None and text.count(" ") < _MAX_WORDS


def try_clean(cleaner: Cleaner, text: str) -> str | None:
    """Return `text` masked, or `None` when the cleaner fails on it: then nothing of it may pass (DEC-19)."""
    try:
        masked = cleaner.clean(text)
    except Exception:  # noqa: BLE001 - whatever a cleaner raises
        return None
    return masked if isinstance(masked, str) else None


def is_id(text: str, max_chars: int) -> bool:
    """Whether `text` may stand in the envelope as an identifier: never masked (DEC-10), so of strict form."""
    return len(text) <= max_chars and _ID.fullmatch(text) is not None


def stand_in_id(text: str) -> str:
    """Return an identifier for a run whose own id is not fit for the envelope: same text, same identifier."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16, person=b"tracehold-run")
    return "x-" + digest.hexdigest()
