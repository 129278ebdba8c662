"""What an operator hears of forwarding: each kind of thing once, never what was sent."""

from __future__ import annotations

import threading

import structlog

_log = structlog.get_logger(__name__)


class Notes:
    """Logs trouble when it begins and ends, and each reason for a refusal once. Safe to use from any thread.

    Attributes:
        trouble: why nothing is sent just now; `None` when all is well.

    Args:
        endpoint: the receiver's address, as it may be shown.
    """

    def __init__(self, endpoint: str) -> None:
        self.trouble: str | None = None
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._reasons: set[str] = set()

    def in_trouble(self, reason: str) -> None:
        """Note that nothing can be sent just now."""
        with self._lock:
            began, self.trouble = self.trouble is None, reason
        if began:
            _log.warning("forward.waiting", endpoint=self._endpoint, reason=reason)

    def well(self) -> None:
        """Note that something came to an end."""
        with self._lock:
            recovered, self.trouble = self.trouble is not None, None
        if recovered:
            _log.info("forward.recovered", endpoint=self._endpoint)

    def refused(self, reason: str, events: int) -> None:
        """Note that the receiver will never have some events."""
        with self._lock:
            known = reason in self._reasons
            self._reasons.add(reason)
        if not known:
            _log.warning("forward.refused", endpoint=self._endpoint, reason=reason, events=events)
