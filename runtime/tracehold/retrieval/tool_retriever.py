"""Offering a model the tools its task needs, not all there are (TRV)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from tracehold.core.errors import ConfigurationError
from tracehold.core.scope import Scope
from tracehold.retrieval.hybrid import HybridRetriever
from tracehold.retrieval.index_protocol import IndexItem, IndexSync
from tracehold.retrieval.index_sync import SyncIndexSync
from tracehold.retrieval.types import RetrievalResult
from tracehold.tools.base import Tool

OnEmpty: TypeAlias = Literal["all", "resident", "none"]
"""What to offer when nothing was found: the whole catalogue, the resident tools, nothing at all."""

Selector: TypeAlias = Callable[[str, list[RetrievalResult]], Iterable[str]]
"""Chooses among the hits of a query and returns tool names, most wanted first."""

_TOOLS: Final = "tools"
"""The `base` that keeps tools apart from whatever else a shared retriever holds."""


class ToolCatalog(Protocol):
    """What is needed of a `ToolRegistry`."""

    def list_tools(self) -> Sequence[Tool]:
        """Return the registered tools."""

    def get_tools_description(self, names: Sequence[str] | None = None) -> str:
        """Return text that describes these tools."""

    def to_openai_schema(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return the function schemas of these tools."""


class ToolRetriever:
    """Finds the tools for a query by their names, descriptions and parameters (TRV-01).

    Call `index` after registering tools. A tool that was registered later is not found until then; one that was
    unregistered is never offered.

    Args:
        registry: where the tools are registered.
        retriever: finds them; it may be shared, and is not closed.
        scope: where in the retriever they are kept; its `base` is "tools" unless set.
        top_k: how many tools a query finds, resident ones not counted.
        always_include: names that are offered whatever the query: the resident tools.
        on_empty: "all", "resident" or "none".
        selector: chooses among the hits, instead of taking them in order.
        index_sync: keeps the index in step; default a `SyncIndexSync` over the retriever.

    Raises:
        ConfigurationError: another `on_empty`, or a text for `always_include`.
    """

    def __init__(
        self,
        registry: ToolCatalog,
        retriever: HybridRetriever,
        *,
        scope: Scope | None = None,
        top_k: int = 8,
        always_include: Sequence[str] = (),
        on_empty: OnEmpty = "all",
        selector: Selector | None = None,
        index_sync: IndexSync | None = None,
    ) -> None:
        if on_empty not in get_args(OnEmpty):
            raise ConfigurationError(f"on_empty is one of {', '.join(get_args(OnEmpty))}, not {on_empty!r}")
        if isinstance(always_include, str):
            raise ConfigurationError("always_include is a tuple of tool names, not one text")
        given = scope or Scope()
        self._registry = registry
        self._retriever = retriever
        self._scope = given if given.base else given.with_(base=_TOOLS)
        self._top_k = top_k
        self._resident = tuple(always_include)
        self._on_empty = on_empty
        self._selector = selector
        self._index_sync = SyncIndexSync(retriever) if index_sync is None else index_sync

    def index(self) -> None:
        """Make the index equal to the registry; tools that are unchanged are not written again.

        What a failing backend refuses is pending, and found once a later call got it through.
        """
        names = [tool.name for tool in self._registry.list_tools()]
        items = [IndexItem(name, self._registry.get_tools_description([name])) for name in names]
        self._index_sync.reconcile(items, scope=self._scope)

    def retrieve(self, query: str, *, top_k: int | None = None) -> list[str]:
        """Return the names of the tools to offer: resident ones, then hits by relevance (TRV-02).

        Args:
            query: what is to be done, in words.
            top_k: how many hits; default that of the constructor.

        Raises:
            RetrievalError: `top_k` below 1, or a failing backend.
        """
        registered = [tool.name for tool in self._registry.list_tools()]
        resident = [name for name in self._resident if name in registered]
        found = [name for name in self._found(query, top_k) if name in registered]
        if not found:
            return _unique({"all": resident + registered, "resident": resident, "none": []}[self._on_empty])
        return _unique(resident + found)

    def schema_for(self, query: str, *, top_k: int | None = None) -> list[dict[str, Any]]:
        """Return the function schemas of the tools to offer; `[]` for none."""
        names = self.retrieve(query, top_k=top_k)
        return self._registry.to_openai_schema(names) if names else []

    def description_for(self, query: str, *, top_k: int | None = None) -> str:
        """Return text that describes the tools to offer; `""` for none."""
        names = self.retrieve(query, top_k=top_k)
        return self._registry.get_tools_description(names) if names else ""

    def _found(self, query: str, top_k: int | None) -> list[str]:
        wanted = self._top_k if top_k is None else top_k
        pool = max(wanted, self._retriever.config.candidate_pool)
        hits = self._retriever.search(query, top_k=wanted, candidate_pool=pool, scope=self._scope, exact=True)
        if self._selector is not None:
            return list(self._selector(query, hits))
        return [hit.id for hit in hits]


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
