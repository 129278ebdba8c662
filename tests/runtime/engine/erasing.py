"""What the tests of erasure and tenancy share: planted texts, where they still stand, and stores that break."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracehold.engine import Engine
from tracehold.events import Event
from tracehold.events.blobs import FileBlobStore

PLANTED = "planted-zq-8841"
LARGE = 20_000
"""Characters of a payload that is claim-checked."""


def large(text: str = PLANTED) -> str:
    """Return a text that goes to the blob store."""
    return text + "-" * LARGE


def holding(folder: Path, text: str = PLANTED) -> list[str]:
    """Return the files below a folder that hold a text: database, write-ahead and shared-memory files, blobs."""
    return sorted(file.name for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes())


def blobs_in(folder: Path) -> FileBlobStore:
    """Return a store of blobs below a folder."""
    return FileBlobStore(folder / "blobs")


async def log_of(engine: Engine, stream: str) -> list[Event]:
    """Return a stream's events as stored."""
    return await engine.stored(stream)


async def text_of(engine: Engine, *streams: str) -> str:
    """Return everything that streams say, blobs included."""
    return "\n".join(
        [repr((await engine.hydrate(event)).__dict__) for stream in streams for event in await engine.stored(stream)]
    )


class Breaking:
    """Passes every call on, until the n-th one of all that change or read something: that one and the rest raise.

    Args:
        inner: what works.
        budget: shared count of calls that still work, `None` for all.
    """

    def __init__(self, inner: Any, budget: dict[str, int | None]) -> None:
        self._inner = inner
        self._budget = budget

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in {"subscribe", "aclose"} or not callable(found):
            return found
        return self._counted(found)

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kw: Any) -> Any:
            left = self._budget["left"]
            if left is not None:
                if left <= 0:
                    raise MemoryError("made to break")
                self._budget["left"] = left - 1
            return await method(*args, **kw)

        return call
