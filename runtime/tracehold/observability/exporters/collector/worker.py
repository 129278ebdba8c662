"""The background thread: takes events from the inbox, sends them, and keeps on disk what cannot be sent.

Rules, in the order they are applied on each round:

1. Memory more than half full, or the collector away for `SAFE_AFTER_S`: pending events go to the spool.
2. The spool goes first, oldest file first; it is what waited longest.
3. A batch leaves when it is full, when its oldest event has waited `schedule_delay_s`, or when somebody
flushes. 4. An event leaves memory only when it is taken, refused for good, or safe on disk. So a thread that closes the
   exporter can save all pending events while this one hangs in the network; the worst is a second sending.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from dataclasses import dataclass, field
from queue import SimpleQueue

from tracehold.observability.exporters.collector.counts import Counts
from tracehold.observability.exporters.collector.inbox import NEVER, Inbox, Nap
from tracehold.observability.exporters.collector.ports import Ports
from tracehold.observability.exporters.collector.sender import Sender
from tracehold.observability.exporters.collector.spool import Claim, Spool
from tracehold.observability.exporters.collector.transport import Transport

SAFE_AFTER_S = 5.0
"""While the collector is away, a killed process loses at most the events of this time. Shorter makes many files."""
RESCAN_S = 10.0
_SPOOL_FILE_EVENTS = 8192
_SPOOL_RETRY_S = 30.0
_FLUSH_POLL_S = 0.05
_PATIENCE = 3
"""After as many failures a spool file lets younger ones go first: it may be what makes the collector fail."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of memory and batches: events, bytes and seconds."""

    max_queue: int
    max_queue_bytes: int
    max_batch: int
    max_batch_bytes: int
    schedule_delay_s: float


@dataclass(eq=False, slots=True)
class Flush:
    """Somebody waits until all events up to `mark` and all spool files in `names` are with the collector."""

    deadline: float
    reply: SimpleQueue[bool] = field(default_factory=SimpleQueue)
    mark: int = 0
    names: set[str] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Close:
    """Somebody waits until all events are sent, or safe on disk; sending must end by `send_until`."""

    send_until: float
    reply: SimpleQueue[bool] = field(default_factory=SimpleQueue)


