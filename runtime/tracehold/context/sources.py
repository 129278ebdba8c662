"""Where retrieved material comes from (CTX-11, CTX-12)."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from tracehold.core.scope import Scope
from tracehold.retrieval.types import RetrievalResult

Fetched: TypeAlias = Iterable[RetrievalResult]
Fetch: TypeAlias = Callable[..., Fetched | Awaitable[Fetched]]
"""`fetch(query)`, or with the scope as CTX-11 says; sync or async."""


class ContextSource(ABC):
    """Finds material for a query; `name` is what its share is configured under and its heading in the block.

    An implementation MUST honour `scope` where its data belongs to somebody, and MUST NOT answer from other people's
    data when the scope is `None` or unset. Results are read in any order; higher scores are better.
    """

    name: str

    @abstractmethod
    def fetch(self, query: str, scope: Scope | None = None) -> list[RetrievalResult]:
        """Return what was found; may block."""

    async def afetch(self, query: str, scope: Scope | None = None) -> list[RetrievalResult]:
        """Return what was found without blocking; default `fetch` on a worker thread."""
        return await asyncio.to_thread(self.fetch, query, scope)


class CallableSource(ContextSource):
    """A function as a source.

        CallableSource("memory", lambda query, scope: memory.search(query, scope=scope))

    Args:
        name: its name in `ContextConfig.source_ratios`.
        fetch: sync or async; returns `RetrievalResult`s, or `None` for nothing.
        pass_scope: `None`: a parameter named `scope` gets the scope, and so does the second of exactly two positional
            parameters, whatever its name. `True`: by keyword. `False`: never (CTX-11).

    Raises:
        TypeError: `fetch` cannot be called.
    """

    def __init__(self, name: str, fetch: Fetch, *, pass_scope: bool | None = None) -> None:
        if not callable(fetch):
            raise TypeError(f"the source {name!r} needs a function to fetch with, not {type(fetch).__name__}")
        self.name = name
        self._fetch = fetch
        self._is_async = inspect.iscoroutinefunction(fetch) or inspect.iscoroutinefunction(
            getattr(type(fetch), "__call__", None)  # noqa: B004 - asks whether that method is async, not whether it is
        )
        self._scope_as = _place_of_scope(fetch, pass_scope)

    def fetch(self, query: str, scope: Scope | None = None) -> list[RetrievalResult]:
        """Return what the function found.

        Raises:
            TypeError: the function is async, or returned something to be awaited (CTX-12).
        """
        if self._is_async:
            raise self._needs_awaiting()
        found = self._call(query, scope)
        if inspect.isawaitable(found):
            if inspect.iscoroutine(found):
                found.close()  # else Python warns of a coroutine that nobody awaited
            raise self._needs_awaiting()
        return self._listed(found)

    async def afetch(self, query: str, scope: Scope | None = None) -> list[RetrievalResult]:
        """Return what the function found; a sync one runs on a worker thread, an async one is awaited (CTX-12)."""
        found = self._call(query, scope) if self._is_async else await asyncio.to_thread(self._call, query, scope)
        return self._listed(await found if inspect.isawaitable(found) else found)

    def _call(self, query: str, scope: Scope | None) -> Any:
        if self._scope_as == _BY_KEYWORD:
            return self._fetch(query, scope=scope)
        if self._scope_as == _BY_POSITION:
            return self._fetch(query, scope)
        return self._fetch(query)

    def _listed(self, found: Any) -> list[RetrievalResult]:
        if found is None:
            return []
        if isinstance(found, str | bytes) or not isinstance(found, Iterable):
            raise TypeError(f"the source {self.name!r} must return RetrievalResults, not {type(found).__name__}")
        return list(found)

    def _needs_awaiting(self) -> TypeError:
        return TypeError(
            f"the source {self.name!r} is async and this entry point is not: use afetch (acontext_block, aassemble), "
            "or give it a sync function"
        )


_BY_KEYWORD: Final = "keyword"
_BY_POSITION: Final = "position"


def _place_of_scope(fetch: Fetch, pass_scope: bool | None) -> str | None:
    if pass_scope is not None:
        return _BY_KEYWORD if pass_scope else None
    try:
        parameters = inspect.signature(fetch).parameters
    except (TypeError, ValueError):  # some built-in functions tell nothing
        return None
    positional = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    named = parameters.get("scope")
    # A parameter called scope is meant for it wherever it stands: to leave it unset would search everybody's data.
    if named is not None and named.kind in {named.POSITIONAL_OR_KEYWORD, named.KEYWORD_ONLY}:
        return _BY_POSITION if positional[1:] == ["scope"] else _BY_KEYWORD
    return _BY_POSITION if len(positional) == 2 else None  # noqa: PLR2004 - query and scope (CTX-11)
