"""Taking turns within a scope."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from tracehold.core.forks import watch_forks
from tracehold.core.scope import Scope

_STRIPES: Final = 64


class ScopeLocks:
    """A lock for each exact scope, out of a fixed number: two scopes may share one, a scope never has two.

    Calls on one scope take turns while others go on, even when a call waits for an embedder over the network.
    """

    def __init__(self) -> None:
        self._locks = [threading.RLock() for _ in range(_STRIPES)]
        watch_forks(self)

    def one(self, scope: Scope) -> threading.RLock:
        """Return the lock of a scope."""
        return self._locks[hash(scope) % _STRIPES]

    @contextlib.contextmanager
    def all(self) -> Iterator[None]:
        """Hold the locks of all scopes."""
        with contextlib.ExitStack() as held:
            for lock in self._locks:  # always in this order, so that two callers cannot block each other
                held.enter_context(lock)
            yield

    def before_fork(self) -> None:
        """Nothing: a fork waits for nobody."""

    def after_fork(self, *, in_child: bool) -> None:
        """Make new locks in the child: the threads that held the old ones do not exist there."""
        if in_child:
            self._locks = [threading.RLock() for _ in range(_STRIPES)]
