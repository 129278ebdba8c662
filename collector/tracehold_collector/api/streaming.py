"""A long answer as its bytes are made, which lets go of what it holds whatever happens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_log = structlog.get_logger(__name__)

STALL_S: Final = 60.0
"""A receiver that takes nothing for longer is let go."""


class Streamed(Response):
    """The bytes of an export as they are made. What goes wrong cuts the connection: half an answer looks like half.

    Args:
        pieces: makes the bytes, a piece at a time, on a thread.
        on_end: lets go of what they are made from; called once, after the last piece, from a thread.
        headers: of the answer.
        media_type: of the answer.
    """

    def __init__(
        self, pieces: Iterator[bytes], on_end: Callable[[], None], headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(headers=headers, media_type=media_type)
        del self.headers["content-length"]
        self._pieces = pieces
        self._on_end = on_end
        self._lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and let go of the snapshot whatever happens."""
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while scope["method"] != "HEAD" and (piece := await asyncio.to_thread(self._next)) is not None:
                if gone.done():
                    return
                async with asyncio.timeout(STALL_S):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            _log.warning("export_stalled", path=scope["path"])
            raise
        finally:
            gone.cancel()
            await asyncio.to_thread(self._close)

    def _next(self) -> bytes | None:
        with self._lock:
            return next(self._pieces, None)

    def _close(self) -> None:
        # A request that is cancelled leaves a piece being made on its thread: the store is let go of after it.
        with self._lock:
            self._on_end()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
