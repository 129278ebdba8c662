"""Following a stream: replay what is stored, then wait for more (STO-05)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Protocol

from tracehold.events.event import Event

PAGE: Final = 256
"""Events a follower reads at a time, so that a long stream does not stand in memory whole."""


class Read(Protocol):
    """A store's `read`."""

    def __call__(self, stream: str, from_seq: int = 0, limit: int | None = None) -> Awaitable[list[Event]]:
        """Return events in order."""


class Follower:
    """Somebody who waits for a stream to grow.

    Attributes:
        next_seq: the number it waits for.
    """

    __slots__ = ("_loop", "_more", "next_seq")

    def __init__(self, next_seq: int) -> None:
        self.next_seq = next_seq
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()

    def wake(self) -> None:
        """Let it look again; from any thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._more.set)

    def forget_wakes(self) -> None:
        """Begin to look: what is appended from now on wakes again."""
        self._more.clear()

    async def wait(self) -> None:
        """Wait until woken."""
        await self._more.wait()


class Followers:
    """Who waits for which stream; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_stream: dict[str, set[Follower]] = {}

    def __bool__(self) -> bool:
        """Whether anybody waits."""
        return bool(self._by_stream)

    def add(self, stream: str, follower: Follower) -> None:
        """Wake `follower` from now on."""
        with self._lock:
            self._by_stream.setdefault(stream, set()).add(follower)

    def remove(self, stream: str, follower: Follower) -> None:
        """Wake it no longer."""
        with self._lock:
            followers = self._by_stream.get(stream, set())
            followers.discard(follower)
            if not followers:
                self._by_stream.pop(stream, None)

    def wake(self, stream: str) -> None:
        """Let the followers of a stream look again."""
        if stream in self._by_stream:
            for follower in self._of(stream):
                follower.wake()

    def wake_all(self) -> None:
        """Let everybody look again, such as at a closed store."""
        for stream in list(self._by_stream):
            self.wake(stream)

    def waiting(self) -> dict[str, int]:
        """Return the lowest number that each followed stream is waited for."""
        with self._lock:
            return {stream: min(one.next_seq for one in these) for stream, these in self._by_stream.items()}

    def _of(self, stream: str) -> list[Follower]:
        with self._lock:
            return list(self._by_stream.get(stream, ()))


async def follow(
    read: Read, followers: Followers, stream: str, from_seq: int, started: Callable[[], None]
) -> AsyncIterator[Event]:
    """Yield the events of a stream from `from_seq` on, and new ones as they come.

    Args:
        read: a store's `read`; an error of it ends the iteration, so that a closed store does.
        followers: woken by the store after each append.
        stream: what to follow.
        from_seq: first number wanted.
        started: called once the follower is registered.
    """
    me = Follower(max(from_seq, 0))
    followers.add(stream, me)
    try:
        started()
        while True:
            # Before reading: what is appended during the read must not be slept through.
            me.forget_wakes()
            page = await read(stream, me.next_seq, PAGE)
            for event in page:
                me.next_seq = event.seq + 1
                yield event
            if len(page) < PAGE:
                await me.wait()
    finally:
        followers.remove(stream, me)
