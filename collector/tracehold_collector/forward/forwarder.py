"""Sends committed records on to another OTLP receiver without ever holding up the one that commits them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from tracehold_collector.core.record import Record
from tracehold_collector.forward.backlog import Backlog
from tracehold_collector.forward.endpoint import Answer, Endpoint
from tracehold_collector.forward.otlp import is_forwarded, to_otlp

_log = structlog.get_logger(__name__)

_MAX_BATCH_BYTES: Final = 4 * 1024 * 1024
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0
_LAST_WAIT_S: Final = 0.1
"""Between attempts while closing: there is no time for more, and a receiver that is gone is not hammered."""


COUNTERS: Final = ("sent", "rejected", "skipped", "dropped", "retries")
"""What `Forwarder.stats` counts; all but `retries` in records.

    sent: taken by the receiver.
    rejected: of those sent, taken note of and thrown away by the receiver (`partial_success`).
    skipped: opening halves of spans, which are never sent.
    dropped: given up: no room in the queue, refused by the receiver, answered "later" for too long, not
        encodable, or still waiting when the time to close was up.
    retries: requests that had to be made again.
"""


class Forwarder:
    """Forwards records to an OTLP/HTTP receiver from a thread of its own, at least once.

    A receiver that cannot be reached is tried for as long as it takes; meanwhile records wait up to the
    bounds, and what is over them is dropped and counted. A batch that is answered "later" for
    `give_up_after_s` seconds, or with a wait beyond them, is lost. What a receiver refuses for good is not
    sent again.

    Args:
        endpoint: such as `http://jaeger:4318`; `/v1/traces` is appended when missing.
        headers: sent with each request; never logged.
        max_queue_records: how many records may wait.
        max_queue_bytes: how much their content may weigh in memory, about.
        max_batch_records: how many records go into one request.
        timeout_s: seconds for connecting, and for each wait for the receiver's bytes.
        give_up_after_s: seconds after which a batch that is always answered "later" is dropped.

    Raises:
        ConfigurationError: the address or a header cannot be used.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        headers: Mapping[str, str] | None = None,
        max_queue_records: int = 50_000,
        max_queue_bytes: int = 256 * 1024 * 1024,
        max_batch_records: int = 512,
        timeout_s: float = 10.0,
        give_up_after_s: float = 300.0,
    ) -> None:
        self._endpoint = Endpoint(endpoint, headers, timeout_s=timeout_s)
        self._max_batch_records = max_batch_records
        self._give_up_after_s = give_up_after_s
        # The condition's lock owns all fields below; the thread alone uses the endpoint.
        self._changed = threading.Condition()
        self._backlog = Backlog(max_queue_records, max_queue_bytes)
        self._counts = dict.fromkeys(COUNTERS, 0)
        self._under_way = 0
        self._close_at: float | None = None
        self._abandoned = False
        self._said: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="tracehold-forward", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """The full address records go to, without its query."""
        return self._endpoint.shown

    def submit(self, records: Sequence[Record]) -> None:
        """Queue records that nobody will change any more; never blocks on the receiver and never raises."""
        wanted = [record for record in records if is_forwarded(record)]
        with self._changed:
            self._count(skipped=len(records) - len(wanted))
            closed = self._close_at is not None
            over = len(wanted) if closed else self._backlog.add(wanted)
            self._changed.notify_all()
        if over:
            self._give_up(over, "closed" if closed else "the queue is full")

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Wait at most `timeout_s` seconds until nothing waits any more; say whether nothing does."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting(), timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Send what waits within `timeout_s` seconds, drop the rest, say whether all was sent. Idempotent."""
        with self._changed:
            if self._close_at is None:
                self._close_at = time.monotonic() + timeout_s
            self._changed.notify_all()
        self._thread.join(timeout_s)
        with self._changed:
            # A request may still hang in a socket: whatever comes of it, its batch is counted here and now.
            self._abandoned = True
            left, self._under_way = self._backlog.clear() + self._under_way, 0
            self._changed.notify_all()
        if left:
            self._give_up(left, "closed")
        return not left

    def stats(self) -> dict[str, int]:
        """Return `COUNTERS` as they are now, and `queued`: records that wait, the batch under way included."""
        with self._changed:
            return {**self._counts, "queued": self._waiting()}

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                settled = self._deliver(batch)
            except Exception as error:  # noqa: BLE001 - a record nobody foresaw must not end forwarding
                settled = self._settle(self._under_way, lost_to=type(error).__name__)
            if not settled:
                break
        self._endpoint.close()

    def _next_batch(self) -> list[Record]:
        """Wait for records and return some; none when the forwarder is closed and has no more to do."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._backlog) or self._close_at is not None)
            if self._is_over():
                return []
            batch = self._backlog.take(self._max_batch_records, _MAX_BATCH_BYTES)
            self._under_way = len(batch)
            return batch

    def _deliver(self, batch: list[Record]) -> bool:
        """Send one batch until it is settled; false when closing came first."""
        body = self._encode(batch)
        if not batch:
            return True
        give_up_at = time.monotonic() + self._give_up_after_s
        wait_s = _FIRST_WAIT_S
        while True:
            answer = self._endpoint.send(body)
            if answer.verdict == "taken":
                self._note_taken(answer)
                return self._settle(len(batch), rejected=min(answer.rejected, len(batch)))
            if answer.verdict == "too_large" and len(batch) > 1:
                middle = len(batch) // 2
                return self._deliver(batch[:middle]) and self._deliver(batch[middle:])
            if answer.verdict in {"refused", "too_large"}:
                return self._settle(len(batch), lost_to=answer.reason)
            asked = answer.retry_after_s is not None
            pause_s = answer.retry_after_s if answer.retry_after_s is not None else _jittered(wait_s)
            if answer.verdict == "later" and time.monotonic() + pause_s > give_up_at:
                return self._settle(len(batch), lost_to=answer.reason)
            self._note_trouble(answer)
            if not self._pause(pause_s, asked=asked):
                return False
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    def _encode(self, batch: list[Record]) -> bytes:
        """Serialise a batch; a record that cannot be is left out, so that it does not cost its neighbours."""
        try:
            return bytes(to_otlp(batch).SerializeToString())
        except (ValueError, TypeError):
            good = [record for record in batch if _is_encodable(record)]
            self._settle(len(batch) - len(good), lost_to="cannot be encoded")
            batch[:] = good
            return bytes(to_otlp(good).SerializeToString())

    def _pause(self, pause_s: float, *, asked: bool) -> bool:
        """Wait before the same batch is sent again; false when closing leaves no time for it.

        Closing cuts short a wait of our own. A wait the receiver asked for is kept, or nothing is sent again.
        """
        began = time.monotonic()
        until = began + pause_s
        with self._changed:
            while True:
                if self._close_at is not None and not asked:
                    until = min(until, began + _LAST_WAIT_S)
                if self._is_over() or (self._close_at is not None and until >= self._close_at):
                    return False
                left_s = until - time.monotonic()
                if left_s <= 0:
                    self._count(retries=1)
                    return True
                self._changed.wait(left_s)

    def _settle(self, records: int, *, rejected: int = 0, lost_to: str = "") -> bool:
        """Book what became of records under way, unless `close` has counted them already; always true."""
        with self._changed:
            if self._abandoned:
                return True
            self._under_way -= records
            if not lost_to:
                self._count(sent=records, rejected=rejected)
            self._changed.notify_all()
        if lost_to and records:
            self._give_up(records, lost_to)
        return True

    def _give_up(self, lost: int, reason: str) -> None:
        with self._changed:
            self._count(dropped=lost)
        if self._first(f"dropped: {reason}"):
            _log.warning("forward.dropped", endpoint=self.endpoint, reason=reason, records=lost)

    def _note_taken(self, answer: Answer) -> None:
        with self._changed:
            recovered = "waiting" in self._said
            self._said.discard("waiting")
        if recovered:
            _log.info("forward.recovered", endpoint=self.endpoint)
        if answer.rejected and self._first("rejected"):
            _log.warning("forward.rejected", endpoint=self.endpoint, spans=answer.rejected)

    def _note_trouble(self, answer: Answer) -> None:
        if self._first("waiting"):
            _log.warning("forward.waiting", endpoint=self.endpoint, reason=answer.reason)

    def _first(self, what: str) -> bool:
        with self._changed:
            known = what in self._said
            self._said.add(what)
            return not known

    def _count(self, **more: int) -> None:
        for name, by in more.items():
            self._counts[name] += by

    def _waiting(self) -> int:
        return len(self._backlog) + self._under_way

    def _is_over(self) -> bool:
        return self._abandoned or (self._close_at is not None and time.monotonic() >= self._close_at)


def _jittered(wait_s: float) -> float:
    return wait_s * random.uniform(0.5, 1.0)  # noqa: S311 - it spreads retries, it keeps no secret


def _is_encodable(record: Record) -> bool:
    try:
        to_otlp([record]).SerializeToString()
    except (ValueError, TypeError):
        return False
    return True
