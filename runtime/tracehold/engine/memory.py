"""Asking memory backends to forget (MEM)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Whose memories: a tenant's, or those of one user, agent, session or namespace of it (MEM-01).

    Document B calls it `Scope`; here that name is document A's (DEC-16).
    """

    tenant: str | None = None
    user: str | None = None
    agent: str | None = None
    session: str | None = None
    namespace: tuple[str, ...] = ()

    def contains(self, other: MemoryScope) -> bool:
        """Whether `other` lies within: the same tenant, and every user or agent set here matches."""
        return self.tenant == other.tenant and all(
            mine is None or mine == theirs for mine, theirs in ((self.user, other.user), (self.agent, other.agent))
        )


@runtime_checkable
class Forgettable(Protocol):
    """A backend that can forget (MEM-02)."""

    async def forget(self, scope: MemoryScope) -> int:
        """Remove everything in `scope`; return how much."""


@dataclass
class MemoryReport:
    """What backends forgot (MEM-04).

    Attributes:
        forgotten: count by backend class.
        unsupported: classes that cannot forget.
        failed: classes that raised, with the error's class; ask again.
    """

    forgotten: dict[str, int] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict, kw_only=True)


async def forget_memory(backends: Sequence[Any], scope: MemoryScope) -> MemoryReport:
    """Ask every backend that can; list those that cannot (MEM-03). One that fails does not stop the others."""
    report = MemoryReport()
    for backend in backends:
        name = type(backend).__name__
        forget = getattr(backend, "forget", None)
        if not callable(forget):
            if name not in report.unsupported:
                report.unsupported.append(name)
            continue
        try:
            report.forgotten[name] = report.forgotten.get(name, 0) + await forget(scope)
        except Exception as error:  # noqa: BLE001 - reported, and the others still asked
            report.failed[name] = type(error).__name__
    return report
