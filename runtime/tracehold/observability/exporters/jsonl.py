"""Events as JSON lines in a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import orjson

from tracehold.core.errors import ExporterError
from tracehold.core.jsontext import dumps
from tracehold.observability.exporters.backlog import Backlog
from tracehold.observability.exporters.base import Event, TraceExporter

_NEWLINE: Final = orjson.OPT_APPEND_NEWLINE


class JsonlExporter(TraceExporter):
    """Appends one JSON object per line; another reader sees the line at once (EXP-03).

    Earlier lines survive a restart (EXP-04); concurrent exports, from threads or processes, never interleave within
    a line (EXP-05): each line is one append. After an error lines wait in order and are tried again (DEC-11).

    Args:
        path: the file; created with its permissions limited to the owner, since traces may hold personal data.

    Raises:
        ExporterError: the file cannot be opened for appending.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._fd: int | None = _open(self.path)
        self._rest = b""
        self._backlog: Backlog[bytes] = Backlog(type(self).__name__, self._append, (OSError,))

    @property
    def dropped(self) -> int:  # type: ignore[override]
        """Events given up because too many waited."""
        return self._backlog.dropped

    def export(self, event: Event) -> None:
        """Append one line."""
        if self._fd is None:
            raise ValueError(f"this JsonlExporter is closed; {self.path} was not written")
        self._backlog.put(dumps(event, option=_NEWLINE))

    def force_flush(self, timeout_s: float = 5.0) -> bool:
        """Write what waits; lines are unbuffered, so nothing else does."""
        return self._backlog.drain(timeout_s)

    def close(self) -> None:
        """Write what waits, at most a second, and release the file (EXP-13)."""
        if self._fd is None:
            return
        if not self._backlog.drain(1.0):
            self._backlog.abandon()
        os.close(self._fd)
        self._fd = None

    def _append(self, line: bytes) -> None:
        if self._fd is None:
            raise OSError(f"{self.path} is closed")
        # A disk that fills up can take half a line: the rest must follow before anything else does.
        data = self._rest or line
        written = os.write(self._fd, data)
        while written < len(data):
            data = self._rest = data[written:]
            written = os.write(self._fd, data)
        self._rest = b""


def _open(path: Path) -> int:
    if path.is_dir():
        raise ExporterError(f"cannot write traces to {path}: it is a folder; name a file in it")
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        # An OSError's own text repeats the path.
        reason = error.strerror if isinstance(error, OSError) else error
        raise ExporterError(
            f"cannot write traces to {path}: {reason}. Give JsonlExporter a file in a folder that is there and that "
            "this program may write to"
        ) from error
