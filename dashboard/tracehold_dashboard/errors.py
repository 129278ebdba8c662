"""Every error the dashboard raises on purpose: something a page can say in one sentence.

DashboardError (RuntimeError)
├── UnreachableError     nothing answers at the collector's address
├── NotAllowedError      the collector wants another key, or any
├── NotFoundError        the collector holds no such thing
└── RefusedError         the collector could not answer, and said why
"""

from __future__ import annotations


class DashboardError(RuntimeError):
    """Root of the dashboard's errors.

    Attributes:
        hint: what to do next; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep the message for `str()` and the hint beside it."""
        super().__init__(message)
        self.hint = hint


class UnreachableError(DashboardError):
    """Nothing answers at the collector's address, or not in time."""


class NotAllowedError(DashboardError):
    """The collector wants a key it was not given, or the key may not read this."""


class NotFoundError(DashboardError):
    """The collector holds nothing under that id or name."""


class RefusedError(DashboardError):
    """The collector could not answer; the message is its own."""
