"""Whose data a request may bring: a key decides, and a claim in the data only selects within what the key names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tracehold_collector.core.names import is_id

MAX_TENANT_CHARS: Final = 128

Tenants = tuple[str, ...] | None
"""The tenants somebody is let near; `None` is every tenant."""


@dataclass(frozen=True, slots=True)
class Writes:
    """What one request may write.

    Attributes:
        first: the tenant of an item that claims none.
        allowed: the tenants that may be written. With exactly one, no claim is ever looked at.
        claim: what the request claims for all its items, in its header; an item's own claim comes first.
    """

    first: str
    allowed: Tenants
    claim: str | None = None

    @property
    def chooses(self) -> bool:
        """Whether claims are looked at."""
        return self.allowed is None or len(self.allowed) > 1

    def tenant_of(self, claim: object) -> str | None:
        """Return whose an item is that claims `claim` (`None` or empty: nothing); `None` when it may not be written."""
        if not self.chooses:
            return self.first
        said = self.claim if claim in (None, "") else claim
        if said in (None, ""):
            return self.first
        if not isinstance(said, str):
            return None
        if self.allowed is not None:
            return said if said in self.allowed else None
        return said if is_tenant(said) or said == self.first else None


def is_tenant(text: str) -> bool:
    """Whether `text` can name a tenant: an identifier of at most 128 characters, since it stands in the envelope."""
    return is_id(text, MAX_TENANT_CHARS)
