"""What keeps an index in step with the source it is derived from: the interface (IDX-01)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from tracehold.core.scope import Scope


class IndexItem(NamedTuple):
    """One entry of the source."""

    id: str
    content: str
    metadata: dict[str, Any] | None = None


class EventSink(Protocol):
    """What `SyncIndexSync` tells events to, such as a `Tracer`."""

    def emit(self, event: Mapping[str, Any]) -> None:
        """Record one event."""


class IndexSync(ABC):
    """Feeds an index. Every method works on one exact scope, unset dimensions included, except where it says else.

    What any implementation MUST keep to: a failing backend makes `index`, `reconcile` and a `drop` that is not strict
    mark ids as pending instead of raising (IDX-01); an id stays pending until a later call has made the index right.
    Arguments that cannot be used raise `RetrievalError` all the same (IDX-02).
    """

    @abstractmethod
    def index(
        self,
        ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Write entries; unchanged ones are left alone (IDX-02)."""

    @abstractmethod
    def replace(
        self,
        old_ids: Sequence[str],
        new_ids: Sequence[str],
        contents: Sequence[str],
        *,
        scope: Scope | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Delete some entries and write others; raises when the backend fails, the ids are then pending."""

    @abstractmethod
    def drop(self, ids: Sequence[str], *, scope: Scope | None = None, strict: bool = False) -> None:
        """Delete entries; raises only when `strict`."""

    @abstractmethod
    def reconcile(
        self, items: Sequence[IndexItem | tuple[Any, ...]], *, scope: Scope | None = None, batch_size: int = 256
    ) -> int:
        """Make the index of this scope equal to the source; return how many entries were written or deleted."""

    @abstractmethod
    def pending(self, *, scope: Scope | None = None) -> set[str]:
        """Return the ids that have not converged, where the set dimensions of `scope` match; of all without any."""

    def entries(self, *, scope: Scope | None = None) -> dict[Scope, set[str]]:  # noqa: ARG002 - for overriding
        """Return what the index may hold, by exact scope, where the set dimensions of `scope` match."""
        return {}

    def close(self) -> None:  # noqa: B027 - for overriding
        """Release what it holds, but not the index; the base holds nothing."""
