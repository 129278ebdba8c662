"""The exporter that ships events to a Tracehold collector."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from queue import Empty
from typing import Any, ClassVar

import platformdirs

from tracehold.core.errors import ConfigurationError, ExporterError
from tracehold.observability.exporters.base import Event, TraceExporter
from tracehold.observability.exporters.collector import lifecycle
from tracehold.observability.exporters.collector.counts import Counts
from tracehold.observability.exporters.collector.encode import encode_event
from tracehold.observability.exporters.collector.endpoint import resolve_endpoint
from tracehold.observability.exporters.collector.ports import Ports
from tracehold.observability.exporters.collector.requests import Close, Flush
from tracehold.observability.exporters.collector.sender import Sender
from tracehold.observability.exporters.collector.spool import Spool
from tracehold.observability.exporters.collector.spooler import Spooler
from tracehold.observability.exporters.collector.transport import Transport
from tracehold.observability.exporters.collector.worker import Limits, Worker

_MIB = 1024 * 1024
_SAVE_SHARE = 0.25
"""The part of a closing time that is kept for writing to disk what could not be sent."""
_SAVE_MAX_S = 1.0


class CollectorExporter(TraceExporter):
    """Sends events in the background: batched, retried, and kept on disk while the collector is away.

    `export` only encodes and queues (DEC-11); a thread does the rest. It starts with the first event, and again
    in a forked child, which sends its own events and none of its parent's. An event leaves this process only when
    the collector has taken it; what cannot be sent when the process ends waits in the spool for the next process
    with the same URL and key. Every event carries an id, so that a second sending is recognised.

    Lost, counted in `dropped` and logged once, are events over `max_queue` or `max_queue_bytes` while the disk
    takes none either, events the collector refuses, and at exit events over `spool_max_bytes`. Lost and not
    counted is, at `os._exit` or SIGKILL, what was still in memory: the events of `schedule_delay_s`, or of five
    seconds while the collector is away.

    The spool holds events as they are sent, content included, readable by the user of the process only.
    """

    accepts_content: ClassVar[bool] = True

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        max_queue: int = 65_536,
        max_queue_bytes: int = 64 * _MIB,
        max_batch: int = 512,
        max_batch_bytes: int = 4 * _MIB,
        schedule_delay_s: float = 0.2,
        timeout_s: float = 10.0,
        shutdown_timeout_s: float = 5.0,
        spool_dir: str | Path | None = None,
        spool_max_bytes: int = 64 * _MIB,
        handle_sigterm: bool = True,
        compress: bool = True,
        _ports: Ports | None = None,
    ) -> None:
        """Check the settings; connect to nothing and write nothing yet.

        Args:
            url: the collector, `http(s)://host[:port][/prefix]`; else `TRACEHOLD_URL`, else
                `http://127.0.0.1:4318`.
            api_key: sent as a bearer token, shown nowhere; else `TRACEHOLD_API_KEY`.
            max_queue: events in memory, at most. From half of it on they go to the spool.
            max_queue_bytes: the same in bytes of encoded events.
            max_batch: events in a request, at most.
            max_batch_bytes: bytes in a request before compression; a larger event goes alone.
            schedule_delay_s: seconds an event may wait for others to go with it.
            timeout_s: seconds of silence after which a request has failed.
            shutdown_timeout_s: seconds within which `close`, exit and SIGTERM end, whatever the collector
                does.
            spool_dir: the folder for unsent events; the default is the platform's folder for state. Below it
                every URL and key has a folder of its own.
            spool_max_bytes: how much may wait on disk.
            handle_sigterm: when SIGTERM is at its default and this is the main thread: send or save events
                first.
            compress: gzip requests over 1 KiB.

        Raises:
            ConfigurationError: a setting cannot be used; the message names it and never a key.
        """
        _require_positive(
            max_queue=max_queue,
            max_queue_bytes=max_queue_bytes,
            max_batch=max_batch,
            max_batch_bytes=max_batch_bytes,
            schedule_delay_s=schedule_delay_s,
            timeout_s=timeout_s,
            shutdown_timeout_s=shutdown_timeout_s,
            spool_max_bytes=spool_max_bytes,
        )
        self.shutdown_timeout_s = shutdown_timeout_s
        self._spare_s = min(_SAVE_MAX_S, shutdown_timeout_s * _SAVE_SHARE)
        self._endpoint = resolve_endpoint(url, api_key)
        self._proxy = self._endpoint.proxy()
        self._ports = _ports or Ports()
        self._limits = Limits(max_queue, max_queue_bytes, max_batch, max_batch_bytes, schedule_delay_s)
        self._timeout_s = timeout_s
        self._compress = compress
        base = Path(spool_dir) if spool_dir else platformdirs.user_state_path("tracehold", appauthor=False) / "spool"
        self._spool_path = base / self._endpoint.spool_name()
        self._spool_max_bytes = spool_max_bytes
        self._closed = False
        self._counts, self._worker = self._fresh()
        lifecycle.watch(self, handle_sigterm=handle_sigterm)

    def __repr__(self) -> str:
        """Name the collector; never the key."""
        return f"{type(self).__name__}({self._endpoint.url!r})"

    @property
    def dropped(self) -> int:  # type: ignore[override]  # read-only: nobody else counts here
        """Events that will never be stored: no room for them, or refused by the collector."""
        return self._counts.dropped

    @property
    def spool_path(self) -> Path:
        """The folder where this exporter's unsent events wait; it need not exist."""
        return self._spool_path

    def export(self, event: Event) -> None:
        """Encode and queue one event; takes microseconds and never waits for network, disk or a lock.

        Raises:
            ExporterError: the exporter is closed.
            TypeError: the event cannot be written as JSON.
        """
        if self._closed:
            raise ExporterError("this CollectorExporter is closed and took no event; make a new one")
        worker = self._worker
        if not worker.inbox.put(encode_event(event)):
            self._counts.overflowed += 1
        if not worker.running:
            self._start(worker)

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until the collector has all events exported before this call, and all that waited on disk.

        Args:
            timeout_s: seconds to wait at most. A pause between attempts is cut short, one the collector asked
                for is not; if the next attempt cannot be made in time the answer comes at once.

        Returns:
            Whether the collector has them all. If not they stay queued.
        """
        worker = self._worker
        if worker.finished:
            return False
        flush = Flush(self._ports.monotonic() + timeout_s)
        worker.inbox.ask(flush)
        self._start(worker)
        try:
            return flush.reply.get(timeout=max(0.0, timeout_s))
        except Empty:
            return False

    def close(self) -> None:
        """Send what waits, put on disk what cannot be sent, and end; a second call does nothing (EXP-01).

        Ends within `shutdown_timeout_s`, also on Ctrl-C, which is raised again once the events are safe.
        """
        lifecycle.close_all((self,))

    def stats(self) -> dict[str, Any]:
        """Return counters of this process.

        Returns:
            `queued` events in memory; `sent`, `duplicates`, `rejected` by the collector's answers; `spooled`
            events ever written to disk; `dropped` as the attribute; `retries` failed requests; `restarts` of
            the thread; `last_error` a class name or status, `None` without one.
        """
        counts = self._counts
        return {
            "queued": self._worker.inbox.events,
            "sent": counts.sent,
            "duplicates": counts.duplicates,
            "rejected": counts.rejected,
            "spooled": counts.spooled,
            "dropped": counts.dropped,
            "retries": counts.retries,
            "restarts": counts.restarts,
            "last_error": counts.last_error,
        }

    # What `lifecycle` calls.

    def begin_close(self, deadline: float) -> None:
        """Refuse new events and tell the thread to end; returns at once."""
        self._closed = True
        worker = self._worker
        if not worker.finished:
            worker.hurry()
            worker.inbox.ask(self._close_request(deadline))

    def finish_close(self, deadline: float) -> None:
        """Wait for the thread; when it does not end in time, save the events from here."""
        worker = self._worker
        try:
            if not worker.running and not worker.finished:
                # Never started, or no thread can be started at this stage of the interpreter's end.
                worker.finish(self._close_request(deadline).send_until)
            elif not worker.finished:
                self._await_end(worker, deadline)
        finally:
            # Also after Ctrl-C: what the thread has not settled goes to disk now.
            if not worker.finished:
                worker.abort()
                worker.rescue()
            lifecycle.forget(self)

    def after_fork_in_child(self) -> None:
        """Start anew in a forked child: no events, no thread, no connection; the parent sends what it has."""
        self._worker.forget_in_child()
        self._counts, self._worker = self._fresh()

    def _await_end(self, worker: Worker, deadline: float) -> None:
        """Wait for the end; shortly before the deadline pull the thread out of the network and wait again."""
        close = self._close_request(deadline)
        worker.inbox.ask(close)
        if worker.finished:  # it may have ended before it could see our request
            return
        for spare_s in (self._spare_s, self._spare_s / 2):
            with contextlib.suppress(Empty):
                close.reply.get(timeout=max(0.0, deadline - spare_s - time.monotonic()))
                return
            worker.abort()

    def _close_request(self, deadline: float) -> Close:
        """Translate a deadline of the process into one of our clock."""
        return Close(self._ports.monotonic() + deadline - time.monotonic() - self._spare_s)

    def _start(self, worker: Worker) -> None:
        lifecycle.hold(self)
        worker.start()

    def _fresh(self) -> tuple[Counts, Worker]:
        """Return what belongs to one process only."""
        counts, transport = Counts(), Transport(self._endpoint, self._proxy)
        sender = Sender(
            transport,
            counts,
            self._ports,
            url=self._endpoint.url,
            max_batch=self._limits.max_batch,
            max_batch_bytes=self._limits.max_batch_bytes,
            timeout_s=self._timeout_s,
            compress=self._compress,
        )
        spooler = Spooler(Spool(self._spool_path, max_bytes=self._spool_max_bytes), counts, self._ports)
        return counts, Worker(self._limits, sender, spooler, transport, counts, self._ports)


def _require_positive(**settings: float) -> None:
    """Refuse settings that are no positive number, all in one message."""
    wrong = [
        f"{name}={value!r}"
        for name, value in settings.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0
    ]
    if wrong:
        raise ConfigurationError(f"these settings of CollectorExporter must be numbers above 0: {', '.join(wrong)}")
