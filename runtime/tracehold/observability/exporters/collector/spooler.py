"""The worker's side of the spool: which file is next, and when a failing disk is tried again."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from tracehold.observability.exporters.collector.counts import Counts
from tracehold.observability.exporters.collector.ports import Ports
from tracehold.observability.exporters.collector.spool import Claim, Spool

RESCAN_S = 10.0
"""How often a working exporter looks for files of processes that died."""
_DISK_AGAIN_S = 30.0
_PATIENCE = 3
"""After as many failures a file lets younger ones go first: it may be what makes the collector fail."""


class Spooler:
    """Keeps the list of waiting files. Used by one thread, and by a closing one for `save`.

    Attributes:
        claim: the file being sent, if one is.
    """

    def __init__(self, spool: Spool, counts: Counts, ports: Ports) -> None:
        """Look at no file yet."""
        self.claim: Claim | None = None
        self._spool = spool
        self._counts = counts
        self._ports = ports
        self._waiting: set[str] = set()
        self._failures: dict[str, int] = {}
        self._scanned_at = self._disk_again_at = -math.inf

    @property
    def waiting(self) -> Collection[str]:
        """The names of the files that wait to be sent."""
        return self._waiting

    @property
    def has_scanned(self) -> bool:
        """Whether the folder has been looked at."""
        return self._scanned_at > -math.inf

    @property
    def is_disk_ready(self) -> bool:
        """Whether a write may be tried: not soon after a failed one."""
        return self._ports.monotonic() >= self._disk_again_at

    @property
    def path(self) -> str:
        """The folder, for the log."""
        return str(self._spool.path)

    def scan(self, *, if_due: bool = False) -> None:
        """Look for files of earlier and other processes."""
        now = self._ports.monotonic()
        if if_due and now - self._scanned_at < RESCAN_S:
            return
        self._scanned_at = now
        try:
            self._waiting = set(self._spool.names())
        except OSError as error:
            self._failed(error)
        self._failures = {name: count for name, count in self._failures.items() if name in self._waiting}

    def still_there(self, names: Collection[str]) -> set[str]:
        """Return those of `names` that nobody has sent yet; they are waited for again."""
        left = {name for name in names if self._spool.exists(name)}
        self._waiting |= left
        return left

    def claim_next(self) -> Claim | None:
        """Lock the file that goes first; `None` when another process was quicker."""
        name = min(self._waiting, key=lambda each: (self._failures.get(each, 0) // _PATIENCE, each))
        self.claim = self._spool.claim(name)
        if self.claim is None:
            self._waiting.discard(name)
        return self.claim

    def settle(self, claim: Claim, *, is_sent: bool) -> None:
        """Remove a file that was sent, or give it back."""
        if is_sent:
            claim.ack()
            self._waiting.discard(claim.name)
            self._failures.pop(claim.name, None)
        else:
            claim.release()
            self._failures[claim.name] = self._failures.get(claim.name, 0) + 1
        self.claim = None

    def release(self) -> None:
        """Give the file back that was being sent when the thread ended."""
        if self.claim is not None:
            self.claim.release()
            self.claim = None

    def save(self, lines: Sequence[bytes]) -> str | None:
        """Write one file and return its name; `None` when the disk does not take it."""
        try:
            name = self._spool.write(lines)
        except OSError as error:
            self._failed(error)
            return None
        self._waiting.add(name)
        self._counts.spooled += len(lines)
        return name

    def _failed(self, error: OSError) -> None:
        self._disk_again_at = self._ports.monotonic() + _DISK_AGAIN_S
        self._counts.last_error = type(error).__name__
        self._counts.warn_once(
            "The spool %s cannot take events (%s); they stay in memory as long as there is room. "
            "Free space, or set spool_dir or spool_max_bytes.",
            self.path,
            type(error).__name__,
        )
