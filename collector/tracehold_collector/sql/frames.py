"""What the collector and the process that runs a statement say to each other: frames over a socket."""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

import orjson

_HEAD: Final = struct.Struct("!cI")

MAX_FRAME_BYTES: Final = 128 * 1024 * 1024
"""Of one frame; a batch of rows is far smaller. What is longer is no frame of ours."""

# From the collector.
BEGIN: Final = b"b"
"""JSON: the statement, the tables' schemas, the limits."""
ROWS: Final = b"r"
"""The next rows of a scan, as an Arrow record batch message; empty at its end."""

# From the process.
READY: Final = b"y"
"""It has given up files and memory, and runs the statement now."""
SCAN: Final = b"s"
"""JSON: a table is to be read: number, table, columns, bounds."""
NEXT: Final = b"n"
"""JSON: the number of the scan whose next rows are wanted."""
ANSWER: Final = b"a"
"""Rows of the answer, as an Arrow stream of their own."""
DONE: Final = b"d"
"""JSON: whether the answer was cut."""
FAULT: Final = b"f"
"""JSON: why there is no answer."""


class ClosedError(Exception):
    """The other side is gone, or does not speak frames."""


class Channel:
    """One end of the conversation.

    Args:
        end: a connected stream socket.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, kind: bytes, body: bytes | memoryview = b"") -> None:
        """Send a frame.

        Raises:
            ClosedError: the other side is gone.
        """
        try:
            self._end.sendall(_HEAD.pack(kind, len(body)))
            if len(body):
                self._end.sendall(body)
        except OSError as error:
            raise ClosedError from error

    def send_json(self, kind: bytes, value: Any) -> None:
        """Send a frame that holds JSON."""
        self.send(kind, orjson.dumps(value))

    def receive(self) -> tuple[bytes, bytearray]:
        """Wait for a frame.

        Raises:
            ClosedError: the other side is gone, or sent what is no frame.
        """
        kind, size = _HEAD.unpack(self._exactly(_HEAD.size))
        if size > MAX_FRAME_BYTES:
            raise ClosedError
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytearray:
        body = bytearray(size)
        view = memoryview(body)
        at = 0
        while at < size:
            try:
                got = self._end.recv_into(view[at:])
            except OSError as error:
                raise ClosedError from error
            if not got:
                raise ClosedError
            at += got
        return body
