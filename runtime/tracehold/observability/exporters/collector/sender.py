"""Hands batches to the collector, and knows when it may try again."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence

from tracehold.observability.exporters.collector.answers import Action, Verdict, judge
from tracehold.observability.exporters.collector.backoff import Backoff
from tracehold.observability.exporters.collector.counts import Counts
from tracehold.observability.exporters.collector.ports import Ports
from tracehold.observability.exporters.collector.transport import SendError, Transport

_COMPRESS_FROM_BYTES = 1024
_COMPRESS_LEVEL = 1
"""Measured on NDJSON of events: a third of level 6's time for 15 % more bytes."""

KEEP_S = 60.0
"""Upper bound of the pause after a fault that only a person can repair; at least half of it is waited."""


class Sender:
    """Sends lines, halves what is refused, and keeps the time of the next attempt. Used by one thread.

    Attributes:
        failing: whether the last attempt failed.
        hurry: set by a closing thread: stop between two requests.
        asked_until: monotonic seconds before which the collector asked us not to come back.
        retry_at: monotonic seconds before which we stay away of our own accord.
    """

    def __init__(
        self,
        transport: Transport,
        counts: Counts,
        ports: Ports,
        *,
        url: str,
        max_batch: int,
        max_batch_bytes: int,
        timeout_s: float,
        compress: bool,
    ) -> None:
        """Send nothing yet; `url` is for the log."""
        self._transport = transport
        self._counts = counts
        self._ports = ports
        self._url = url
        self._max_batch = max_batch
        self._max_batch_bytes = max_batch_bytes
        self._timeout_s = timeout_s
        self._compress = compress
        self._backoff = Backoff(ports.random)
        self.failing = False
        self.hurry = False
        self.asked_until = self.retry_at = -math.inf

    def blocked_s(self) -> float:
        """Return the seconds until the next attempt may be made; 0 when it may be made now."""
        return max(0.0, max(self.asked_until, self.retry_at) - self._ports.monotonic())

    def retry_now(self) -> None:
        """End our own pause, not one the collector asked for."""
        self.retry_at = -math.inf

    def deliver(self, lines: Sequence[bytes], *, deadline: float = math.inf) -> int:
        """Send `lines` and return how many of them, from the first on, are taken or refused for good.

        Args:
            lines: encoded events.
            deadline: monotonic seconds after which no request is started or waited for.
        """
        todo = list(self._batches(lines))[::-1]
        settled = 0
        while todo and not self.hurry:
            timeout_s = min(self._timeout_s, deadline - self._ports.monotonic())
            if timeout_s <= 0:
                break
            batch = todo[-1]
            verdict = self._post(batch, timeout_s)
            if verdict.action is Action.PLAIN and self._compress:
                self._compress = False
            elif verdict.action is Action.HALVE and len(batch) > 1:
                middle = len(batch) // 2
                todo[-1:] = [batch[middle:], batch[:middle]]
            elif verdict.action in {Action.RETRY, Action.KEEP}:
                self._failed(verdict)
                break
            else:
                self._taken(batch, verdict)
                settled += len(todo.pop())
        return settled

    def _batches(self, lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        """Cut lines into requests within the limits; a line over the limit goes alone."""
        start = size = 0
        for at, line in enumerate(lines):
            if at > start and (at - start >= self._max_batch or size + len(line) + 1 > self._max_batch_bytes):
                yield lines[start:at]
                start, size = at, 0
            size += len(line) + 1
        if start < len(lines):
            yield lines[start:]

    def _post(self, batch: Sequence[bytes], timeout_s: float) -> Verdict:
        body = b"\n".join(batch) + b"\n"
        gzipped = self._compress and len(body) >= _COMPRESS_FROM_BYTES
        if gzipped:
            body = gzip.compress(body, compresslevel=_COMPRESS_LEVEL, mtime=0)
        try:
            answer = self._transport.post(body, gzipped=gzipped, timeout_s=timeout_s)
        except SendError as error:
            return Verdict(Action.RETRY, error.reason)
        return judge(answer, self._ports.now())

    def _taken(self, batch: Sequence[bytes], verdict: Verdict) -> None:
        """Count a batch that is over and done with; a refusal of the whole is a refusal of each."""
        self._backoff.reset()
        self.failing = False
        self.asked_until = self.retry_at = -math.inf
        rejected = min(verdict.rejected, len(batch)) if verdict.action is Action.TAKEN else len(batch)
        self._counts.sent += len(batch) - rejected
        self._counts.rejected += rejected
        self._counts.duplicates += verdict.duplicates
        if rejected:
            self._counts.last_error = f"{verdict.status}, {rejected} rejected"
            self._counts.warn_once(
                "The collector at %s refused %d of %d events (%s), the first because: %s. "
                "They are counted as rejected and not sent again; stats() counts further ones.",
                self._url,
                rejected,
                len(batch),
                verdict.status,
                verdict.reason or "it does not say; its own log may",
            )

    def _failed(self, verdict: Verdict) -> None:
        """Set the time of the next attempt."""
        now = self._ports.monotonic()
        self.failing = True
        self._counts.retries += 1
        self._counts.last_error = verdict.status
        if verdict.action is Action.KEEP:
            self.retry_at = now + KEEP_S * (1 + self._ports.random()) / 2
            self._counts.warn_once(
                "The collector at %s does not take our events (%s); they are kept and tried again every "
                "minute. Check the URL (TRACEHOLD_URL) and the key (TRACEHOLD_API_KEY).",
                self._url,
                verdict.status,
            )
            return
        self.retry_at = now + self._backoff.next_delay_s()
        if verdict.asked_s is not None:
            # A little later than asked, so that all who were sent away do not return in the same instant.
            self.asked_until = now + verdict.asked_s * (1 + self._ports.random() / 10)
