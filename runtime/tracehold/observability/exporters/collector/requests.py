"""What a caller may ask of the worker besides taking an event.

Each request carries a reply queue of its own, so that asker and worker never share a lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from queue import SimpleQueue


@dataclass(eq=False, slots=True)
class Flush:
    """Somebody waits until all events up to `mark` and all spool files in `names` are with the collector.

    Attributes:
        deadline: monotonic seconds after which nobody waits any more.
        reply: gets whether they are.
        mark: set by the worker: how many events it had taken when it saw the request.
        names: set by the worker: the spool files that waited then, and those written from these events since.
    """

    deadline: float
    reply: SimpleQueue[bool] = field(default_factory=SimpleQueue)
    mark: int = 0
    names: set[str] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Close:
    """Somebody waits until all events are sent or safe on disk.

    Attributes:
        send_until: monotonic seconds after which no more is sent.
        reply: gets `True` at the end.
    """

    send_until: float
    reply: SimpleQueue[bool] = field(default_factory=SimpleQueue)
