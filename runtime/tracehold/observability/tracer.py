"""The Tracer: takes structured events, cleans each one once, hands it to every exporter in order (TRC)."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tracehold.core.run_context import (
    OpenSpan,
    RunContext,
    current_run,
    current_span,
    inside,
    make_run,
    new_run_id,
)
from tracehold.observability.checks import check_event, checked_exporters
from tracehold.observability.exporters.base import DeferredError, TraceExporter
from tracehold.observability.exporters.memory import MemoryExporter
from tracehold.observability.spans import Run, Span
from tracehold.observability.stamp import STRUCTURAL, stamp
from tracehold.observability.summary import summarize, timeline
from tracehold.privacy import Cleaner, truncate

_log = logging.getLogger(__name__)

CONTENT_FIELDS: Final = frozenset({"input", "output"})
"""Fields that only exporters with `accepts_content` ever see (DEC-15)."""


class Tracer:
    """Records what an agent does, redacted at the source.

    `emit` cleans an event once and hands it to every exporter inline, in order, with the current context (DEC-11).
    A trace is a side channel: nothing it does may take the agent down, unless `strict` asks for that.

    Args:
        redact: mask secrets and personal data. `False` switches masking off and nothing else (TRC-11).
        max_value_len: longest string an exporter without `accepts_content` sees, in characters (TRC-10).
        exporters: where events go; default one `MemoryExporter` (TRC-02).
        strict: raise what cleaning or an exporter's inline attempt raised (TRC-14, TRC-16), and for what is no event a
            TypeError or ValueError.
        extra_secret_keys: further substrings, ignoring case, of key names whose value is masked (TRC-07).
        extra_secret_patterns: further regular expressions, text or compiled, masked inside values (TRC-07).
        content: let exporters that declare `accepts_content` see prompts, replies, arguments and results in full
            (DEC-15).
        content_max_bytes: where such content is cut, per value; default 256 KiB.
        service: name of the program, stamped on each event; default the standard `OTEL_SERVICE_NAME`.

    Raises:
        TypeError: `exporters` is no list of exporters, or a pattern neither text nor compiled.
        ValueError: a blank entry in `extra_secret_keys` (TRC-08).
        re.error: a pattern that does not compile; the message says which.
    """

    def __init__(
        self,
        *,
        redact: bool = True,
        max_value_len: int = 200,
        exporters: Sequence[TraceExporter] | None = None,
        strict: bool = False,
        extra_secret_keys: Iterable[str] | None = None,
        extra_secret_patterns: Iterable[str | re.Pattern[str]] | None = None,
        content: bool = False,
        content_max_bytes: int = 256 * 1024,
        service: str | None = None,
    ) -> None:
        self.exporters: list[TraceExporter] = [MemoryExporter()] if exporters is None else checked_exporters(exporters)
        self.redact = redact
        self.max_value_len = max_value_len
        self.strict = strict
        self.content = content
        self.content_max_bytes = content_max_bytes
        self._service = service if service is not None else os.environ.get("OTEL_SERVICE_NAME")
        self._cleaner = Cleaner(
            redact=redact, extra_secret_keys=extra_secret_keys, extra_secret_patterns=extra_secret_patterns
        )
        self._full = content and any(exporter.accepts_content for exporter in self.exporters)
        self._failures: Counter[str] = Counter()
        self._uncleanable = 0
        self._default_run: RunContext | None = None
        self._open_runs: dict[str, RunContext] = {}

    def emit(self, event: Mapping[str, Any]) -> None:
        """Record one event: a mapping with a text `type`; it is not modified (TRC-01, TRC-23).

        What is no event is dropped and counted like one that cannot be cleaned (TRC-16).
        """
        run = current_run() or self.run_without_context()
        self.record(event, run, current_span())

    def span(self, name: str, *, kind: str = "other", **attributes: Any) -> Span:
        """Return a sync and async context manager that emits one event when it ends (DEC-18).

        Args:
            name: what a waterfall shows.
            kind: one of the product's event kinds, such as "llm", "tool", "agent" or "other".
            attributes: fields of the event; more can be added with `Span.set`.
        """
        return Span(self, name, kind, attributes)

    def run(
        self,
        name: str | None = None,
        *,
        run_id: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        session: str | None = None,
        trace_carrier: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> Run:
        """Return a sync and async context manager around one run of an agent: `run_start`, then `run_end`.

        Inside another run it joins that run as a span of kind "agent" (EXEC-10).

        Args:
            name: what lists and waterfalls show; default the agent's name.
            run_id: the run's own id, to continue one; default a fresh one.
            agent: who acts; stamped on every event of the run.
            user: whom the run is about; the collector stores a keyed pseudonym.
            session: the conversation it belongs to; stored as a pseudonym too.
            trace_carrier: an upstream W3C carrier (`{"traceparent": ...}`), whose trace the run joins.
            attributes: fields of the `run_start` event.
        """
        context = make_run(run_id or new_run_id(), agent=agent, user=user, session=session, trace_carrier=trace_carrier)
        return Run(self, name or agent or "run", context, attributes)

    def carrier(self) -> dict[str, str]:
        """Return a W3C carrier for the innermost open span, to hand to another process."""
        run = current_run() or self.run_without_context()
        parent = current_span()
        span_id = parent.span_id if parent is not None and parent.run is run else run.root_span_id
        return {"traceparent": f"00-{run.trace_id}-{span_id}-01"}

    @property
    def events(self) -> list[Any]:
        """The events of the first memory exporter, or `[]` when there is none (TRC-17)."""
        memory = next((exporter for exporter in self.exporters if isinstance(exporter, MemoryExporter)), None)
        return [] if memory is None else memory.events

    def summary(self) -> dict[str, Any]:
        """Return event count, counts by type, total tokens and latency (ms), and what was dropped (TRC-18)."""
        dropped = Counter(self._failures)
        for exporter in self.exporters:
            if exporter.dropped:
                dropped[type(exporter).__name__] += exporter.dropped
        return summarize(self.events) | {"dropped": dict(dropped), "dropped_uncleanable": self._uncleanable}

    def clear(self) -> None:
        """Empty memory exporters; files and databases keep what they have (TRC-19)."""
        for exporter in self.exporters:
            if isinstance(exporter, MemoryExporter):
                exporter.clear()

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Wait at most `timeout_s` seconds an exporter until accepted events are handed over; say whether all are."""
        handed_over = [exporter.force_flush(timeout_s) for exporter in self.exporters]
        return all(handed_over)

    def close(self) -> None:
        """Close every exporter, each whatever the others do (TRC-20)."""
        for exporter in self.exporters:
            try:
                exporter.close()
            except Exception as error:
                self._note_failure(exporter, error)
                if self.strict:
                    raise

    def __str__(self) -> str:
        """Return the timeline in memory, a line an event (TRC-21)."""
        return timeline(self.events)

    def run_opened(self, run: RunContext) -> None:
        """Note that `run` began; called by `Run`."""
        self._open_runs[run.run_id] = run

    def run_closed(self, run: RunContext) -> None:
        """Note that `run` ended; called by `Run`."""
        self._open_runs.pop(run.run_id, None)

    def record(self, event: Mapping[str, Any], run: RunContext, parent: OpenSpan | None) -> None:
        """Record one event of `run`, under `parent` or the run's root; spans call it, whatever context they end in."""
        try:
            check_event(event)
            stamped, own = stamp(event, run, parent)
            if self._service is not None:
                stamped.setdefault("service", self._service)
            full, short = self._clean(stamped)
            short.update(own)
            if full is not short:
                full.update(own)
        except Exception as error:
            self._uncleanable += 1
            if self._uncleanable == 1:
                _log.warning(
                    "an event could not be cleaned and was dropped: %s; further ones are counted in summary(), and "
                    "Tracer(strict=True) raises the reason",
                    type(error).__name__,
                )
            if self.strict:
                raise
            return
        if run is current_run() or run is self._default_run:
            self._hand_over(full, short)
        else:
            # A span or stream that ends inside another run: exporters ask for the carrier of the event's own (EXP-12).
            with inside(run):
                self._hand_over(full, short)

    def _hand_over(self, full: dict[str, Any], short: dict[str, Any]) -> None:
        for exporter in self.exporters:
            try:
                exporter.export(full if exporter.accepts_content else short)
            except DeferredError as error:
                if self.strict and error.__cause__ is not None:
                    raise error.__cause__ from None
            except Exception as error:
                self._note_failure(exporter, error)
                if self.strict:
                    raise

    def _clean(self, stamped: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what content-accepting exporters see and what all others see; masking runs once (TRC-01)."""
        if self._full:
            full = self._cleaner.clean_event(stamped, structural=STRUCTURAL, max_len=self.content_max_bytes)
            short = {key: value for key, value in full.items() if key not in CONTENT_FIELDS}
            return full, truncate(short, self.max_value_len)
        if not stamped.keys().isdisjoint(CONTENT_FIELDS):
            stamped = {key: value for key, value in stamped.items() if key not in CONTENT_FIELDS}
        short = self._cleaner.clean_event(stamped, structural=STRUCTURAL, max_len=self.max_value_len)
        return short, short

    def _note_failure(self, exporter: TraceExporter, error: Exception) -> None:
        name = type(exporter).__name__
        self._failures[name] += 1
        if self._failures[name] == 1:
            _log.warning("%s failed with %s; further failures are counted in summary()", name, type(error).__name__)

    def run_without_context(self) -> RunContext:
        """Return the only open run of this Tracer, if there is one: a bare thread carries no context (FR-09)."""
        if len(self._open_runs) == 1:
            try:
                return next(iter(self._open_runs.values()))
            except (StopIteration, RuntimeError):  # it ended meanwhile in another thread
                pass
        if self._default_run is None:
            self._default_run = make_run(new_run_id())
        return self._default_run
