"""Erasing finished runs by age, by tenant, by policy (RET)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from tracehold.engine.copies import Family, finish_erasures
from tracehold.engine.erasure import ErasureReport, erase_run, is_clean
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

    Raises:
        TypeError, ValueError: an argument cannot be meant, such as a negative age.
    """

    older_than: timedelta
    delete: bool = False
    tenant: str | None = None
    interval_s: float = 3600.0

    def __post_init__(self) -> None:
        """Refuse what would erase everything, or nothing at all."""
        if not isinstance(self.older_than, timedelta):
            raise TypeError(
                f"older_than is a timedelta, not {type(self.older_than).__name__}: RetentionPolicy(timedelta(days=30))"
            )
        if self.older_than < _NO_AGE:
            raise ValueError(f"older_than is an age and cannot be negative, as {self.older_than} is")
        if not isinstance(self.interval_s, int | float) or not 0 <= self.interval_s < math.inf:
            raise ValueError(f"interval_s is a number of seconds, at least 0, not {self.interval_s!r}")
        if self.tenant is not None and not isinstance(self.tenant, str):
            raise TypeError(f"tenant is a text or None, not {type(self.tenant).__name__}")

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
    failed: dict[str, str] = field(default_factory=dict, kw_only=True)

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
    await finish_erasures(engine)
    work = _Pass(engine, await _index(engine), reason)
    for info in work.index:
        if policy.matches(info.started.tenant):
            await work.apply(info, policy)
    return work.report


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
    due = [clock.due(position, policy) for position, policy in enumerate(policies)]
    if not any(due):
        return PurgeReport()
    await finish_erasures(engine)
    work = _Pass(engine, await _index(engine), "retention")
    failed: set[int] = set()
    for info in work.index:
        position = next((at for at, policy in enumerate(policies) if policy.matches(info.started.tenant)), None)
        if position is not None and due[position] and not await work.apply(info, policies[position]):
            failed.add(position)
    for position, was_due in enumerate(due):
        if was_due and position not in failed:
            clock.done(position)
    return work.report


class _Pass:
    """One pass over the runs of a store.

    Args:
        engine: the engine.
        index: every run.
        reason: for the markers.
    """

    def __init__(self, engine: EngineOps, index: list[RunInfo], reason: str) -> None:
        self.index = index
        self.report = PurgeReport()
        self._engine = engine
        self._reason = reason
        self._family = Family(index)

    async def apply(self, info: RunInfo, policy: RetentionPolicy) -> bool:
        """Erase a run if it is due; return whether that went well."""
        run_id, report = info.stream, self.report
        if info.completed is None:
            report.skipped_open += 1  # RET-05
            return True
        age = datetime.now(UTC) - info.completed.time
        if age <= policy.older_than and policy.older_than > _NO_AGE:
            return True  # RET-03
        try:
            if not policy.delete and await is_clean(self._engine, info):
                return True  # RET-08
            report.erased.append(
                await erase_run(self._engine, run_id, delete=policy.delete, reason=self._reason, family=self._family)
            )
        except KeyError:
            return True  # another process, or another pass of this one, has deleted it meanwhile
        except Exception as error:  # noqa: BLE001 - one run must not stop the others (RET-11)
            _log.warning("run %s could not be erased: %s", run_id, type(error).__name__)
            report.failed[run_id] = type(error).__name__
            return False
        return True


async def _index(engine: EngineOps) -> list[RunInfo]:
    index: list[RunInfo] = await engine.retry(engine.store.run_index, "listing runs")
    return index
