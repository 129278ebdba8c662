"""Some of what waits, ready to be sent: spans, and the place in the store after each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracehold_collector.core.record import Record
from tracehold_collector.forward.otlp import OutgoingSpan, is_forwarded, outgoing_span
from tracehold_collector.store.feed import Position


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a batch.

    Attributes:
        position: the place in the store after it.
        skipped: records before it that are never sent.
        unsayable: records before it that cannot be said in OTLP.
    """

    position: Position
    skipped: int
    unsayable: int


@dataclass(slots=True)
class Batch:
    """What goes out together.

    Attributes:
        spans: in the order of the store.
        marks: for each span, the mark after it.
        end: the mark after everything that was read; `None` when nothing was.
        size: bytes of the spans, about.
    """

    spans: list[OutgoingSpan] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    end: Mark | None = None
    size: int = 0


def make_batch(records: Iterable[tuple[Position, Record]], max_bytes: int) -> Batch:
    """Return a batch of the first records; the spans weigh at most `max_bytes`, one over it goes alone."""
    batch = Batch()
    skipped = unsayable = 0
    for position, record in records:
        outgoing: OutgoingSpan | None = None
        if not is_forwarded(record):
            skipped += 1
        elif (outgoing := _outgoing(record)) is None:
            unsayable += 1
        else:
            size = outgoing.span.ByteSize()
            if batch.spans and batch.size + size > max_bytes:
                break
            batch.size += size
        batch.end = Mark(position, skipped, unsayable)
        if outgoing is not None:
            batch.spans.append(outgoing)
            batch.marks.append(batch.end)
    return batch


def _outgoing(record: Record) -> OutgoingSpan | None:
    try:
        return outgoing_span(record)
    except Exception:  # noqa: BLE001 - a record nobody foresaw must not cost its neighbours, nor end forwarding
        return None
