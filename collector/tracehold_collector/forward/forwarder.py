"""Sends what is committed on to another OTLP receiver; the store itself is the queue."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import structlog
from tracehold.core.clock import NS_PER_S, now_ns

from tracehold_collector.core.errors import StoreError
from tracehold_collector.forward.backoff import Backoff
from tracehold_collector.forward.batch import Batch, Mark, make_batch
from tracehold_collector.forward.books import Books
from tracehold_collector.forward.endpoint import Answer, Endpoint
from tracehold_collector.forward.notes import Notes
from tracehold_collector.forward.progress import progress_file
from tracehold_collector.forward.sending import UNSAYABLE, Sender
from tracehold_collector.forward.start import resume
from tracehold_collector.store.database import Database
from tracehold_collector.store.feed import count_beyond, last_position, read_beyond

_log = structlog.get_logger(__name__)

_MAX_BATCH_BYTES: Final = 4 * 1024 * 1024
_MAX_PACKED_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ForwardStatus:
    """How forwarding does.

    Attributes:
        sent: events the receiver took, since it was first named.
        refused: events it will never have: it refused them, or they cannot be said in OTLP.
        skipped: opening halves of spans, which are never sent.
        retries: requests that had to be made again, since the start.
        waiting: events that wait in the store; `None` when it could not be asked.
        behind_s: seconds since the first of them was committed; 0 when none waits.
        trouble: why nothing is sent just now, such as "HTTP 503"; `None` when all is well.
    """

    sent: int
    refused: int
    skipped: int
    retries: int
    waiting: int | None
    behind_s: float | None
    trouble: str | None


class Forwarder:
    """Forwards committed events to an OTLP/HTTP receiver from a thread of its own, at least once.

    It reads the store from the place on that the receiver has got to, and keeps that place in a file beside it. An
    outage therefore costs neither memory nor events, however long, and the writer does nothing but wake it up. A
    process that is killed sends again what it sent within the last `save_every_s` seconds.

    Args:
        database: the open store.
        folder: where the place is kept, the data folder.
        endpoint: such as `http://jaeger:4318`; `/v1/traces` is appended when missing.
        headers: sent with each request; never logged.
        since: "start", "now", or a date or time: see `tracehold_collector.forward.start.resume`.
        max_batch_records: how many events go into one request.
        max_batch_bytes: how much they weigh there, about.
        timeout_s: seconds for connecting, and for each wait for the receiver's bytes.
        gather_s: seconds to wait for company after a commit.
        save_every_s: seconds between two writings of the place.
        backoff: how long to wait when the receiver is in trouble.

    Raises:
        ConfigurationError: the address, a header or `since` cannot be used.
        StoreError: the place cannot be read or written.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        endpoint: str,
        *,
        headers: Mapping[str, str] | None = None,
        since: str | None = None,
        max_batch_records: int = 1000,
        max_batch_bytes: int = _MAX_BATCH_BYTES,
        timeout_s: float = 10.0,
        gather_s: float = 0.2,
        save_every_s: float = 1.0,
        backoff: Backoff | None = None,
    ) -> None:
        self._database = database
        self._endpoint = Endpoint(endpoint, headers, timeout_s=timeout_s)
        self._max_records, self._max_bytes = max_batch_records, max_batch_bytes
        self._gather_s = gather_s
        path = progress_file(folder, self._endpoint.identity)
        try:
            with database.cursor() as cursor:
                progress = resume(path, self._endpoint.origin, since, last_position(cursor))
        except OSError as error:
            raise StoreError(f"cannot keep in {path} how far forwarding has got: {error.strerror}") from error
        self._books = Books(progress, save_every_s)
        self._notes = Notes(self._endpoint.shown)
        self._backoff = backoff or Backoff()
        self._sender = Sender(self._endpoint, self._backoff, self)
        # The condition's lock owns the fields below; the thread alone uses endpoint and sender.
        self._changed = threading.Condition()
        self._asked, self._served, self._hurried = 1, 0, 0
        self._retries = 0
        self._close_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="tracehold-forward", daemon=True)

    @property
    def endpoint(self) -> str:
        """The full address events go to, without its query."""
        return self._endpoint.shown

    def start(self) -> None:
        """Begin, with what waits."""
        self._thread.start()

    def wake(self, _new: object = None) -> None:
        """Say that there may be something new in the store; costs the caller nothing."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Wait at most `timeout_s` seconds until all that is committed now came to an end; say whether it did."""
        with self._changed:
            self._asked += 1
            ticket = self._hurried = self._asked
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._served >= ticket, timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Send what waits within `timeout_s` seconds, and say whether that was all of it. Idempotent.

        A receiver in trouble is not waited for. What is left goes out after the next start.
        """
        with self._changed:
            if self._close_at is None:
                self._close_at = time.monotonic() + timeout_s
                self._asked += 1
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        # A request may still hang in a socket; whatever comes of it is not noted any more.
        self._books.close()
        with self._changed:
            return self._served >= self._asked

    def status(self) -> ForwardStatus:
        """Return how forwarding does; asks the store how much waits."""
        progress, trouble = self._books.now(), self._notes.trouble
        waiting: int | None = None
        behind_s: float | None = None
        try:
            with self._database.cursor() as cursor:
                waiting, oldest = count_beyond(cursor, progress.position)
            behind_s = max(0.0, (now_ns() - oldest) / NS_PER_S) if oldest is not None else 0.0
        except duckdb.Error as error:
            _log.debug("forward.not_counted", error=type(error).__name__)
        return ForwardStatus(
            progress.sent, progress.refused, progress.skipped, self._retries, waiting, behind_s, trouble
        )

    def is_over(self) -> bool:
        """Whether the time to send anything is up."""
        return self._close_at is not None and time.monotonic() >= self._close_at

    def pause(self, answer: Answer, seconds: float) -> bool:
        """Wait before something is sent again; false when it is being closed, which leaves no time for trouble."""
        self._notes.in_trouble(answer.reason)
        self._books.save()
        with self._changed:
            if self._changed.wait_for(lambda: self._close_at is not None, seconds):
                return False
            self._retries += 1
            return True

    def _run(self) -> None:
        going_on = True
        while going_on and (ticket := self._await_work()) is not None:
            if ticket > self._served:
                going_on = self._catch_up(ticket)
            self._books.save_when_due()
        self._books.save()
        self._endpoint.close()

    def _await_work(self) -> int | None:
        """Wait until there may be something to send, or the place is to be saved; `None` when it is over."""
        due_s = self._books.due_s()
        with self._changed:
            self._changed.wait_for(lambda: self._asked > self._served or self._close_at is not None, due_s)
            if self._asked > self._served:
                self._changed.wait_for(self._is_hurried, self._gather_s)
            if self.is_over() or (self._close_at is not None and self._asked == self._served):
                return None
            return self._asked

    def _is_hurried(self) -> bool:
        return self._hurried > self._served or self._close_at is not None

    def _catch_up(self, ticket: int) -> bool:
        """Send until nothing waits; false when closing came first."""
        while not self.is_over():
            began_s, asked = time.thread_time(), self._asked
            try:
                batch = self._next_batch()
                if batch.end is None:
                    self._serve(ticket)
                    return True
                settled = self._send(batch, batch.end)
            except Exception as error:  # noqa: BLE001 - nothing anybody answers may end forwarding
                settled = False
                here = Answer("unreachable", f"{type(error).__name__} in the collector")
                self.pause(here, self._backoff.wait_s(None))
            self._books.save_when_due()
            if settled:
                self._rest(batch, time.thread_time() - began_s, asked)
            elif self._close_at is not None:
                return False
        return False

    def _next_batch(self) -> Batch:
        position = self._books.now().position
        with self._database.cursor() as cursor:
            vault = self._database.vault
            records = read_beyond(cursor, vault, position, max_records=self._max_records, max_packed=_MAX_PACKED_BYTES)
            return make_batch(records, self._max_bytes)

    def _serve(self, ticket: int) -> None:
        self._notes.well()
        with self._changed:
            self._served = ticket
            self._changed.notify_all()

    def _send(self, batch: Batch, end: Mark) -> bool:
        settled = 0
        before = Mark(end.position, 0, 0)

        def settle(spans: int, answer: Answer) -> None:
            nonlocal settled, before
            settled += spans
            refused = min(answer.rejected, spans) if answer.verdict == "taken" else spans
            after = batch.marks[settled - 1]
            self._books.move(before, after, sent=spans - refused, refused=refused)
            before = after
            self._notes.well()
            if refused:
                self._notes.refused(answer.reason or "partial success", refused)

        if not self._sender.deliver(batch.spans, settle):
            return False
        self._books.move(before, end)
        if end.unsayable:
            self._notes.refused(UNSAYABLE, end.unsayable)
        return True

    def _rest(self, batch: Batch, worked_s: float, asked: int) -> None:
        """Wait for company after a small batch; after another, leave the processor to senders for as long as it took.

        They wait for an answer, nobody here does: it keeps 10 to 30 % more of the ingest speed on two cores. While
        nobody sends, there is no rest.
        """
        read = len(batch.spans) + (batch.end.skipped + batch.end.unsayable if batch.end else 0)
        is_small = 2 * read < self._max_records and 2 * batch.size < self._max_bytes
        with self._changed:
            if is_small or self._asked != asked:
                self._changed.wait_for(self._is_hurried, self._gather_s if is_small else worked_s)
