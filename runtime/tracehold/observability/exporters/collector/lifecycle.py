"""How a process ends or splits, for all exporters in it: exit, SIGTERM, fork, multiprocessing.

Nothing here takes a lock: the SIGTERM handler runs between two bytecodes of the main thread, wherever it is.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from types import FrameType
from typing import Protocol

_FINALIZER_PRIORITY = 10
"""Anything at or above 0 runs before multiprocessing waits for the child's own children."""

_AFTER_CTRL_C_S = 1.0


class Exiting(Protocol):
    """What ends with its process."""

    shutdown_timeout_s: float

    def begin_close(self, deadline: float) -> None:
        """MUST return at once, refuse new events, and let the work end by `deadline` (monotonic seconds)."""
        ...

    def finish_close(self, deadline: float) -> None:
        """MUST return by `deadline` with every event sent or on disk, as far as that can be."""
        ...

    def after_fork_in_child(self) -> None:
        """MUST leave everything of the parent's alone."""
        ...


_living: weakref.WeakSet[Exiting] = weakref.WeakSet()
_working: set[Exiting] = set()
_atexit_registered = False
_finalizer_pid: int | None = None


def watch(exporter: Exiting, *, handle_sigterm: bool) -> None:
    """Close `exporter` when the process ends, and tell it about forks.

    Args:
        exporter: held weakly until it has work to do; see `hold`.
        handle_sigterm: also close on SIGTERM, where nobody else handles it. From the main thread only.
    """
    global _atexit_registered  # noqa: PLW0603 - once per process
    _living.add(exporter)
    if not _atexit_registered:
        _atexit_registered = True
        atexit.register(_at_exit)
    if (
        handle_sigterm
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, _on_sigterm)


def forget(exporter: Exiting) -> None:
    """`exporter` is closed; the process owes it nothing more."""
    _living.discard(exporter)
    _working.discard(exporter)


def hold(exporter: Exiting) -> None:
    """Keep an exporter alive until it is closed: its tracer may be collected before its events are sent."""
    _working.add(exporter)
    _watch_multiprocessing()


def _watch_multiprocessing() -> None:
    """In a multiprocessing child, have its finalizers close the exporters: it skips `atexit` (FR-01).

    Done when work begins, not after the fork: the child clears all finalizers before its own code runs.
    """
    global _finalizer_pid  # noqa: PLW0603 - once per process
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is None or util is None or _finalizer_pid == os.getpid() or process.parent_process() is None:
        return
    _finalizer_pid = os.getpid()
    util.Finalize(None, _at_exit, exitpriority=_FINALIZER_PRIORITY)


def close_all(exporters: Iterable[Exiting]) -> None:
    """Close several exporters side by side, within the longest of their bounds.

    Raises:
        KeyboardInterrupt: after Ctrl-C, once each of them is closed.
    """
    exporters = tuple(exporters)
    if not exporters:
        return
    deadline = time.monotonic() + max(exporter.shutdown_timeout_s for exporter in exporters)
    for exporter in exporters:
        exporter.begin_close(deadline)
    interrupt: KeyboardInterrupt | None = None
    for exporter in exporters:
        try:
            exporter.finish_close(deadline)
        except KeyboardInterrupt as error:
            interrupt = error
            deadline = min(deadline, time.monotonic() + _AFTER_CTRL_C_S)
    if interrupt:
        raise interrupt


def _at_exit() -> None:
    # Ctrl-C here means "end now". The events are on disk by then, and a traceback would hide the program's own end.
    with contextlib.suppress(KeyboardInterrupt):
        close_all(_living)


def _on_sigterm(signum: int, _frame: FrameType | None) -> None:
    """Close, then die of the signal after all, so that the exit status tells the truth."""
    try:
        close_all(_living)
    finally:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)


def _after_fork_in_child() -> None:
    _working.clear()
    for exporter in tuple(_living):
        exporter.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
