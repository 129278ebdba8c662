"""A thread that owns one SQLite connection, so that no event loop ever waits for a disk (STO-11).

Calls go in by a queue and come out by `call_soon_threadsafe`, one wake-up for all answers of a batch. The thread starts
with the first call and works for any number of loops. Around a fork the connection is closed (see `core.forks`);
in a child, where the thread does not exist, the next call starts one.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from tracehold.core.database import BUSY_WAIT_S
from tracehold.core.forks import watch_forks
from tracehold.events.checks import closed_error


class Session(Protocol):
    """A connection and what belongs to it."""

    def close(self) -> None:
        """Release the file."""


SessionT = TypeVar("SessionT", bound=Session)
Outcome: TypeAlias = tuple[Any, BaseException | None]
_Future: TypeAlias = "asyncio.Future[Any]"
_Job: TypeAlias = "tuple[asyncio.AbstractEventLoop | None, _Future | None, Any]"

_STOP: Final = object()
_leaked: Final[list[Session]] = []
"""Sessions of a parent process: a child must not even close them."""


class ConnectionThread(Generic[SessionT]):
    """Runs calls on a session in the order they come.

    Args:
        name: of the thread.
        what: it belongs to, for messages.
        open_session: opens one; called in the thread, again after a fork or after an error in opening.
        work: does a batch of calls and returns an outcome for each.
        batch: the most calls in one go; nothing ever waits for a batch to fill.
    """

    def __init__(
        self,
        name: str,
        what: str,
        open_session: Callable[[], SessionT],
        work: Callable[[SessionT, Sequence[Any]], list[Outcome]],
        batch: int,
    ) -> None:
        self._name = name
        self._what = what
        self._open_session = open_session
        self._work = work
        self._batch = batch
        self._closed = False
        self._session: SessionT | None = None
        self._using = threading.Lock()
        self._fresh_threading()
        watch_forks(self)

    async def run(self, call: Any) -> Any:
        """Return what `work` makes of `call`. A cancelled caller does not call it back.

        Raises:
            StoreError: the store is closed.
        """
        loop = asyncio.get_running_loop()
        future: _Future = loop.create_future()
        self._put((loop, future, call))
        return await future

    def post(self, call: Any) -> None:
        """Have `call` done without an answer; nothing happens when the store is closed."""
        with self._gate:
            if not self._closed and self._thread is not None:
                self._queue.put((None, None, call))

    async def aclose(self) -> None:
        """Finish what was called before, release the connection and end the thread."""
        loop = asyncio.get_running_loop()
        future: _Future = loop.create_future()
        with self._gate:
            self._closed = True
            thread = self._thread
            if thread is None or not thread.is_alive():
                return
            self._queue.put((loop, future, _STOP))
        await future
        thread.join()

    def before_fork(self) -> None:
        """Close the file, once the batch that uses it is done."""
        # Bounded: a fork must not hang on a thread that waits for the forking one.
        self._held = self._using.acquire(timeout=BUSY_WAIT_S + 1)
        if self._held:
            self._let_go()

    def after_fork(self, *, in_child: bool) -> None:
        """Let the thread go on; a child has none, and opens the file anew."""
        if in_child:
            if self._session is not None:
                _leaked.append(self._session)
                self._session = None
            self._fresh_threading()
        elif self._held:
            self._using.release()

    def _fresh_threading(self) -> None:
        self._held = False
        self._gate = threading.Lock()
        self._using = threading.Lock()
        self._queue: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def _put(self, job: _Job) -> None:
        # The gate: a call must not slip in behind the one that ends the thread, where nobody would answer it.
        with self._gate:
            if self._closed:
                raise closed_error(self._what)
            if self._thread is None:
                # A daemon: a program that forgets `aclose` must still be able to end.
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._queue.put(job)

    def _serve(self) -> None:
        while True:
            jobs = self._take()
            stops = [job for job in jobs if job[2] is _STOP]
            calls = [job for job in jobs if job[2] is not _STOP]
            with self._using:
                outcomes = self._do(calls) if calls else []
                if stops:
                    self._let_go()
            _answer(calls, outcomes)
            if stops:
                # Also those of a second `aclose` that came meanwhile.
                stops += self._rest()
                _answer(stops, [(None, None)] * len(stops))
                return

    def _take(self) -> list[_Job]:
        jobs = [self._queue.get()]
        with contextlib.suppress(queue.Empty):
            while len(jobs) < self._batch:
                jobs.append(self._queue.get_nowait())
        return jobs

    def _rest(self) -> list[_Job]:
        rest: list[_Job] = []
        with self._gate, contextlib.suppress(queue.Empty):
            self._thread = None
            while True:
                rest.append(self._queue.get_nowait())
        return rest

    def _do(self, jobs: list[_Job]) -> list[Outcome]:
        try:
            if self._session is None:
                self._session = self._open_session()
            return self._work(self._session, [job[2] for job in jobs])
        except BaseException as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            return [(None, copy.copy(error)) for _ in jobs]

    def _let_go(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _answer(jobs: list[_Job], outcomes: list[Outcome]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Future, Outcome]]] = {}
    for (loop, future, _), outcome in zip(jobs, outcomes, strict=True):
        if loop is not None and future is not None:
            by_loop.setdefault(loop, []).append((future, outcome))
    for loop, answers in by_loop.items():
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits there
            loop.call_soon_threadsafe(_deliver, answers)


def _deliver(answers: list[tuple[_Future, Outcome]]) -> None:
    for future, (result, error) in answers:
        if future.done():  # its caller was cancelled
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
