"""Notices what other processes append, for those who follow a stream (STO-05)."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

from tracehold.core.forks import watch_forks
from tracehold.events.following import Followers
from tracehold.events.sqlite.reading import last_seq
from tracehold.events.sqlite.thread import ConnectionThread


class FileWatch:
    """Looks at the file every `poll_s` seconds while anybody follows a stream, and wakes whose stream grew."""

    def __init__(self, reader: ConnectionThread[Any], followers: Followers, poll_s: float) -> None:
        self._reader = reader
        self._followers = followers
        self._poll_s = poll_s
        self._seen: tuple[int, int] | None = None
        self._running = False
        self._fresh_threading()
        watch_forks(self)

    def start(self) -> None:
        """Look from now on."""
        with self._lock:
            if not self._running and not self._stop.is_set():
                self._running = True
                threading.Thread(target=self._run, args=(self._stop,), name="tracehold-log-watch", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def before_fork(self) -> None:
        """Nothing to let go of: the reader owns the connection."""

    def after_fork(self, *, in_child: bool) -> None:
        """Begin anew in a child, where the thread does not exist."""
        if in_child:
            self._fresh_threading()

    def _fresh_threading(self) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._running = False

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._poll_s):
            with self._lock:
                if not self._followers:
                    self._running = False
                    return
            self._reader.post(self._look)

    def _look(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        seen = (id(connection), version)
        if seen == self._seen:
            return
        for stream, next_seq in self._followers.waiting().items():
            if last_seq(connection, stream) >= next_seq:
                self._followers.wake(stream)
        self._seen = seen
