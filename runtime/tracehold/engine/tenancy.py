"""The engine as one tenant sees it (TEN)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from tracehold.core.outcome import Outcome
from tracehold.core.run_context import new_run_id
from tracehold.engine.algorithm import Algorithm
from tracehold.engine.budget import Budget
from tracehold.engine.erasure import ErasureReport
from tracehold.engine.handle import RunHandle
from tracehold.engine.memory import MemoryReport, MemoryScope
from tracehold.engine.ports import EngineOps
from tracehold.engine.retention import PurgeReport, erase_all, purge
from tracehold.engine.run_ids import NoRunError
from tracehold.events.store import RunInfo

SEPARATOR: Final = "/"


_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""What no event and no store can hold in an id."""


def valid_tenant(tenant: str) -> str:
    """Return a tenant's name if it is one (TEN-02).

    Raises:
        ValueError: it is empty, holds a `/`, a control character or a lone surrogate, or has blanks around it.
    """
    if (
        not isinstance(tenant, str)
        or not tenant
        or SEPARATOR in tenant
        or tenant.strip() != tenant
        or _UNFIT.search(tenant)
    ):
        raise ValueError(
            f"a tenant's name is a text without {SEPARATOR!r}, control characters and blanks around it, not {tenant!r}"
        )
    return tenant


class TenantScope:
    """An engine bound to one tenant: namespaced run ids, nothing of anybody else (TEN-15).

    Args:
        engine: the engine.
        tenant: the tenant.

    Raises:
        ValueError: a malformed name.
    """

    def __init__(self, engine: EngineOps, tenant: str) -> None:
        self.engine = engine
        self.tenant = valid_tenant(tenant)

    def run_id(self, run_id: str) -> str:
        """Return the stream id of one of this tenant's own ids; twice changes nothing (TEN-03).

        Raises:
            TypeError: no text.
        """
        if not isinstance(run_id, str):
            raise TypeError(f"a run id is a text, not {type(run_id).__name__}")
        prefix = self.tenant + SEPARATOR
        return run_id if run_id.startswith(prefix) else prefix + run_id

    async def start(
        self,
        algo: Algorithm,
        input: dict[str, Any],  # noqa: A002 - documented
        *,
        run_id: str | None = None,
        budget: Budget | None = None,
        user: str | None = None,
        **kw: Any,
    ) -> RunHandle:
        """Start a run of this tenant (TEN-06).

        Args:
            algo: reacts to its events.
            input: JSON.
            run_id: an own id.
            budget: default the engine's.
            user: whom it is about; goes into the run's meta.
            kw: further arguments of `Engine.start`; a tenant is not one of them.

        Raises:
            KeyError: the parent, or an existing run of that id, is not this tenant's (TEN-07).
            TypeError: a tenant among `kw`.
        """
        if "tenant" in kw:
            raise TypeError("a TenantScope starts runs of its own tenant only: leave tenant out")
        own = self.run_id(run_id if run_id is not None else new_run_id())
        parent = kw.pop("parent", None)
        if parent is not None:
            parent = await self._own(parent)
        existing = await self.engine.fold_of(own)
        if existing.algo is not None and existing.tenant != self.tenant:
            raise NoRunError(run_id)  # TEN-07
        if user is not None:
            kw["meta"] = {**(kw.get("meta") or {}), "user": user}
        return await self.engine.start(algo, input, run_id=own, budget=budget, parent=parent, tenant=self.tenant, **kw)

    async def run(self, algo: Algorithm, input: dict[str, Any], **kw: Any) -> Outcome[Any]:  # noqa: A002 - documented
        """Start a run of this tenant and return its outcome."""
        return await (await self.start(algo, input, **kw)).result()

    async def handle(self, run_id: str) -> RunHandle:
        """Return a handle to one of this tenant's runs.

        Raises:
            KeyError: there is none, or it is somebody else's; nobody can tell which (TEN-05).
        """
        return self.engine.handle(await self._own(run_id))

    async def runs(self, *, open_only: bool = False) -> list[RunInfo]:
        """Return this tenant's runs (TEN-08)."""
        index: list[RunInfo] = await self.engine.retry(self.engine.store.run_index, "listing runs")
        own = [info for info in index if info.started.tenant == self.tenant]
        return [info for info in own if info.completed is None] if open_only else own

    async def erase(self, run_id: str, **kw: Any) -> ErasureReport:
        """Erase one of this tenant's runs; a foreign one is a `KeyError` (TEN-09)."""
        report: ErasureReport = await self.engine.erase(await self._own(run_id), **kw)
        return report

    async def purge(self, *, older_than: timedelta, **kw: Any) -> PurgeReport:
        """Erase this tenant's finished runs beyond an age, never another tenant's (TEN-10)."""
        if "tenant" in kw:
            raise TypeError("a TenantScope purges its own tenant only: leave tenant out")
        return await purge(self.engine, older_than=older_than, tenant=self.tenant, **kw)

    async def erase_all(self, *, memory: bool = True, **kw: Any) -> PurgeReport:
        """Erase every finished run of the tenant, and unless told not to its memories (TEN-11, TEN-12)."""
        report = await erase_all(self.engine, self.tenant, **kw)
        if memory:
            report.memory = await self.forget_memory()
        return report

    async def forget_memory(self, *, user: str | None = None, agent: str | None = None) -> MemoryReport:
        """Ask every backend to forget the tenant, or one of its users or agents (TEN-13)."""
        report: MemoryReport = await self.engine.forget_memory(MemoryScope(tenant=self.tenant, user=user, agent=agent))
        return report

    async def _own(self, run_id: str) -> str:
        """Return the stream of one of this tenant's runs: its own id, or the full one of a run or child of its own.

        Raises:
            KeyError: there is none, or it is somebody else's (TEN-05).
        """
        for candidate in dict.fromkeys((self.run_id(run_id), run_id)):
            if candidate and not _UNFIT.search(candidate):
                fold = await self.engine.fold_of(candidate)
                if fold.algo is not None and fold.tenant == self.tenant:
                    return candidate
        raise NoRunError(run_id)
