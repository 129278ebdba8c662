"""The queue between callers and the worker: bounded in events and bytes, and without a lock.

A signal handler, a garbage-collected `__del__` or a fork can come at any bytecode of a caller, so nothing
here may hold a lock then. `SimpleQueue` is re-entrant by contract. The counters are plain integers: a caller
only adds to `_in`, the worker only to `_out`, and CPython switches threads at calls and jumps, never inside
`+=` on an attribute. Should an addition be lost all the same, the counters are set right whenever the inbox
runs empty.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from tracehold.observability.exporters.collector.ports import Ports

Request = TypeVar("Request")

NEVER = sys.maxsize


@dataclass(frozen=True, slots=True)
class Nap:
    """How long the worker sleeps.

    Attributes:
        timeout_s: seconds, `None` for no end, 0 to only look for a request.
        events: as many new events wake it earlier.
        size_bytes: so many new bytes wake it earlier.
    """

    timeout_s: float | None
    events: int = NEVER
    size_bytes: int = NEVER


class Inbox(Generic[Request]):
    """Events on their way to the worker, and the worker's bed.

    Attributes:
        taken: events the worker has seen, ever.
        settled: events that left memory, ever; they leave in the order they came.
    """

    def __init__(self, ports: Ports, *, max_events: int, max_bytes: int) -> None:
        """Start empty.

        Args:
            ports: how to wait.
            max_events: how many events may be in memory.
            max_bytes: how many bytes their encoded forms may take together.
        """
        self._ports = ports
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._queue: SimpleQueue[bytes] = SimpleQueue()
        self._bell: SimpleQueue[Request | None] = SimpleQueue()
        # The worker's. An event stays here until it is settled, so that a closing thread can still save it.
        self._pending: deque[bytes] = deque()
        self._in_events = self._in_bytes = self._out_events = self._out_bytes = 0
        self._taken_bytes = 0
        self._wake_events = self._wake_bytes = NEVER
        self.taken = self.settled = 0

    @property
    def events(self) -> int:
        """Events in memory."""
        return max(0, self._in_events - self._out_events)

    @property
    def size_bytes(self) -> int:
        """Bytes in memory."""
        return max(0, self._in_bytes - self._out_bytes)

    @property
    def pending(self) -> int:
        """Events the worker has seen and not settled."""
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Bytes the worker has seen and not settled."""
        return max(0, self._taken_bytes - self._out_bytes)

    def put(self, line: bytes) -> bool:
        """Take an event from a caller; `False` when it does not fit. Never waits."""
        size = len(line)
        if (
            self._in_events - self._out_events >= self._max_events
            or self._in_bytes - self._out_bytes + size > self._max_bytes
        ):
            return False
        self._in_events += 1
        self._in_bytes += size
        self._queue.put(line)
        # Only a sleeping worker is woken, and only when it asked for it: a wake-up per event would cost the
        # caller more than all the rest.
        if self._wake_events != NEVER and (
            self._queue.qsize() >= self._wake_events or self._in_bytes - self._taken_bytes >= self._wake_bytes
        ):
            self._wake_events = NEVER
            self._bell.put(None)
        return True

    def ask(self, request: Request) -> None:
        """Hand the worker a request and wake it."""
        self._bell.put(request)

    def sleep(self, nap: Nap) -> Request | None:
        """Sleep until a request, enough events, or the end of the nap; return the request."""
        if nap.timeout_s is None or nap.timeout_s > 0:
            # Set first, look second: an event put in between either sees the wish or is seen here.
            self._wake_bytes, self._wake_events = nap.size_bytes, nap.events
            if self._queue.qsize() >= nap.events or self._in_bytes - self._taken_bytes >= nap.size_bytes:
                nap = Nap(0)
        try:
            return self._ports.wait(self._bell, nap.timeout_s)
        except Empty:
            return None
        finally:
            self._wake_events = NEVER

    def requests(self) -> list[Request]:
        """Return all requests that wait, without waiting."""
        found = []
        with contextlib.suppress(Empty):
            while True:
                request = self._bell.get_nowait()
                if request is not None:
                    found.append(request)
        return found

    def take(self) -> None:
        """Move what callers have put to the worker's side."""
        queue, pending = self._queue, self._pending
        with contextlib.suppress(Empty):
            while True:
                line = queue.get_nowait()
                pending.append(line)
                self.taken += 1
                self._taken_bytes += len(line)
        if not pending and not queue.qsize():
            self._out_events, self._out_bytes = self._in_events, self._in_bytes
            self._taken_bytes = self._in_bytes

    def peek(self, max_events: int, max_bytes: int) -> list[bytes]:
        """Return the oldest pending events that make one batch: at least one, if there is any."""
        batch = list(islice(self._pending, max_events))
        total = 0
        for count, line in enumerate(batch):
            total += len(line) + 1
            if total > max_bytes and count:
                return batch[:count]
        return batch

    def settle(self, count: int) -> None:
        """Let go of the oldest `count` pending events: they are sent, safe on disk, or given up."""
        for _ in range(min(count, len(self._pending))):
            line = self._pending.popleft()
            self._out_events += 1
            self._out_bytes += len(line)
            self.settled += 1
