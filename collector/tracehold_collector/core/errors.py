"""Every error the collector raises on purpose.

CollectorError (TraceholdError)
├── BadBodyError            a request body or file is not what it claims to be     -> 400, exit 2
├── UnsupportedCodingError  a content type or content coding nobody here reads     -> 415
├── TooLargeError           a body over a limit, compressed or not                 -> 413
├── QueueFullError          the writer has too much waiting; try again later       -> 429
├── ThrottledError          a key has used up what it may; try again later         -> 429
├── StoreError              the store cannot be opened, read or written            -> 503, exit 3
│   ├── StoreLockedError    another process has the store open
│   └── StoreTooNewError    the store was written by a newer Tracehold
├── AuditError              the evidence of the audit log is malformed, or does not hold
│   ├── ProofError          a Merkle proof was asked for what the tree lacks, or does not lead to the root
│   ├── NoteError           a signed note, tree head or verifier key is malformed, or nobody known signed it
│   └── TileError           a tile, entry bundle or its path is malformed, or missing
├── NotFoundError           what is acted on is not there, or not the asker's to see -> 404
├── NotAllowedError         the asker may not do this one thing                    -> 403
├── ConflictError           somebody else acted meanwhile, or the step is none     -> 409
└── QueryError              a named query is unknown or was given a bad parameter  -> 400
"""

from __future__ import annotations

from typing import Any

from tracehold.core.errors import TraceholdError


class CollectorError(TraceholdError):
    """Root of the collector's errors. The text says what happened, to what, and what to do next; never content."""


class BadBodyError(CollectorError):
    """A body is not what it claims to be.

    Attributes:
        where: the place it broke, for people: "line 3, column 17", "byte 120", "resourceSpans[0].scopeSpans[1]".
    """

    def __init__(self, message: str, *, where: str = "") -> None:
        """Build the text from `message` and, when known, the place."""
        super().__init__(f"{message} (at {where})" if where else message)
        self.message = message
        self.where = where

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross from a decoder process with both parts."""
        return _bad_body, (self.message, self.where)


def _bad_body(message: str, where: str) -> BadBodyError:
    return BadBodyError(message, where=where)


class UnsupportedCodingError(CollectorError):
    """A content type or content coding that is not read here; the text names those that are."""


class TooLargeError(CollectorError):
    """A body over a limit; the text names the limit and its setting."""


class QueueFullError(CollectorError):
    """Too much is waiting to be written.

    Attributes:
        retry_after_s: whole seconds after which to try again.
    """

    def __init__(self, retry_after_s: int) -> None:
        """Say when to come back."""
        super().__init__(
            f"the write queue is full; nothing was taken in. Send the same request again in {retry_after_s} s"
        )
        self.retry_after_s = retry_after_s


class ThrottledError(CollectorError):
    """A key has used up what it may.

    Attributes:
        retry_after_s: whole seconds after which to try again.
    """

    def __init__(self, what: str, retry_after_s: int) -> None:
        """Say what is used up, and when to come back."""
        super().__init__(f"{what}; nothing was taken in. Send the same request again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class StalledError(CollectorError):
    """A sender whose request did not arrive in time. The same request is fine when its bytes come."""


class StoreError(CollectorError):
    """The store cannot be opened, read or written; the text names the file."""


class StoreLockedError(StoreError):
    """Another process has the store open; DuckDB lets one process have a file."""


class StoreTooNewError(StoreError):
    """The store was written by a newer Tracehold and is left untouched."""


class AuditError(CollectorError):
    """The evidence of the audit log is malformed, or does not hold; nothing else leaves its parsers."""


class ProofError(AuditError):
    """A Merkle proof was asked for what the tree lacks, or does not lead to the root."""


class NoteError(AuditError):
    """A signed note, tree head or verifier key is malformed, or no known key signed it."""


class TileError(AuditError):
    """A tile, an entry bundle or its path is malformed, or is not there."""


class QueryError(CollectorError):
    """A named query is unknown or was given a parameter it cannot use; the text lists what exists."""


class NotFoundError(CollectorError):
    """What somebody wants to act on is not there, or is not theirs to see: both read the same."""


class NotAllowedError(CollectorError):
    """A step that this login may not take, though its role opens the address; the text says who may."""


class ConflictError(CollectorError):
    """Somebody else acted since the asker looked, or the step is none from here; nothing was changed."""
