"""HTTP connections that cannot be held for ever: by a sender whose headers never end, or who never reads its answer.

uvicorn bounds the time between two requests only. The body's time is bounded where it is read (`api/body.py`).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_WITHIN_S: Final = 15.0
"""From the first byte of a request, or the beginning of a connection, to the end of its headers."""

READ_WITHIN_S: Final = 60.0
"""How long an answer may lie unread without any of it being taken."""

_TOO_SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection, with these two times."""

    headers_within_s: float = HEADERS_WITHIN_S
    read_within_s: float = READ_WITHIN_S

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._headers_due: asyncio.TimerHandle | None = None
        self._reading_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._await_headers()

    def data_received(self, data: bytes) -> None:
        """Take bytes in; between two requests they begin the next one's headers, or are the rest of a refused body."""
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            self._await_headers()
        else:
            self._headers_came()

    def pause_writing(self) -> None:
        """The peer does not read."""
        super().pause_writing()
        if self._reading_due is None:
            self._reading_due = self.loop.call_later(self.read_within_s, self.transport.abort)

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._is_read()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._headers_came()
        self._is_read()
        super().connection_lost(exc)

    def _await_headers(self) -> None:
        if self._headers_due is None and not self.transport.is_closing():
            self._headers_due = self.loop.call_later(self.headers_within_s, self._let_go)

    def _let_go(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            self.transport.write(_TOO_SLOW)  # RFC 9110 section 15.5.9
            self.transport.close()

    def _headers_came(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _is_read(self) -> None:
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None
