"""How long to wait before the same request is sent again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

LONGEST_ASKED_S: Final = 24 * 3600.0
"""A receiver that asks for more is asked again after this: a wrong clock or digit there must not end forwarding."""


@dataclass(slots=True)
class Backoff:
    """Waits that double from one failure to the next, spread so that senders do not come back all at once.

    Attributes:
        first_s: after the first failure, at most.
        longest_s: after many, at most.
    """

    first_s: float = 0.5
    longest_s: float = 60.0
    _next_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the first wait."""
        self._next_s = self.first_s

    def reset(self) -> None:
        """Begin anew: the receiver answers."""
        self._next_s = self.first_s

    def wait_s(self, asked_s: float | None) -> float:
        """Return the seconds to wait now.

        Args:
            asked_s: what the receiver asked for (`Retry-After`), which is kept to (OTLP, "OTLP/HTTP Throttling").
        """
        own_s = self._next_s * random.uniform(0.5, 1.0)  # noqa: S311 - it spreads retries, it keeps no secret
        self._next_s = min(self._next_s * 2, self.longest_s)
        return own_s if asked_s is None else min(asked_s, LONGEST_ASKED_S)
