"""A process that carries one run on: begins it, or takes it over, and dies by SIGKILL where it is told to.

    agent_process.py FOLDER SEED KILL_AT DECISION

FOLDER holds the stores, the log of what tools did and the events. SEED gives the script of the models. At the
KILL_AT-th operation on the outside world the process kills itself (0: never). DECISION:

- "go": begin the run when there is none, go on otherwise, and answer questions as they come, some at a time;
- "ask": the same up to the first question;
- anything else is JSON for one `resume`; with "@" in front, after a line came on standard input.

It prints JSON: the answer, or the pending actions.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tracehold import (
    Agent,
    AgentTool,
    Interrupt,
    JsonlExporter,
    Scope,
    SessionError,
    SqliteCheckpointStore,
    SqliteSessionStore,
    Tracer,
)
from tracehold.testing import ScriptedLLM, tool_calls_reply
from tracehold.tools.base import Tool, ToolParameter, ToolResponse

RUN = "the run"
SIMPLE = ("plain", "parallel", "fails", "pay")


def script_of(seed: int) -> dict[str, list[list[tuple[str, int]]]]:
    """By task, the calls of each turn: tool and number. A call of "helper" with number n is the task "task n"."""
    chance = random.Random(seed)
    numbers = itertools.count(1)
    tasks: dict[str, list[list[tuple[str, int]]]] = {}

    def turns(kinds: tuple[str, ...]) -> list[list[tuple[str, int]]]:
        return [
            [(chance.choice(kinds), next(numbers)) for _ in range(chance.randint(1, 3))]
            for _ in range(chance.randint(1, 3))
        ]

    tasks[RUN] = turns((*SIMPLE, "pay", "helper"))
    for name, n in [call for turn in tasks[RUN] for call in turn]:
        if name == "helper":
            tasks[f"task {n}"] = turns((*SIMPLE, "pay"))
    return tasks


class Fuse:
    """Kills this process at the n-th operation."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._lock = threading.Lock()

    def tick(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Checkpoints(SqliteCheckpointStore):
    def __init__(self, path: Path, fuse: Fuse) -> None:
        super().__init__(path)
        self._fuse = fuse

    def replace(self, expected: str | None, state_json: str | None, *, scope: Scope | None = None) -> bool:
        self._fuse.tick()
        done = super().replace(expected, state_json, scope=scope)
        self._fuse.tick()
        return done

    def clear(self, *, scope: Scope | None = None) -> None:
        self._fuse.tick()
        super().clear(scope=scope)
        self._fuse.tick()


class Sessions(SqliteSessionStore):
    def __init__(self, path: Path, fuse: Fuse) -> None:
        super().__init__(path)
        self._fuse = fuse

    def append_many(self, messages: Any, *, scope: Scope | None = None) -> None:
        self._fuse.tick()
        super().append_many(messages, scope=scope)
        self._fuse.tick()


class Events(JsonlExporter):
    def __init__(self, path: Path, fuse: Fuse) -> None:
        super().__init__(path)
        self._fuse = fuse

    def export(self, event: Any) -> None:
        self._fuse.tick()
        super().export(event)
        self._fuse.tick()


class Body(Tool):
    """Writes to a log, durably, that it was entered and left; "plain" and "pay" do so on a worker thread."""

    def __init__(self, name: str, log: Path, fuse: Fuse) -> None:
        super().__init__(name, f"Does {name}.")
        self.requires_confirmation = name == "pay"
        self.supports_parallel = name in {"parallel", "pay"}
        self._log = log
        self._fuse = fuse

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter("n", "integer", "Which.")]

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        self._fuse.tick()
        self._write(f"enter {self.name} {parameters['n']}")
        self._fuse.tick()
        self._write(f"leave {self.name} {parameters['n']}")
        self._fuse.tick()
        if self.name == "fails":
            raise ValueError(f"fails {parameters['n']}")
        return ToolResponse.ok(f"{self.name} {parameters['n']}")

    def _write(self, line: str) -> None:
        descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class AsyncBody(Body):
    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        return self.run(parameters)


def build(folder: Path, seed: int, fuse: Fuse, *, ttl_s: float | None = None) -> Agent:
    """The agent of one process; `told.jsonl` gets what the outer model is shown."""
    tasks = script_of(seed)
    runs, talk = Checkpoints(folder / "runs.db", fuse), Sessions(folder / "talk.db", fuse)
    tracer = Tracer(exporters=[Events(folder / "events.jsonl", fuse)], strict=True)

    def reply(messages: list[dict[str, Any]]) -> Any:
        fuse.tick()
        at = max(index for index, message in enumerate(messages) if message["role"] == "user")
        task, since = messages[at]["content"], messages[at:]
        done = sum(message["role"] == "assistant" for message in since)
        if done == len(tasks[task]):
            with (folder / "told.jsonl").open("a") as told:
                told.write(json.dumps([task, [message for message in since if message["role"] == "tool"]]) + "\n")
            return f"done {task}"
        calls = [
            (name, {"task": f"task {n}"} if name == "helper" else {"n": n}, f"call_{place}")
            for place, (name, n) in enumerate(tasks[task][done])
        ]
        return tool_calls_reply(*calls)

    def make(name: str, *tools: Tool) -> Agent:
        bodies = [
            (AsyncBody if kind in {"parallel", "fails"} else Body)(kind, folder / "log.txt", fuse) for kind in SIMPLE
        ]
        return Agent(
            name, ScriptedLLM(itertools.repeat(reply)),
            tools=[*bodies, *tools], checkpoint_store=runs, session_store=talk, tracer=tracer, approval_ttl_s=ttl_s,
        )  # fmt: skip

    return make("boss", AgentTool(make("helper")))


def says_yes(seed: int, n: int) -> bool:
    """What people say about payment `n`, whenever they are asked."""
    return random.Random(f"{seed}/{n}").random() < 0.6


async def go_on(agent: Agent, seed: int, *, kill_at: int, ask_only: bool) -> str | Interrupt:
    chance = random.Random(f"{seed} {kill_at}")
    waits = await agent.apending()
    if waits is not None:
        result: str | Interrupt = waits
    elif await agent.checkpoint_store.aload() is not None:  # type: ignore[union-attr]  # it has one
        result = await agent.aresume()
    else:
        result = await agent.arun(RUN, run_id="r")
    while isinstance(result, Interrupt) and not ask_only:
        said = {
            action.call_id: says_yes(seed, action.arguments["n"]) for action in result.pendings if chance.random() < 0.7
        }
        result = await agent.aresume(said, approver="ann")
    return result


def main(folder: str, seed: str, kill_at: str, decision: str, ttl_s: str = "") -> None:
    agent = build(Path(folder), int(seed), Fuse(int(kill_at)), ttl_s=float(ttl_s) if ttl_s else None)
    if decision.startswith("@"):
        print("ready", flush=True)  # noqa: T201 - that is how the test hears of it
        sys.stdin.readline()
    if decision in {"go", "ask"}:
        work = go_on(agent, int(seed), kill_at=int(kill_at), ask_only=decision == "ask")
    else:
        work = agent.aresume(json.loads(decision.removeprefix("@")), approver="ann")
    with contextlib.suppress(SessionError):  # another process was faster
        result = asyncio.run(work)
        waits = [action.call_id for action in result.pendings] if isinstance(result, Interrupt) else None
        print(json.dumps({"waits": waits, "answer": None if waits else result}), flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    main(*sys.argv[1:])
