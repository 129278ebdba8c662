"""Has tree heads time-stamped by an authority of somebody else (RFC 3161), now and then."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import duckdb
import httpx
import structlog
from tracehold.core.clock import NS_PER_S

from tracehold_collector.audit.time_stamps import MAX_RESPONSE_BYTES, make_request, open_response
from tracehold_collector.core.errors import AuditError, CollectorError, StoreError
from tracehold_collector.store.database import Database
from tracehold_collector.store.time_stamps import StoredStamp, last_stamps, write_stamp
from tracehold_collector.store.tree_heads import StoredHead, last_tree_heads

_log = structlog.get_logger(__name__)

_LOOK_S: Final = 60.0
_TIMEOUT_S: Final = 10.0
_LONGEST_S: Final = 3_600.0


@dataclass(slots=True)
class StampStats:
    """How it goes.

    Attributes:
        stamped: stamps since the start.
        failures: attempts that failed since the last stamp.
    """

    stamped: int = 0
    failures: int = 0


class StampKeeper:
    """Has the newest tree head of each log that grew stamped, each log once in a while, on a thread of its own.

    Args:
        database: the open store.
        url: the authority's address; it is asked over HTTP (RFC 3161 section 3.4).
        every_s: seconds between two stamps of one log.

    Raises:
        ConfigurationError: the library for it is not installed.
    """

    def __init__(self, database: Database, url: str, every_s: float) -> None:
        make_request(b"whether the library is there")
        parts = urlsplit(url)
        self._database = database
        self._url = url
        self._name = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        self._every_ns = round(every_s * NS_PER_S)
        self.stats = StampStats()
        self._ending = threading.Event()
        self._retry_at = 0.0
        self._thread = threading.Thread(target=self._work, name="tracehold-time-stamps", daemon=True)

    def start(self) -> None:
        """Look now, and again and again."""
        self._thread.start()

    def close(self) -> None:
        """End; a second call does nothing."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()

    def look(self) -> int:
        """Have those logs stamped that are due; return how many were.

        Raises:
            AuditError: the authority could not be reached, or gave no stamp; what is due stays due.
            StoreError: the store cannot be read or written.
        """
        due = self._due()
        for head in due:
            write_stamp(self._database, self._stamp(head))
            self.stats.stamped += 1
        self.stats.failures = 0
        return len(due)

    def _due(self) -> list[StoredHead]:
        try:
            with self._database.cursor() as cursor:
                heads, stamps = last_tree_heads(cursor), last_stamps(cursor)
        except duckdb.Error as error:
            raise StoreError(f"tree heads could not be read: {type(error).__name__}") from error
        return [head for tenant, head in heads.items() if self._is_due(head, stamps.get(tenant))]

    def _is_due(self, head: StoredHead, last: StoredStamp | None) -> bool:
        return last is None or (head.size > last.size and head.signed_at - last.signed_at >= self._every_ns)

    def _stamp(self, head: StoredHead) -> StoredStamp:
        request = make_request(head.note.encode())
        headers = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}
        try:
            with httpx.stream("POST", self._url, content=request.body, headers=headers, timeout=_TIMEOUT_S) as answer:
                answer.raise_for_status()
                response = b""
                for piece in answer.iter_bytes():
                    response += piece
                    if len(response) > MAX_RESPONSE_BYTES:
                        break
        except httpx.HTTPError as error:
            raise AuditError(f"no time stamp from {self._name}: {type(error).__name__}") from error
        moment = open_response(response, request)
        return StoredStamp(head.tenant, head.size, head.signed_at, moment, self._name, response)

    def _work(self) -> None:
        while not self._ending.is_set():
            if time.monotonic() >= self._retry_at:
                self._try()
            self._ending.wait(_LOOK_S)

    def _try(self) -> None:
        try:
            self.look()
        except CollectorError as error:
            self.stats.failures += 1
            self._retry_at = time.monotonic() + min(_LONGEST_S, _LOOK_S * 2**self.stats.failures)
            # Told once, not every hour of an authority that is away.
            if self.stats.failures == 1:
                _log.warning("time_stamp_failed", authority=self._name, error=str(error))
