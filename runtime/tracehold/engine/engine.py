"""The engine: owns store, bus and schemas; everything is in the log before it is delivered (ENG)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, Self, TypeVar

from tracehold.core.errors import StoreUnavailable, TenantMismatch
from tracehold.core.outcome import Outcome, OutcomeKind
from tracehold.core.retry import RetryPolicy
from tracehold.core.run_context import new_run_id
from tracehold.engine.algorithm import Algorithm
from tracehold.engine.appending import Appender, owed
from tracehold.engine.background import Background
from tracehold.engine.budget import Budget
from tracehold.engine.checks import check_budget, check_engine, check_input
from tracehold.engine.consequences import HAS_CONSEQUENCES, Consequences, engine_event, stop_deadline
from tracehold.engine.copies import Leftovers
from tracehold.engine.delivery import Delivery
from tracehold.engine.erasure import ErasureReport, erase_run
from tracehold.engine.event_types import RUN_CANCEL, RUN_COMPLETED, RUN_STARTED, completed_id, started_id
from tracehold.engine.handle import RunHandle
from tracehold.engine.log import Log, Redacting
from tracehold.engine.memory import MemoryReport, forget_memory
from tracehold.engine.reactions import belong_together
from tracehold.engine.reading import Reading
from tracehold.engine.recovery import RecoveryReport, recover, sweep
from tracehold.engine.retention import PurgeReport, RetentionClock, RetentionPolicy, apply_retention, purge
from tracehold.engine.run_ids import NoRunError
from tracehold.engine.runs import ActiveRun, Runs
from tracehold.engine.tenancy import TenantScope, valid_tenant
from tracehold.events.blobs import BlobStore
from tracehold.events.bus import EventBus, Handler
from tracehold.events.event import Event, MetaValue
from tracehold.events.in_process_bus import InProcessBus
from tracehold.events.memory_store import InMemoryEventStore
from tracehold.events.schemas import SchemaRegistry
from tracehold.events.store import EventStore
from tracehold.events.subscription import unhindered

Result = TypeVar("Result")
State = TypeVar("State")

_log = logging.getLogger(__name__)


class Engine(Reading):
    """Starts runs, hands their events to algorithms, and holds them to budget, tenant and log.

    Per-run state is a cache of a fold of the log (ENG-04): an engine that never saw a run adopts it. Use it as an async
    context manager (ENG-02).

    Args:
        store: the log; default in memory.
        bus: carries stored events to handlers; default in process.
        schemas: payload schemas; default none.
        default_budget: of runs without one of their own; default unlimited.
        blobs: where large payloads go; default none, they stay in the log.
        claim_threshold: bytes of JSON beyond which a payload is large.
        sweep_interval_s: seconds between passes of `sweep`; default never.
        store_retry: how outages are ridden out; default `RetryPolicy()`.
        is_transient: which errors are an outage; default `core.retry.is_transient`.
        redactor: applied before anything is stored; default none.
        require_tenant: refuse runs without a tenant.
        retention: policies, in order; applied by `sweep`.
        memory: backends that `forget_memory` asks.

    Raises:
        TypeError, ValueError: an argument cannot be meant; says what to give instead.
    """

    def __init__(
        self,
        store: EventStore | None = None,
        bus: EventBus | None = None,
        schemas: SchemaRegistry | None = None,
        default_budget: Budget | None = None,
        blobs: BlobStore | None = None,
        claim_threshold: int = 16384,
        sweep_interval_s: float | None = None,
        store_retry: RetryPolicy | None = None,
        is_transient: Callable[[BaseException], bool] | None = None,
        redactor: Redacting | None = None,
        require_tenant: bool = False,
        retention: Sequence[RetentionPolicy] = (),
        memory: Sequence[Any] = (),
    ) -> None:
        check_engine(
            store=store,
            bus=bus,
            blobs=blobs,
            redactor=redactor,
            default_budget=default_budget,
            sweep_interval_s=sweep_interval_s,
            retention=retention,
        )
        self.store = store if store is not None else InMemoryEventStore()
        self.bus = bus if bus is not None else InProcessBus()
        self.default_budget = default_budget or Budget()
        self.blobs = blobs
        self.sweep_interval_s = sweep_interval_s
        self.require_tenant = require_tenant
        self.retention = tuple(retention)
        self.memory = tuple(memory)
        self.crashed = False
        self.last_recovery: RecoveryReport | None = None
        # Hear of what is stored and not delivered: the marker of an erasure.
        self.observers: list[Callable[[Event], None]] = []
        self.log = Log(
            self.store,
            schemas=schemas if schemas is not None else SchemaRegistry(),
            redactor=redactor,
            blobs=blobs,
            claim_threshold=claim_threshold,
            policy=store_retry or RetryPolicy(),
            classify=is_transient,
        )
        self._background = Background()
        self._entered = 0
        self._left = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.runs = Runs(self.log.read)
        self._appender = Appender(self.log, self.runs, self.bus, self._background)
        self._consequences = Consequences(self)
        self._delivery = Delivery(self, self.bus)
        self._retention_clock = RetentionClock()
        self.leftovers = Leftovers()

    # -- life cycle ------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start the bus, and the sweeper when an interval is set (ENG-02); also again, and in another event loop.

        Raises:
            RuntimeError: it was aborted.
        """
        if self.crashed:
            raise RuntimeError("this engine was aborted: make a new one on the same store, and let it recover()")
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self.runs.clear()  # ENG-04: the log has them all
        await self.bus.__aenter__()
        self._entered += 1
        self._left = self._background.closing = False
        for run in self.runs.open_runs():
            self.arm_deadline(run)
        if self._entered == 1 and self.sweep_interval_s is not None:
            self.spawn(self._sweep_for_ever(self.sweep_interval_s))
        return self

    async def __aexit__(self, *error: object) -> None:
        """Drain the bus, reactions that emit included; end timers and tracked tasks (ENG-02)."""
        self._entered = max(0, self._entered - 1)
        if self.crashed:
            return
        if self._entered:
            await self.bus.__aexit__(*error)
            return
        self._background.closing = True
        try:
            await self._background.settle()
            await self.bus.__aexit__(*error)
        finally:
            await self._stop()
            self._left = True

    async def abort(self) -> None:
        """Stop at once, as a crash would: nothing is drained or completed, nothing more is stored (ENG-05)."""
        self.crashed = self.log.closed = True
        self._background.crashed = self._background.closing = True
        await self._stop()
        await self.bus.abort()

    def spawn(self, coro: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run background work, tracked and ended at shutdown (ENG-06)."""
        return self._background.spawn(coro)

    async def _stop(self) -> None:
        for run in self.runs.open_runs():
            stop_deadline(run)
        await self._background.stop()

    def _require_open(self) -> None:
        if self._left:
            raise RuntimeError("this engine is closed: start runs and send events inside its `async with` block")

    # -- starting --------------------------------------------------------------------------------------------------

    async def start(
        self,
        algo: Algorithm,
        input: dict[str, Any],  # noqa: A002 - documented
        *,
        budget: Budget | None = None,
        run_id: str | None = None,
        parent: str | None = None,
        tag: str | None = None,
        tenant: str | None = None,
        meta: dict[str, MetaValue] | None = None,
    ) -> RunHandle:
        """Start a run and return a handle without waiting for its result (ENG-07 to ENG-17).

        Starting an id that exists starts nothing new (ENG-08).

        Args:
            algo: reacts to its events; registered if it was not.
            input: JSON.
            budget: default the engine's.
            run_id: default a fresh one.
            parent: the run it belongs to; it spends of the parent's budget and ends with it.
            tag: how the parent knows it.
            tenant: stamped on every event; default the parent's.
            meta: trusted application data, stamped on every event; default the parent's.

        Raises:
            RuntimeError: the engine's `async with` block has ended; nobody would deliver the run's events.
            TypeError: an input or budget of another kind.
            ValueError: a malformed tenant, or none where one is required; nothing is recorded.
            TenantMismatch: the parent's, or that of the existing run, is another.
            KeyError: nobody started the parent.
            StoreUnavailable: nothing is recorded; start again with the same id.
        """
        self._require_open()
        check_budget("budget", budget)
        check_input(input)
        mother = await self._parent(parent)
        if tenant is None and mother is not None:
            tenant = mother.fold.tenant
        if tenant is not None:
            valid_tenant(tenant)
        if self.require_tenant and tenant is None:
            raise ValueError("this engine requires a tenant: start(..., tenant=...), or use engine.tenant(name)")
        if mother is not None and mother.fold.tenant != tenant:
            raise TenantMismatch(f"run {parent} belongs to another tenant than the child it is to have")
        if meta is None:
            meta = dict(mother.fold.meta) if mother is not None else {}
        reaction = self._delivery.register(algo)
        run = await self._as_it_is(run_id) if run_id is not None else self.runs.begin(new_run_id())
        data = {
            "algo": algo.name,
            "input": input,
            "parent": parent,
            "run_tag": tag,
            "budget": (budget or self.default_budget).model_dump(),
        }
        own = run.fold.run_id
        event = Event(
            id=started_id(own),
            type=RUN_STARTED,
            source=algo.name,
            stream=own,
            run_id=own,
            tenant=tenant,
            data=data,
            meta=meta,
        )

        async def begin() -> None:
            await self._appender.append_start(run, event)
            if run.fold.tenant != tenant:
                raise TenantMismatch(f"run {own} exists and belongs to another tenant")
            if run.fold.algo != algo.name:
                _log.warning("run %s exists, with another algorithm (%s): it goes on as it was", own, run.fold.algo)
            elif run.reaction is None:
                run.reaction = reaction
            self.arm_deadline(run)
            if mother is not None:
                await self._tell(mother, run)
            await self.publish(run)

        await self._background.see_through(begin, lambda: run.fold.algo is not None or event.id in run.unsure)
        return self.handle(own)

    async def run(self, algo: Algorithm, input: dict[str, Any], **kw: Any) -> Outcome[Any]:  # noqa: A002 - documented
        """Start a run and return its outcome (ENG-18)."""
        return await (await self.start(algo, input, **kw)).result()

    def handle(self, run_id: str) -> RunHandle:
        """Return a handle for any id, without a check (ENG-19)."""
        return RunHandle(self, run_id)

    async def _tell(self, mother: ActiveRun, run: ActiveRun) -> None:
        """Tell a parent of its child. The child is started whether or not that works: the next sweep tells again."""
        try:
            await self._consequences.announce_start(mother, run)
        except StoreUnavailable:
            _log.warning("run %s has a child, %s, but could not be told of it", mother.fold.run_id, run.fold.run_id)

    async def _parent(self, parent: str | None) -> ActiveRun | None:
        if parent is None:
            return None
        mother = await self.runs.get(parent)
        if mother.fold.algo is None:
            raise NoRunError(parent)
        return mother

    async def _as_it_is(self, run_id: str) -> ActiveRun:
        """Return a run; one that has ended here may have been deleted elsewhere since, and be another one now."""
        run = await self.runs.get(run_id)
        if run.fold.completed is not None and not run.busy and not await self.knows(run_id):
            self.runs.forget(run_id)
            run = await self.runs.get(run_id)
        return run

    # -- emitting --------------------------------------------------------------------------------------------------

    async def emit(self, event: Event, *, retry: RetryPolicy | None = None) -> Event | None:
        """Validate, redact, claim-check, append, account, deliver; return the stored event (ENG-29 to ENG-36).

        Returns:
            The stored event; one whose id existed comes back with `dup` set and is not delivered again. `None` for a
            second terminal event of a run, which is dropped.

        Raises:
            RuntimeError: the engine's `async with` block has ended.
            SchemaError: it does not fit its schema; nothing is stored.
            TenantMismatch: it names another tenant than its run's.
            StoreUnavailable: an outage outlasted the rules; nothing is recorded.
        """
        self._require_open()
        run = await self.runs.get(event.stream)
        if run.fold.completed is not None:
            run = await self._as_it_is(event.stream)
        ready = await self.log.ready(event, run.fold, retry)
        stored: Event | None = None
        appended = False

        async def go() -> Event | None:
            nonlocal stored, appended
            if not appended:
                append = self._appender.append_completion if ready.type == RUN_COMPLETED else self._appender.append
                stored = await append(run, ready, retry)
                appended = True
            try:
                if stored is not None and stored.type in HAS_CONSEQUENCES:
                    # Of a repeated event too: an outage may have come between the event and what follows from it.
                    await self._consequences.of(run, stored)
            finally:
                # Last: it may have to wait for room, and a limit must hold meanwhile. Who cancels does not wait at all.
                if ready.type == RUN_CANCEL:
                    with unhindered():
                        await self.publish(run)
                else:
                    await self.publish(run)
            return stored

        return await self._background.see_through(go, lambda: appended or ready.id in run.unsure)

    async def emit_together(self, run: ActiveRun, events: Sequence[Event]) -> Sequence[Event]:
        """Do what `emit` does for the events of one reaction in one append; return those left to `emit` (ENG-03).

        Raises:
            SchemaError, TenantMismatch: one of them; nothing is stored.
            StoreUnavailable: an outage outlasted the rules; nothing is recorded.
        """
        if not belong_together(events, run.fold.run_id):
            return events
        ready = [await self.log.ready(event, run.fold) for event in events]
        stored: list[Event] | None = None

        async def go() -> None:
            nonlocal stored
            if stored is None:
                stored = await self._appender.append_together(run, ready)
            try:
                for event in stored:
                    await self._consequences.of(run, event)
            finally:
                await self.publish(run)

        await self._background.see_through(
            go, lambda: stored is not None or any(event.id in run.unsure for event in ready)
        )
        return events[len(stored or ()) :]

    async def publish(self, run: ActiveRun) -> None:
        """Deliver what waits in a run's outbox, and draw the consequences that are owed."""
        if run.owed:
            for event in owed(run):
                await self._consequences.of(run, event)
        await self._appender.publish(run)

    # -- ending ----------------------------------------------------------------------------------------------------

    async def complete(self, run_id: str, kind: OutcomeKind, value: Any = None, reason: str | None = None) -> None:
        """End a run; one that has ended stays as it ended (ENG-41)."""
        run = await self.runs.get(run_id)
        if run.fold.algo is None:
            raise NoRunError(run_id)
        data = {"kind": str(OutcomeKind(kind)), "value": value, "reason": reason}
        await self.emit(engine_event(run.fold, completed_id(run_id), RUN_COMPLETED, data, source="aaa"))

    def arm_deadline(self, run: ActiveRun) -> None:
        """Set the timer of a run's deadline."""
        self._consequences.arm_deadline(run)

    async def expire(self, run_id: str) -> None:
        """End a run whose deadline has passed."""
        await self._consequences.expire(run_id)

    # -- handlers --------------------------------------------------------------------------------------------------

    def subscribe(self, pattern: str, handler: Handler, *, group: str | None = None, **kw: Any) -> None:
        """Subscribe a handler; events it returns are persisted and published (ENG-23 to ENG-28)."""
        self._delivery.subscribe(pattern, handler, group=group, **kw)

    def register(self, algo: Algorithm) -> None:
        """Subscribe an algorithm to the events of its own runs; again changes nothing (ENG-20, ENG-21)."""
        self._delivery.register(algo)

    # -- sweeping by itself -----------------------------------------------------------------------------------------

    async def _sweep_for_ever(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self.sweep()
            except Exception as error:  # noqa: BLE001 - a failing pass does not end the loop (RCV-08)
                _log.warning("a sweep failed with %s; the next one comes in %g s", type(error).__name__, interval_s)

    # -- what stands in modules of its own -------------------------------------------------------------------------

    def tenant(self, name: str) -> TenantScope:
        """Return this engine as one tenant sees it (ENG-47).

        Raises:
            ValueError: a malformed name.
        """
        return TenantScope(self, name)

    async def recover(self, algos: list[Algorithm]) -> dict[str, RunHandle]:
        """Continue every open run whose algorithm is given, and return their handles (RCV-01)."""
        return await recover(self, algos)

    async def sweep(self) -> RecoveryReport:
        """End what is overdue or orphaned, repeat what was not heard; idempotent, safe from any process (RCV-06)."""
        return await sweep(self)

    async def erase(
        self, run_id: str, *, delete: bool = False, reason: str = "erasure", force: bool = False
    ) -> ErasureReport:
        """Erase a finished run: scrub its payloads, or with `delete` remove it (ERA)."""
        return await erase_run(self, run_id, delete=delete, reason=reason, force=force)

    async def purge(
        self, *, older_than: timedelta, tenant: str | None = None, delete: bool = False, reason: str = "retention"
    ) -> PurgeReport:
        """Erase every finished run, of one tenant or all, that completed longer ago (RET-09)."""
        return await purge(self, older_than=older_than, tenant=tenant, delete=delete, reason=reason)

    async def apply_retention(self) -> PurgeReport:
        """Evaluate the retention policies now, each at most once an interval (RET-06)."""
        return await apply_retention(self, self.retention, self._retention_clock)

    async def forget_memory(self, scope: Any) -> MemoryReport:
        """Ask every registered backend to forget a scope (MEM-03)."""
        return await forget_memory(self.memory, scope)
