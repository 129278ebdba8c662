"""The background thread: takes events from the inbox, sends them, and keeps on disk what cannot be sent.

Rules, in the order they are applied on each round:

1. Memory more than half full, or the collector away for `SAFE_AFTER_S`: pending events go to the spool.
2. The spool goes first, oldest file first; it is what waited longest.
3. A batch leaves when it is full, when its oldest event has waited `schedule_delay_s`, or on a flush.
4. An event leaves memory only when it is taken, refused for good, or safe on disk. So a thread that closes
   the exporter can save all pending events while this one hangs in the network; the worst is a second sending.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tracehold.observability.exporters.collector.counts import Counts
from tracehold.observability.exporters.collector.inbox import NEVER, Inbox, Nap
from tracehold.observability.exporters.collector.ports import Ports
from tracehold.observability.exporters.collector.requests import Close, Flush
from tracehold.observability.exporters.collector.sender import Sender
from tracehold.observability.exporters.collector.spooler import Spooler
from tracehold.observability.exporters.collector.transport import Transport

SAFE_AFTER_S = 5.0
"""While the collector is away, a killed process loses the events of this time. Shorter makes many files."""
_SPOOL_FILE_EVENTS = 8192
_FLUSH_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of memory and batches: events, bytes and seconds."""

    max_queue: int
    max_queue_bytes: int
    max_batch: int
    max_batch_bytes: int
    schedule_delay_s: float


