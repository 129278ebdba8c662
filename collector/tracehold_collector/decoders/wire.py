"""What a decoder process sends back, as bytes."""

from __future__ import annotations

import pickle
from typing import Final

from tracehold_collector.core.errors import CollectorError
from tracehold_collector.decoders.decoder import Decoded
from tracehold_collector.store.rows import Rows

READY: Final = b"ready"
"""The first thing a process sends."""


def write_answer(answer: Decoded | CollectorError) -> bytes:
    """Return what a decoder process sends back: what it decoded, or the error that says why not."""
    if isinstance(answer, CollectorError):
        return pickle.dumps(answer)
    return pickle.dumps((answer.rows.pack(), answer.rejected, answer.points))


def read_answer(raw: bytes) -> Decoded:
    """Return what a decoder process decoded.

    Raises:
        CollectorError: the process sent it as its answer.
    """
    answer = pickle.loads(raw)  # noqa: S301 - from a process of our own, over a socket only the two have
    if isinstance(answer, BaseException):
        raise answer
    packed, rejected, points = answer
    return Decoded(Rows.unpack(packed), rejected, points)
