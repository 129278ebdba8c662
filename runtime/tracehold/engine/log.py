"""The engine's way to its store: every call ridden out, every event made ready before it is stored (ENG-29)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from tracehold.core.errors import StoreUnavailable, TenantMismatch
from tracehold.core.retry import RetryPolicy, is_transient, retrying
from tracehold.engine.budget import checked_spend
from tracehold.engine.run_fold import RunFold
from tracehold.events.blobs import BlobStore, claim, hydrate
from tracehold.events.event import Event
from tracehold.events.schemas import SchemaRegistry
from tracehold.events.store import ANY_SEQ, EventStore

Result = TypeVar("Result")


class Redacting(Protocol):
    """A redactor (RED-01)."""

    def redact(self, event: Event) -> Event:
        """Return the event with sensitive values replaced."""


class Outage:
    """Paces the attempts of one long subscription; its budget restarts whenever it gets on (ENG-39)."""

    def __init__(self, policy: RetryPolicy, classify: Callable[[BaseException], bool], what: str) -> None:
        self._policy = policy
        self._classify = classify
        self._what = what
        self._failures = 0
        self._since = self._opened = time.monotonic()

    def opened(self) -> None:
        """Note that a connection was opened."""
        self._opened = time.monotonic()

    def over(self) -> None:
        """Note that it gets on."""
        self._failures = 0

    async def ride_out(self, error: Exception) -> None:
        """Wait before the next attempt.

        Raises:
            StoreUnavailable: the rules are exhausted.
            Exception: `error`, when it is no outage.
        """
        if not self._classify(error):
            raise error
        now = time.monotonic()
        if now - self._opened > self._policy.max_delay_s:
            self._failures = 0  # it had lasted: a quiet stream is no failing one
        if self._failures == 0:
            self._since = now
        self._failures += 1
        pause = self._policy.delay_s(self._failures)
        spent = self._policy.max_attempts is not None and self._failures >= self._policy.max_attempts
        late = self._policy.max_elapsed_s is not None and now - self._since + pause > self._policy.max_elapsed_s
        if spent or late:
            raise StoreUnavailable(f"{self._what} failed {self._failures} times in a row") from error
        await asyncio.sleep(pause)


class Log:
    """Validates, redacts, claim-checks and appends; reads and restores.

    Args:
        store: the event store.
        schemas: payload schemas.
        redactor: applied before anything is stored (RED-02), or `None`.
        blobs: where large payloads go, or `None`.
        claim_threshold: bytes of JSON beyond which a payload is large (BLB-02).
        policy: how an outage is ridden out.
        classify: which errors are an outage.
    """

    def __init__(
        self,
        store: EventStore,
        *,
        schemas: SchemaRegistry,
        redactor: Redacting | None,
        blobs: BlobStore | None,
        claim_threshold: int,
        policy: RetryPolicy,
        classify: Callable[[BaseException], bool] | None,
    ) -> None:
        self.store = store
        self.blobs = blobs
        self.closed = False
        self._schemas = schemas
        self._redactor = redactor
        self._claim_threshold = claim_threshold
        self._policy = policy
        self._classify = classify or is_transient

    async def retry(
        self,
        fn: Callable[[], Awaitable[Result]],
        what: str,
        policy: RetryPolicy | None,
        *,
        may_take_long: bool = False,
    ) -> Result:
        """Call `fn`, riding out an outage; to hang is one too: no attempt takes longer than the whole may.

        Args:
            fn: called anew for each attempt.
            what: what messages call it.
            policy: the bounds; default the engine's.
            may_take_long: an erasure may rewrite a whole file, and what a user calls is not ours to judge.

        Raises:
            StoreUnavailable: it outlasts the rules (ENG-37).
        """
        rules = policy or self._policy
        in_time = None if may_take_long else rules.max_elapsed_s
        found = await retrying(fn, rules, classify=self._classify, what=what, attempt_timeout_s=in_time)
        return found[0]

    def outage(self, what: str) -> Outage:
        """Return what rides out the outages of one long subscription."""
        return Outage(self._policy, self._classify, what)

    async def ready(self, event: Event, run: RunFold, policy: RetryPolicy | None = None) -> Event:
        """Return the event as it will be stored: valid, of its run, redacted, its payload claimed.

        Raises:
            SchemaError: it does not fit its schema; nothing is stored (ENG-32).
            TenantMismatch: it claims another tenant than its run's (DEC-06).
        """
        event = checked_spend(self._schemas.validate(event))
        event = of_run(event, run)
        if self._redactor is not None:
            event = self._redactor.redact(event)
        blobs = self.blobs
        if blobs is None:
            return event
        threshold = self._claim_threshold
        return await self.retry(lambda: claim(event, blobs, threshold), "storing a payload", policy)

    async def append(
        self, event: Event, expected_seq: int = ANY_SEQ, policy: RetryPolicy | None = None
    ) -> tuple[Event, bool]:
        """Store one event; return it and whether an earlier attempt may have stored it unseen (ENG-33).

        Raises:
            StoreUnavailable: an outage outlasted the rules, or the engine was aborted (ENG-05).
        """
        stored, retried = await self.append_all([event], expected_seq, policy)
        return stored[0], retried

    async def append_all(
        self, events: Sequence[Event], expected_seq: int = ANY_SEQ, policy: RetryPolicy | None = None
    ) -> tuple[list[Event], bool]:
        """Store events of one stream, all or none; see `append`.

        Raises:
            StoreUnavailable: as `append`.
        """
        if self.closed:
            raise StoreUnavailable("this engine was aborted; nothing was recorded")
        stream = events[0].stream
        stored, failures = await retrying(
            lambda: self.store.append(stream, events, expected_seq),
            policy or self._policy,
            classify=self._classify,
            what=f"appending to {stream}",
            attempt_timeout_s=(policy or self._policy).max_elapsed_s,
        )
        return stored, failures > 0

    async def read(self, stream: str, from_seq: int = 0, limit: int | None = None) -> list[Event]:
        """Return stored events of a stream."""
        return await self.retry(lambda: self.store.read(stream, from_seq, limit), f"reading {stream}", None)

    async def hydrate(self, event: Event) -> Event:
        """Return the event with a claimed payload restored; any other event as it is (ENG-38)."""
        blobs = self.blobs
        if blobs is None or not event.blobs:
            return event
        return await self.retry(lambda: hydrate(event, blobs), "reading a payload", None)

    async def hydrated(self, events: Sequence[Event]) -> list[Event]:
        """Return events with their payloads restored."""
        return [await self.hydrate(event) for event in events]


def of_run(event: Event, run: RunFold) -> Event:
    """Stamp tenant, meta and run id; a run's own win over what an algorithm or model wrote (ENG-13, ENG-16, ENG-35).

    Raises:
        TenantMismatch: it names another tenant than the run's (DEC-06).
    """
    if run.algo is None:
        return event
    if event.tenant is not None and event.tenant != run.tenant:
        raise TenantMismatch(f"an event for run {run.run_id} names another tenant than the run's")
    changes: dict[str, Any] = {}
    if event.tenant != run.tenant:
        changes["tenant"] = run.tenant
    if event.run_id != run.run_id:
        changes["run_id"] = run.run_id
    if run.meta and event.meta != run.meta:
        changes["meta"] = {**event.meta, **run.meta}
    return event.with_(**changes) if changes else event
