"""Work that goes on beside its callers: what ends when the engine is left, and what must be finished first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

STOP_S: Final = 5.0
"""How long leaving waits for tasks that do not want to end."""

_log = logging.getLogger(__name__)


class Background:
    """The tasks of one engine.

    Attributes:
        closing: whether the engine is being left; long repetitions give up then.
        crashed: whether it was aborted; nothing is carried on then.
    """

    def __init__(self) -> None:
        self.closing = False
        self.crashed = False
        self._tracked: set[asyncio.Task[Any]] = set()
        self._carried: set[asyncio.Task[Any]] = set()

    @property
    def idle(self) -> bool:
        """Whether no task is left."""
        return not self._tracked and not self._carried

    def spawn(self, coro: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Run work that is cancelled at shutdown (ENG-06)."""
        return _run(coro, self._tracked)

    def carry_on(self, coro: Coroutine[Any, Any, Any]) -> None:
        """Run work that is waited for at shutdown."""
        _run(coro, self._carried)

    async def see_through(self, work: Callable[[], Awaitable[Result]], begun: Callable[[], bool]) -> Result:
        """Do work that can be taken up again; once begun, it is finished although its caller is cancelled.

        Otherwise an event could be in the log, and nobody would deliver it.
        """
        try:
            return await work()
        except asyncio.CancelledError:
            if begun() and not self.crashed:
                self.carry_on(_finish(work))
            raise

    async def settle(self) -> None:
        """Wait for what must be finished."""
        await _ended(self._carried)

    async def stop(self) -> None:
        """Cancel what was spawned, and after a crash everything; wait until it has ended."""
        tasks = (self._tracked | self._carried if self.crashed else self._tracked) - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await _ended(tasks)
        await self.settle()


async def _finish(work: Callable[[], Awaitable[Any]]) -> None:
    try:
        await work()
    except Exception as error:  # noqa: BLE001 - its caller is gone
        _log.warning("what a cancelled caller had begun failed with %s", type(error).__name__)


def _run(coro: Coroutine[Any, Any, Result], tasks: set[asyncio.Task[Any]]) -> asyncio.Task[Result]:
    task = asyncio.get_running_loop().create_task(coro)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    waiting = tasks - {asyncio.current_task()}
    if waiting:
        await asyncio.wait(waiting, timeout=STOP_S)
