"""A process that carries on with every run of a log, killed at the n-th thing it does. See test_killed_engines."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine_parts import Parent, fact, finished
from tracehold.engine import Ctx, Engine
from tracehold.events import ANY_SEQ, Event
from tracehold.events.sqlite_store import SQLiteEventStore

PARENTS = ("p0", "p1")
CHILDREN = {"a": {"calls": 2, "at_once": 1}, "b": {"calls": 3, "at_once": 3}, "c": {"calls": 0, "at_once": 1}}
TOKENS, COST = 5, 0.25


class Death:
    """Kills this process at its n-th step; never, when that is 0."""

    def __init__(self, at: int) -> None:
        self.left = at

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class DeadlyStore(SQLiteEventStore):
    """Each append is two steps: one before it, one after it and before anybody knows."""

    death: Death

    async def append(self, stream: str, events: Sequence[Event], expected_seq: int = ANY_SEQ) -> list[Event]:
        self.death.step()
        stored = await super().append(stream, events, expected_seq)
        self.death.step()
        return stored


class Worker:
    """Calls tools, some at a time, and ends with the sum of their results."""

    name = "worker"

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started", "aaa.tool.completed"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event] | None:
        told = (await ctx.started()).data["input"]
        results = [
            one.data["result"]
            for one in await ctx.history()
            if one.type == "aaa.tool.completed" and one.seq <= event.seq
        ]
        if len(results) == told["calls"]:
            return finished(event, sum(results))
        if told["at_once"] == 1:
            return [event.caused("aaa.tool.requested", {"n": len(results)})]
        if event.type == "aaa.run.started":  # all of them, now or never
            return [event.caused("aaa.tool.requested", {"n": n}) for n in range(told["calls"])]
        return None


class Shop:
    """Runs a tool call: its effect is a line in a file."""

    def __init__(self, file: Path, death: Death) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._death = death

    async def __call__(self, event: Event) -> list[Event]:
        self._death.step()
        os.write(self._file, f"{event.stream} {event.data['n']}\n".encode())
        self._death.step()
        data: dict[str, Any] = {"result": event.data["n"] + 1, "usage": {"total_tokens": TOKENS}, "cost": COST}
        return [event.caused("aaa.tool.started"), event.caused("aaa.tool.completed", data)]


async def main(folder: Path, kill_at: int, name: str) -> None:
    death = Death(kill_at)
    store = DeadlyStore(folder / "log.db", poll_s=0.01)
    store.death = death
    told = os.open(folder / "acknowledged.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with Engine(store) as engine:
        engine.subscribe("aaa.tool.requested", Shop(folder / "effects.txt", death))
        parent = Parent(Worker())
        await engine.recover([parent, Worker()])
        handles = [await engine.start(parent, {"children": CHILDREN}, run_id=run_id) for run_id in PARENTS]
        for number, handle in enumerate(handles):
            note = fact(handle.run_id, f"note-{name}-{number}", "own.note")
            await engine.emit(note)
            os.write(told, f"{handle.run_id} {note.id}\n".encode())
        for handle in handles:
            await handle.result()
    await store.aclose()
    sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
