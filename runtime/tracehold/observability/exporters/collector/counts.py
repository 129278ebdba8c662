"""What the exporter tells about itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

_log = logging.getLogger("tracehold.observability.exporters.collector")


@dataclass(slots=True)
class Counts:
    """Counters of one exporter in one process; a forked child starts from zero.

    Attributes:
        sent: events the collector has taken, those from the spool included.
        duplicates: of these, events it already had.
        rejected: events the collector refused for good.
        spooled: events written to the spool.
        overflowed: events for which there was no room in memory.
        unsaved: events for which there was no room on disk at the end.
        retries: requests that failed and were, or will be, repeated.
        restarts: worker threads that ended by a fault of ours.
        last_error: a class name or a status, never a text of the collector's.
    """

    sent: int = 0
    duplicates: int = 0
    rejected: int = 0
    spooled: int = 0
    overflowed: int = 0
    unsaved: int = 0
    retries: int = 0
    restarts: int = 0
    last_error: str | None = None
    _told: set[str] = field(default_factory=set)

    @property
    def dropped(self) -> int:
        """Events that were taken from a caller and will never be stored, for whichever reason."""
        return self.overflowed + self.unsaved + self.rejected

    def warn_once(self, message: str, *args: object) -> None:
        """Log a warning the first time this message occurs; the counters tell how often it did."""
        if message not in self._told:
            self._told.add(message)
            _log.warning(message, *args)
