"""What must be let go of before this process forks.

SQLite keeps its file locks in a table of the process. A forked child inherits the table but not the locks, so a child
that opens a file its parent has open believes it holds locks it does not, and loses commits when the parent closes
the file. The only remedy is to have the file closed at the moment of the fork.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import Final, Protocol


class Forkable(Protocol):
    """Something that prepares for a fork; neither method may raise or log."""

    def before_fork(self) -> None:
        """Let go; runs in the thread that forks."""

    def after_fork(self, *, in_child: bool) -> None:
        """Go on, in the parent or in the child, where only the forking thread lives on."""


_watched: Final[weakref.WeakSet[Forkable]] = weakref.WeakSet()
_held: Final[list[Forkable]] = []
_lock = threading.RLock()


def watch_forks(item: Forkable) -> None:
    """Tell `item` of every `os.fork` (and so of `multiprocessing`'s "fork") for as long as it lives."""
    with _lock:
        _watched.add(item)


def _before() -> None:
    _lock.acquire()
    _held[:] = list(_watched)
    for item in _held:
        with contextlib.suppress(Exception):
            item.before_fork()


def _after_in_parent() -> None:
    _resume(in_child=False)
    _lock.release()


def _after_in_child() -> None:
    global _lock  # noqa: PLW0603 - the inherited lock may have waiters that do not exist here
    _resume(in_child=True)
    _lock = threading.RLock()


def _resume(*, in_child: bool) -> None:
    for item in _held:
        with contextlib.suppress(Exception):
            item.after_fork(in_child=in_child)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
