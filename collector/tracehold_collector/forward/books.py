"""The progress of a receiver while it is served: moved by one thread, read by others, written now and then."""

from __future__ import annotations

import dataclasses
import threading
import time

import structlog

from tracehold_collector.forward.batch import Mark
from tracehold_collector.forward.progress import Progress

_log = structlog.get_logger(__name__)


class Books:
    """Keeps a receiver's progress. Safe to use from any thread.

    Args:
        progress: as it stands in the file.
        save_every_s: seconds between two writings, at least. One costs two syncs of the disk, which the writer needs
            for those who wait for an answer.
    """

    def __init__(self, progress: Progress, save_every_s: float) -> None:
        self._progress = progress
        self._save_every_s = save_every_s
        self._lock = threading.Lock()
        # Held while the file is written, so that nothing writes it after `close`.
        self._writing = threading.Lock()
        self._unsaved = self._closed = self._failing = False
        self._saved_at = time.monotonic()

    def now(self) -> Progress:
        """Return the progress as it is, as a copy."""
        with self._lock:
            return dataclasses.replace(self._progress)

    def move(self, before: Mark, after: Mark, *, sent: int = 0, refused: int = 0) -> None:
        """Note that what lies between two marks came to an end, and how many of its spans went which way."""
        with self._lock:
            progress = self._progress
            progress.position = after.position
            progress.sent += sent
            progress.refused += refused + after.unsayable - before.unsayable
            progress.skipped += after.skipped - before.skipped
            self._unsaved = True

    def due_s(self) -> float | None:
        """Return the seconds until it is to be saved; `None` when there is nothing to save."""
        with self._lock:
            return max(0.0, self._saved_at + self._save_every_s - time.monotonic()) if self._unsaved else None

    def save_when_due(self) -> None:
        """Save, unless that was done a moment ago."""
        if self.due_s() == 0.0:
            self.save()

    def save(self) -> None:
        """Write it, if it is another; what cannot be written now is written the next time."""
        with self._writing:
            with self._lock:
                if self._closed or not self._unsaved:
                    return
                progress, self._unsaved = dataclasses.replace(self._progress), False
                self._saved_at = time.monotonic()
            try:
                progress.save()
            except OSError as error:
                with self._lock:
                    self._unsaved = True
                if not self._failing:
                    _log.error("forward.place_not_saved", file=str(progress.path), error=error.strerror)
                self._failing = True
            else:
                self._failing = False

    def close(self) -> None:
        """Save, and never again: another process may have the file from now on."""
        self.save()
        with self._writing, self._lock:
            self._closed = True
