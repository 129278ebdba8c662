"""One SDK client for each event loop.

An HTTP client keeps open connections, and a connection belongs to the event loop that opened it. A program that calls
`asyncio.run` more than once would otherwise reuse a connection of a loop that is gone and fail with "Event loop is
closed".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeAlias

Loop: TypeAlias = asyncio.AbstractEventLoop


class ConnectionsPerLoop:
    """Gives each event loop its own SDK client, and closes it with the loop.

    Needs no lock: two threads have two loops and so two keys, and within a loop nothing awaits between look-up and
    entry. A forked child has a new loop and so its own connections.

    Args:
        make_client: returns a new SDK client with an async `close`.
    """

    def __init__(self, make_client: Callable[[], Any]) -> None:
        self._make_client = make_client
        self._open: dict[Loop, tuple[Any, AsyncGenerator[Any, None]]] = {}

    async def client(self) -> Any:
        """Return the SDK client of the running event loop."""
        loop = asyncio.get_running_loop()
        entry = self._open.get(loop)
        if entry is None:
            self._forget_closed_loops()
            keeper = self._keep(loop)
            entry = self._open[loop] = await anext(keeper), keeper
        return entry[0]

    async def aclose(self) -> None:
        """Close the running loop's client; the next call opens a new one."""
        entry = self._open.pop(asyncio.get_running_loop(), None)
        if entry is not None:
            await entry[1].aclose()

    async def _keep(self, loop: Loop) -> AsyncGenerator[Any, None]:
        # A loop closes the async generators that were started in it before it ends (`shutdown_asyncgens`, which
        # `asyncio.run` and `asyncio.Runner` call). That is the one moment at which connections can still be closed.
        client = self._make_client()
        try:
            yield client
        finally:
            self._open.pop(loop, None)
            with contextlib.suppress(Exception):
                await client.close()

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._open if loop.is_closed()]:
            self._open.pop(loop, None)
