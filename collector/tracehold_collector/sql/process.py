"""Starts the process that runs a statement, with a socket to it and nothing else of the collector's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tracehold_collector.core.errors import StoreError
from tracehold_collector.sql.frames import Channel

_MODULE: Final = ("-m", "tracehold_collector.sql.child")


class Process:
    """A process for one statement, killed at the end whatever it does.

    Attributes:
        channel: to it.

    Raises:
        StoreError: it cannot be started.
    """

    def __init__(self) -> None:
        try:
            self._socket, theirs = socket.socketpair()
        except OSError as error:
            raise _not_started(error) from error
        self.channel = Channel(self._socket)
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    [sys.executable, "-s", *_MODULE],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=Path(__file__).anchor,
                    env=_environment(),
                )
            except OSError as error:
                self._socket.close()
                raise _not_started(error) from error

    def kill(self) -> None:
        """End it at once; it keeps nothing that could be lost."""
        self._process.kill()

    def __enter__(self) -> Self:
        """Return the process."""
        return self

    def __exit__(self, _type: object, _error: BaseException | None, _trace: TracebackType | None) -> None:
        """End it, and wait until it is gone."""
        self._process.kill()
        self._socket.close()
        self._process.wait()


def _environment() -> dict[str, str]:
    """No setting and no secret of ours: only where Python finds its modules."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _not_started(error: OSError) -> StoreError:
    return StoreError(f"no process for the statement could be started: {error.strerror}; try again in a moment")
