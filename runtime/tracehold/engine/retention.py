"""Erasing finished runs by age, by tenant, by policy (RET)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tracehold.engine.erasure import ErasureReport
from tracehold.engine.event_types import RUN_ERASED
from tracehold.engine.memory import MemoryReport
from tracehold.engine.ports import EngineOps
from tracehold.events.store import RunInfo

_log = logging.getLogger(__name__)
_NO_AGE: Final = timedelta(0)


@dataclass(frozen=True)
class RetentionPolicy:
    """Erase finished runs older than an age (RET-01).

    Attributes:
        older_than: counted from completion (RET-03).
        delete: remove them instead of scrubbing (RET-04).
        tenant: whose runs; `None` is everybody's, untenanted ones included.
        interval_s: seconds between evaluations, at least (RET-06).
    """

    older_than: timedelta
    delete: bool = False
    tenant: str | None = None
    interval_s: float = 3600.0

    def matches(self, tenant: str | None) -> bool:
        """Whether this policy is about a run of `tenant`."""
        return self.tenant is None or self.tenant == tenant


@dataclass
class PurgeReport:
    """What a purge did (RET-10).

    Attributes:
        erased: a report a run.
        skipped_open: open runs passed over.
        memory: what memory backends forgot, when asked.
        failed: runs that could not be erased, with the error's class; the next pass tries again (RET-11).
    """

    erased: list[ErasureReport] = field(default_factory=list)
    skipped_open: int = 0
    memory: MemoryReport | None = None
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def streams(self) -> list[str]:
        """The ids of the runs erased."""
        return [report.stream for report in self.erased]


async def purge(
    engine: EngineOps,
    *,
    older_than: timedelta,
    tenant: str | None = None,
    delete: bool = False,
    reason: str = "retention",
) -> PurgeReport:
    """Erase the finished runs beyond an age, of one tenant or of all; open ones are counted (RET-05, RET-09)."""
    policy = RetentionPolicy(older_than, delete, tenant)
    report = PurgeReport()
    for info in await _index(engine):
        if policy.matches(info.started.tenant):
            await _apply(engine, info, policy, reason, report)
    return report


async def erase_all(engine: EngineOps, tenant: str, *, delete: bool = False, reason: str = "erasure") -> PurgeReport:
    """Erase every finished run of a tenant, whatever its age (TEN-11)."""
    return await purge(engine, older_than=_NO_AGE, tenant=tenant, delete=delete, reason=reason)


class RetentionClock:
    """When each policy was last evaluated to its end (RET-06, RET-11)."""

    def __init__(self) -> None:
        self._done_at: dict[int, float] = {}

    def due(self, position: int, policy: RetentionPolicy) -> bool:
        """Whether the policy at a position may be evaluated now."""
        last = self._done_at.get(position)
        return last is None or time.monotonic() - last >= policy.interval_s

    def done(self, position: int) -> None:
        """Note that a pass over a policy came to its end without a failure."""
        self._done_at[position] = time.monotonic()


async def apply_retention(engine: EngineOps, policies: Sequence[RetentionPolicy], clock: RetentionClock) -> PurgeReport:
    """Evaluate the policies that are due; the first that fits a run's tenant decides alone (RET-02)."""
    report = PurgeReport()
    due = [clock.due(position, policy) for position, policy in enumerate(policies)]
    if not any(due):
        return report
    failed: set[int] = set()
    for info in await _index(engine):
        position = next((at for at, policy in enumerate(policies) if policy.matches(info.started.tenant)), None)
        if position is None or not due[position]:
            continue
        before = len(report.failed)
        await _apply(engine, info, policies[position], "retention", report)
        if len(report.failed) > before:
            failed.add(position)
    for position, was_due in enumerate(due):
        if was_due and position not in failed:
            clock.done(position)
    return report


async def _apply(engine: EngineOps, info: RunInfo, policy: RetentionPolicy, reason: str, report: PurgeReport) -> None:
    if info.completed is None:
        report.skipped_open += 1
        return
    if datetime.now(UTC) - info.completed.time <= policy.older_than and policy.older_than > _NO_AGE:
        return  # RET-03
    try:
        if not policy.delete and await _is_clean(engine, info.stream):
            return  # RET-08
        report.erased.append(await engine.erase(info.stream, delete=policy.delete, reason=reason))
    except Exception as error:  # noqa: BLE001 - one run must not stop the others (RET-11)
        _log.warning("run %s could not be erased: %s", info.stream, type(error).__name__)
        report.failed[info.stream] = type(error).__name__


async def _is_clean(engine: EngineOps, run_id: str) -> bool:
    """Whether a run was scrubbed and nothing came after (RET-12)."""
    events = await engine.stored(run_id)
    return bool(events) and events[-1].type == RUN_ERASED


async def _index(engine: EngineOps) -> list[RunInfo]:
    index: list[RunInfo] = await engine.retry(engine.store.run_index, "listing runs")
    return index
