"""Erases in a process that kills itself where it is told to."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracehold_collector.erasure.engine import Parts
from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore
from tracehold_collector.store.committer import Committer

from support.erasing import ADMIN, Store

# Processes of a server that has imported everything: one takes a tenth of the time that starting an interpreter does.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["support.erasing_killed"])


REWRITTEN = Parts(rewrite=lambda: None)
"""Writing the file anew has tests of its own, with kills: here only the steps count."""


def erase_and_die(folder: Path, when: str, number: int, mode: str) -> int | None:
    """Erase Alice in a process killed `before` or `after` the `number`-th durable step; return its exit code."""
    process = _processes.Process(target=_erase, args=(folder, when, number, mode))
    process.start()
    process.join(60)
    return process.exitcode


def _erase(folder: Path, when: str, number: int, mode: str) -> None:
    store = Store(folder, parts=REWRITTEN)
    places = _Places(when, number)
    with _watched(places):
        record = store.erasures.request({"scope": "subject", "value": "alice", "mode": mode}, ADMIN)
        store.erasures.engine.finish(record.id)
    os._exit(places.passed)


class _Places:
    """Counts the steps, and kills."""

    def __init__(self, when: str, number: int) -> None:
        self._when = when
        self._number = number
        self.passed = 0

    def pass_by(self, when: str) -> None:
        if when == self._when:
            self.passed += 1
            if self.passed == self._number:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if function.__name__ == "commit" and not any(map(len, args[1])):
                return function(*args, **kwargs)  # the writer was only woken up
            self.pass_by("before")
            result = function(*args, **kwargs)
            self.pass_by("after")
            return result

        return watched


@contextmanager
def _watched(places: _Places) -> Iterator[None]:
    """Every transaction of an erasure, every commit of an act, and what the key store is told."""
    begin = Committer.transaction

    @contextmanager
    def transaction(committer: Committer) -> Iterator[Any]:
        with begin(committer) as connection:
            yield connection
            places.pass_by("before")
        places.pass_by("after")

    Committer.transaction = transaction  # type: ignore[method-assign]
    for owner, name in ((Committer, "commit"), (SqliteKeyStore, "destroy"), (SqliteKeyStore, "list_erasure")):
        setattr(owner, name, places.around(getattr(owner, name)))
    yield