class Worker:
    """Owns memory, spool and connection of one exporter in one process.

    Attributes:
        inbox: where callers put events and requests.
        running: whether a thread is at work; it clears this when it ends, however it ends.
        finished: nothing is left to do, for good.
    """

    def __init__(
        self, limits: Limits, sender: Sender, spooler: Spooler, transport: Transport, counts: Counts, ports: Ports
    ) -> None:
        """Start nothing yet."""
        self.inbox: Inbox[Flush | Close] = Inbox(ports, max_events=limits.max_queue, max_bytes=limits.max_queue_bytes)
        self.running = False
        self.finished = False
        self._limits = limits
        self._sender = sender
        self._spooler = spooler
        self._transport = transport
        self._counts = counts
        self._ports = ports
        self._starting = threading.Lock()
        self._abandoned = False
        # From here on the worker thread's own.
        self._close: Close | None = None
        self._flushes: list[Flush] = []
        self._due_at: float | None = None
        self._safe_at = ports.monotonic()

    # What callers use.

    def start(self) -> None:
        """Start the thread unless it runs. Never waits: who cannot get the lock knows that another starts it."""
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
        """After a fork: close our copies of the parent's descriptors; its locks and connection stay its own."""
        if self._spooler.claim is not None:
            self._spooler.claim.forget()
        self._transport.forget()

    # The thread.

    def _run(self) -> None:
        try:
            while not self.finished and not self._abandoned:
                self._round()
        except BaseException as error:  # noqa: BLE001 - nothing may end this thread unseen
            self._counts.restarts += 1
            self._counts.last_error = type(error).__name__
            self._counts.warn_once(
                "The thread that sends events ended by %s; no event is lost and the next one starts it "
                "again. Please report this.",
                type(error).__name__,
            )
        finally:
            self._spooler.release()
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
        if not inbox.pending and not self._spooler.waiting and not self._flushes and self._spooler.has_scanned:
            return Nap(None, events=1, size_bytes=1)
        blocked_s = self._sender.blocked_s()
        if blocked_s > 0:
            room = limits.max_queue // 2 - inbox.pending
            room_bytes = limits.max_queue_bytes // 2 - inbox.pending_bytes
            if room <= 0 or room_bytes <= 0:  # the spool is full: more events are no reason to wake
                room = room_bytes = NEVER
            return Nap(min(blocked_s, SAFE_AFTER_S), events=room, size_bytes=room_bytes)
        if self._flushes and not inbox.pending and not self._spooler.waiting:
            return Nap(_FLUSH_POLL_S)  # another process is sending the file we wait for
        if self._may_send() or self._due_at is None:
            return Nap(0)
        return Nap(
            max(0.0, self._due_at - self._ports.monotonic()),
            events=max(1, limits.max_batch - inbox.pending),
            size_bytes=max(1, limits.max_batch_bytes - inbox.pending_bytes),
        )

    def _note_time(self) -> None:
        """Keep two clocks of the pending events: when the oldest is due, and since when they are unsafe."""
        now = self._ports.monotonic()
        self._tell_overflow()
        if not self.inbox.pending:
            self._due_at = None
        elif self._due_at is None:
            self._due_at = now + self._limits.schedule_delay_s
        if not self.inbox.pending or not self._sender.failing:
            self._safe_at = now
        self._spooler.scan(if_due=True)

    def _may_send(self) -> bool:
        if self._sender.blocked_s() > 0:
            return False
        inbox, limits = self.inbox, self._limits
        if self._spooler.waiting:
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
        if self._spooler.waiting:
            self._send_from_spool()
            return
        batch = self.inbox.peek(self._limits.max_batch, self._limits.max_batch_bytes)
        settled = self._sender.deliver(batch)
        if not self._abandoned:
            self.inbox.settle(settled)
            self._due_at = None if settled else self._due_at

    def _send_from_spool(self) -> None:
        claim = self._spooler.claim_next()
        if claim is not None:
            self._spooler.settle(claim, is_sent=self._sender.deliver(claim.lines) == len(claim.lines))

    # The spool.

    def _protect(self) -> None:
        """Move pending events to disk while memory is short, or when the collector has been away for long."""
        now = self._ports.monotonic()
        overdue = now - self._safe_at >= SAFE_AFTER_S
        while self.inbox.pending and self._spooler.is_disk_ready and (overdue or self._is_short()):
            if not self._save_some(self._limits.max_batch):
                break
            self._safe_at = now

    def _is_short(self) -> bool:
        limits = self._limits
        return self.inbox.events > limits.max_queue // 2 or self.inbox.size_bytes > limits.max_queue_bytes // 2

    def _save_some(self, max_events: int) -> bool:
        """Write one spool file; say whether it is safe."""
        lines = self.inbox.peek(max_events, self._limits.max_batch_bytes)
        name = self._spooler.save(lines)
        if name is None:
            return False
        for flush in self._flushes:
            if self.inbox.settled < flush.mark:
                flush.names.add(name)
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
                self._spooler.path,
            )

    def _save_all(self) -> None:
        """Write all pending events, in few large files; what does not fit is counted and said once."""
        self._tell_overflow()
        for max_events in (_SPOOL_FILE_EVENTS, self._limits.max_batch):  # a smaller file may fit where a large did not
            while self.inbox.pending and self._save_some(max_events):
                pass
        lost = self.inbox.pending
        if lost:
            self._counts.unsaved += lost
            self._counts.warn_once(
                "%d events could be neither sent nor kept in %s; they are counted as dropped.",
                lost,
                self._spooler.path,
            )
            self.inbox.settle(lost)

    # Flush and close.

    def _accept_flush(self, flush: Flush) -> None:
        self._spooler.scan()
        flush.mark = self.inbox.taken
        flush.names = set(self._spooler.waiting)
        self._flushes.append(flush)
        self._sender.retry_now()

    def _answer_flushes(self) -> None:
        """Answer those that are done, and those for whom the next attempt comes too late (FR-05)."""
        if not self._flushes:
            return
        next_at = self._ports.monotonic() + self._sender.blocked_s()
        for flush in tuple(self._flushes):
            flush.names = self._spooler.still_there(flush.names)
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
            flush.reply.put(self.inbox.settled >= flush.mark and not self._spooler.still_there(flush.names))
        if self._close is not None:
            self._close.reply.put(True)
        for request in self.inbox.requests():
            request.reply.put(isinstance(request, Close))
