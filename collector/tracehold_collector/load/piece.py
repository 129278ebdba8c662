"""One request that a file becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tracehold_collector.core.record import Rejection

PIECE_BYTES: Final = 2 * 1024 * 1024
"""Lines are gathered into requests of about this size."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One request to send.

    Attributes:
        path: of the API: "/v1/events" or "/v1/traces".
        content_type: of `body`.
        body: bytes; empty when there is nothing to send.
        offset: where in the (uncompressed) file the next piece begins, in bytes.
        rejected: items of the file that could not be read, and are not in the body.
    """

    path: str
    content_type: str
    body: bytes
    offset: int
    rejected: tuple[Rejection, ...] = ()