class Worker:
    """Owns memory, spool and connection of one exporter in one process.

    Attributes:
        inbox: where callers put events and requests.
        running: whether a thread is at work; it clears this when it ends, however it ends.
        finished: nothing is left to do, for good.
    """

    def __init__(
        self, limits: Limits, sender: Sender, spool: Spool, transport: Transport, counts: Counts, ports: Ports
    ) -> None:
        """Start nothing yet."""
        self.inbox: Inbox[Flush | Close] = Inbox(
            ports, max_events=limits.max_queue, max_bytes=limits.max_queue_bytes
        )
        self.running = False
        self.finished = False
        self._limits = limits
        self._sender = sender
        self._spool = spool
        self._transport = transport
        self._counts = counts
        self._ports = ports
        self._starting = threading.Lock()
        self._abandoned = False
        # From here on the worker thread's own.
        self._close: Close | None = None
        self._flushes: list[Flush] = []
        self._claim: Claim | None = None
        self._backlog: deque[str] = deque()
        self._failures: dict[str, int] = {}
        self._scanned_at = -math.inf
        self._due_at: float | None = None
        self._safe_at = ports.monotonic()
        self._spool_again_at = -math.inf

    # What callers use.

    def start(self) -> None:
        """Start the thread unless it runs. Never waits: who cannot get the lock knows that another is starting it."""
        if self.running or not self._starting.acquire(blocking=False):
            return
        try:
            if not self.running and not self.finished:
                self.running = True
                threading.Thread(target=self._run, name="tracehold-collector", daemon=True).start()
        except RuntimeError as error:
            # No more threads: a limit of the system, or the interpreter is ending. Events wait for `finish`.
            self.running = False
            self._counts.last_error = type(error).__name__
        finally:
            self._starting.release()

    def hurry(self) -> None:
        """Let a busy thread stop after the request it is in."""
        self._sender.hurry = True

    def abort(self) -> None:
        """Pull the thread out of the request it is in."""
        self._transport.abort()

    def rescue(self) -> None:
        """Save all events from another thread, because ours hangs; what it still does changes nothing."""
        self._abandoned = True
        self.inbox.take()
        self._save_all()
        self.finished = True

    def forget_in_child(self) -> None:
        """After a fork: close the copies of the parent's descriptors; its locks and connection stay its own."""
        if self._claim is not None:
            self._claim.forget()
        self._transport.forget()

    # The thread.

    def _run(self) -> None:
        try:
            while not self.finished and not self._abandoned:
                self._round()
        except BaseException as error:  # noqa: BLE001 - nothing may end this thread unseen; the next export
            starts another self._counts.restarts += 1
            self._counts.last_error = type(error).__name__
            self._counts.warn_once(
                "The thread that sends events ended by %s; no event is lost and the next one starts it again. "
                "Please report this.",
                type(error).__name__,
            )
        finally:
            if self._claim is not None:
                self._claim.release()
                self._claim = None
            if self._abandoned:
                self._transport.close()
            self.running = False

    def _round(self) -> None:
        request = self.inbox.sleep(self._nap())
        self.inbox.take()
        if isinstance(request, Flush):
            self._accept_flush(request)
        elif isinstance(request, Close):
            self._close = request
        if self._close is not None:
            self.finish(self._close.send_until)
            return
        self._note_time()
        self._protect()
        if self._may_send():
            self._send_once()
        self._answer_flushes()

    def _nap(self) -> Nap:
        """Decide how long to sleep and what ends it early."""
        limits, inbox = self._limits, self.inbox
        if not inbox.pending and not self._backlog and not self._flushes and self._scanned_at > -math.inf:
            return Nap(None, events=1, size_bytes=1)
        blocked_s = self._sender.blocked_s()
        if blocked_s > 0:
            room = limits.max_queue // 2 - inbox.pending
            room_bytes = limits.max_queue_bytes // 2 - inbox.pending_bytes
            if room <= 0 or room_bytes <= 0:  # the spool is full: more events are no reason to wake
                room = room_bytes = NEVER
            return Nap(min(blocked_s, SAFE_AFTER_S), events=room, size_bytes=room_bytes)
        if self._flushes and not inbox.pending and not self._backlog:
            return Nap(_FLUSH_POLL_S)  # another process is sending the file we wait for
        if self._may_send() or self._due_at is None:
            return Nap(0)
        return Nap(
            max(0.0, self._due_at - self._ports.monotonic()),
            events=max(1, limits.max_batch - inbox.pending),
            size_bytes=max(1, limits.max_batch_bytes - inbox.pending_bytes),
        )

    def _note_time(self) -> None:
        """Keep the two clocks that hang on memory: when its oldest event is due, and since when it is unsafe."""
        now = self._ports.monotonic()
        self._tell_overflow()
        if not self.inbox.pending:
            self._due_at = None
        elif self._due_at is None:
            self._due_at = now + self._limits.schedule_delay_s
        if not self.inbox.pending or not self._sender.failing:
            self._safe_at = now
        if now - self._scanned_at >= RESCAN_S:
            self._scan()

    def _may_send(self) -> bool:
        if self._sender.blocked_s() > 0:
            return False
        inbox, limits = self.inbox, self._limits
        if self._backlog:
            return True
        if not inbox.pending:
            return False
        return (
            bool(self._flushes)
            or inbox.pending >= limits.max_batch
            or inbox.pending_bytes >= limits.max_batch_bytes
            or (self._due_at is not None and self._ports.monotonic() >= self._due_at)
        )

    def _send_once(self) -> None:
        if self._backlog:
            self._send_from_spool()
            return
        batch = self.inbox.peek(self._limits.max_batch, self._limits.max_batch_bytes)
        settled = self._sender.deliver(batch)
        if not self._abandoned:
            self.inbox.settle(settled)
            self._due_at = None if settled else self._due_at

    def _send_from_spool(self) -> None:
        name = min(self._backlog, key=lambda each: (self._failures.get(each, 0) // _PATIENCE, each))
        self._claim = self._spool.claim(name)
        if self._claim is None:
            self._backlog.remove(name)
            return
        settled = self._sender.deliver(self._claim.lines)
        if settled == len(self._claim.lines):
            self._claim.ack()
            self._backlog.remove(name)
            self._failures.pop(name, None)
        else:
            self._claim.release()
            self._failures[name] = self._failures.get(name, 0) + 1
        self._claim = None

    # The spool.

    def _scan(self) -> None:
        """Look for files of earlier and other processes."""
        self._scanned_at = self._ports.monotonic()
        try:
            self._backlog = deque(self._spool.names())
            self._failures = {name: self._failures[name] for name in self._backlog if name in self._failures}
        except OSError as error:
            self._spool_failed(error)

    def _protect(self) -> None:
        """Move pending events to disk while memory is short, or when the collector has been away for a while."""
        now = self._ports.monotonic()
        overdue = now - self._safe_at >= SAFE_AFTER_S
        while self.inbox.pending and now >= self._spool_again_at and (overdue or self._is_short()):
            if not self._save_some(self._limits.max_batch):
                break
            self._safe_at = now

    def _is_short(self) -> bool:
        limits = self._limits
        return (
            self.inbox.events > limits.max_queue // 2 or self.inbox.size_bytes > limits.max_queue_bytes // 2
        )

    def _save_some(self, max_events: int) -> bool:
        """Write one spool file; say whether it is safe."""
        lines = self.inbox.peek(max_events, self._limits.max_batch_bytes)
        try:
            name = self._spool.write(lines)
        except OSError as error:
            self._spool_failed(error)
            return False
        for flush in self._flushes:
            if self.inbox.settled < flush.mark:
                flush.names.add(name)
        self._backlog.append(name)
        self._counts.spooled += len(lines)
        self.inbox.settle(len(lines))
        return True

    def _tell_overflow(self) -> None:
        """Log here what callers only count: a log handler may be slow, and may itself be traced."""
        if self._counts.overflowed:
            self._counts.warn_once(
                "More than %d events or %d bytes waited in memory; the newest are counted as dropped. "
                "Set max_queue or max_queue_bytes higher, or see why the spool %s takes none.",
                self._limits.max_queue,
                self._limits.max_queue_bytes,
                self._spool.path,
            )

    def _save_all(self) -> None:
        """Write all pending events, in few large files; what does not fit is given up, counted and said once."""
        self._tell_overflow()
        while self.inbox.pending and self._save_some(_SPOOL_FILE_EVENTS):
            pass
        lost = self.inbox.pending
        if lost:
            self._counts.unsaved += lost
            self._counts.warn_once(
                "%d events could be neither sent nor kept in %s; they are counted as dropped.",
                lost,
                self._spool.path,
            )
            self.inbox.settle(lost)

    def _spool_failed(self, error: OSError) -> None:
        self._spool_again_at = self._ports.monotonic() + _SPOOL_RETRY_S
        self._counts.last_error = type(error).__name__
        self._counts.warn_once(
            "The spool %s cannot take events (%s); they stay in memory as long as there is room. "
            "Free space, or set spool_dir or spool_max_bytes.",
            self._spool.path,
            type(error).__name__,
        )

    # Flush and close.

    def _accept_flush(self, flush: Flush) -> None:
        self._scan()
        flush.mark = self.inbox.taken
        flush.names = set(self._backlog)
        self._flushes.append(flush)
        self._sender.retry_now()

    def _answer_flushes(self) -> None:
        """Answer those that are done, and those for whom the next attempt comes too late (FR-05)."""
        if not self._flushes:
            return
        next_at = self._ports.monotonic() + self._sender.blocked_s()
        for flush in tuple(self._flushes):
            flush.names = {name for name in flush.names if self._spool.exists(name)}
            self._backlog.extend(flush.names.difference(self._backlog))
            done = self.inbox.settled >= flush.mark and not flush.names
            if done or next_at >= flush.deadline:
                self._flushes.remove(flush)
                flush.reply.put(done)

    def finish(self, send_until: float) -> None:
        """Send what is pending until `send_until`, keep the rest on disk, and end for good.

        A pause the collector asked for is kept to: its events go to the spool at once (FR-05). Runs on the
        worker thread, or on the closing one when no worker can be started any more.
        """
        self._sender.hurry = False
        self.inbox.take()
        if self._sender.asked_until <= self._ports.monotonic():
            while self.inbox.pending and not self._abandoned:
                batch = self.inbox.peek(self._limits.max_batch, self._limits.max_batch_bytes)
                settled = self._sender.deliver(batch, deadline=send_until)
                if self._abandoned:
                    return
                self.inbox.settle(settled)
                if settled < len(batch):
                    break
        self._save_all()
        self._transport.close()
        self.finished = True
        self._answer_all()

    def _answer_all(self) -> None:
        """Let go whoever still waits; a request that comes later sees `finished`."""
        for flush in self._flushes:
            flush.reply.put(
                self.inbox.settled >= flush.mark and not any(map(self._spool.exists, flush.names))
            )
        if self._close is not None:
            self._close.reply.put(True)
        for request in self.inbox.requests():
            request.reply.put(isinstance(request, Close))
