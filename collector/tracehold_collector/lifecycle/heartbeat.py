"""A file that says when the collector was last alive, so that a killed one leaves a gap with a beginning.

A row every few seconds would fill the store; a file of one line is written over in place, also when the disk is full.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

HEARTBEAT_FILE: Final = "heartbeat"
_DIGITS: Final = 20


class Heartbeat:
    """The heartbeat of one data folder.

    Args:
        folder: the data folder.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / HEARTBEAT_FILE
        self.last = _read(path)
        """When the collector before was last alive, UTC nanoseconds; `None` when that is not known."""
        # Without it gaps begin with the last event; that is no reason not to start.
        self._file = None
        with contextlib.suppress(OSError):
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)

    def beat(self, wall_ns: int) -> None:
        """Say that the collector is alive."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._file.seek(0)
            self._file.write(b"%0*d\n" % (_DIGITS, wall_ns))

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _read(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            text = file.read(_DIGITS + 1).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) < 1 << 63 else None
