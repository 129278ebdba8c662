"""Runs at the same time, of any shape, in one process and one Tracer: each is recorded as if it were alone."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import random
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from correlation_parts import (
    WITH_CONTEXT,
    Event,
    Job,
    agent_of,
    ancestors,
    assert_well_formed,
    by_run,
    carrier,
    place,
    tool_of,
)
from hypothesis import given
from hypothesis import strategies as st
from support.profile import SOAK
from tracehold import (
    Agent,
    AgentTool,
    RunPolicy,
    Scope,
    SqliteCheckpointStore,
    SqliteSessionStore,
    Tracer,
    current_trace_carrier,
    governed_chat,
    tool,
)
from tracehold.harness import Harness
from tracehold.testing import ScriptedLLM, tool_call_reply, tool_calls_reply

MESSAGES = [{"role": "user", "content": "hello"}]
LEAVES = ("event", "span", "governed", "stream", "denied")


@dataclass
class Node:
    """An agent and what it does: leaves, and agents that it hands work to.

    Attributes:
        way: how the agent above hands over to it.
        leaves: what it does itself, each in a tool call.
        below: agents it hands over to, each in a tool call.
        together: whether it asks for all calls in one turn.
    """

    way: str = "awaited"
    leaves: tuple[str, ...] = ()
    below: tuple[Node, ...] = ()
    together: bool = False


def nodes(depth: int) -> st.SearchStrategy[Node]:
    below = st.just(()) if depth == 0 else st.lists(nodes(depth - 1), max_size=2).map(tuple)
    return st.builds(
        Node,
        st.sampled_from(sorted(WITH_CONTEXT)),
        st.lists(st.sampled_from(LEAVES), max_size=2).map(tuple),
        below,
        st.booleans(),
    )


def random_node(source: random.Random, depth: int = 3) -> Node:
    return Node(
        source.choice(sorted(WITH_CONTEXT)),
        tuple(source.choices(LEAVES, k=source.randrange(3))),
        tuple(random_node(source, depth - 1) for _ in range(source.randrange(3) if depth else 0)),
        source.random() < 0.5,
    )


@dataclass
class Forest:
    """Runs that go on at the same time, each with an upstream carrier and a scope of its own."""

    roots: list[Node]
    tracer: Tracer = field(default_factory=Tracer)
    seen: dict[str, set[Any]] = field(default_factory=dict)

    async def grow(self) -> None:
        await asyncio.gather(*(self._run(number, root) for number, root in enumerate(self.roots)))

    async def _run(self, number: int, root: Node) -> None:
        name = f"r{number}"
        agent = agent_of(self.tracer, name, self._jobs(root, name), together=root.together, run_policy=RunPolicy())
        await agent.arun("go", scope=Scope(user=name), run_id=f"run-{number}", trace_carrier=carrier(number))

    def _jobs(self, node: Node, name: str) -> dict[str, Job]:
        jobs: dict[str, Job] = {
            f"leaf-{name}-{number}": self._leaf(leaf, name) for number, leaf in enumerate(node.leaves)
        }
        for number, inner in enumerate(node.below):
            jobs[f"branch-{name}-{number}"] = self._branch(inner, f"{name}-{number}")
        return jobs

    def _branch(self, node: Node, name: str) -> Job:
        async def nested() -> None:
            self._look(name)
            # A run's own id and carrier hold inside: what a nested one brings is ignored (EXEC-10).
            agent = agent_of(self.tracer, name, self._jobs(node, name), together=node.together)
            await agent.arun("go", run_id="ignored", trace_carrier=carrier(999))
            self._look(name)

        return lambda: WITH_CONTEXT[node.way](nested)

    def _leaf(self, leaf: str, name: str) -> Job:
        async def work() -> None:
            self._look(name)
            await self._do(leaf, name)
            await asyncio.sleep(0)
            self._look(name)

        return work

    async def _do(self, leaf: str, name: str) -> None:
        harness = Harness(ScriptedLLM(["a text in pieces"]), tracer=self.tracer)
        match leaf:
            case "event":
                self.tracer.emit({"type": "rag_retrieve", "who": name})
            case "span":
                async with self.tracer.span("piece"):
                    await asyncio.sleep(0)
            case "governed":
                await governed_chat(ScriptedLLM(["x"]), MESSAGES, tracer=self.tracer, origin="memory")
            case "stream":
                async for _ in harness.astream_llm(MESSAGES):
                    await asyncio.sleep(0)
            case "denied":
                await harness.aexec_tool("ghost", {})

    def _look(self, name: str) -> None:
        self.seen.setdefault(name.partition("-")[0], set()).add((*place()[:2], str(current_trace_carrier())))


def tree_of(events: list[Event]) -> dict[str, str]:
    """Who acts below which call: agent by the name of the tool call directly above it."""
    spans = {event["span_id"]: event for event in events}
    return {
        event["name"]: spans[event["parent_span_id"]]["tool"]
        for event in events
        if event["type"] == "span" and event.get("kind") == "agent"
    }


def wanted_tree(node: Node, name: str) -> dict[str, str]:
    tree: dict[str, str] = {}
    for number, inner in enumerate(node.below):
        tree[f"{name}-{number}"] = f"branch-{name}-{number}"
        tree |= wanted_tree(inner, f"{name}-{number}")
    return tree


def check(forest: Forest) -> None:
    runs = by_run(forest.tracer.events)
    assert set(runs) == {f"run-{number}" for number in range(len(forest.roots))}
    for number, root in enumerate(forest.roots):
        name, events = f"r{number}", runs[f"run-{number}"]
        assert_well_formed(events, upstream=carrier(number))
        assert {event["agent"].partition("-")[0] for event in events} == {name}
        assert {event["user"] for event in events} == {name}
        assert tree_of(events) == wanted_tree(root, name)
        for event in events:
            check_place(event, events)
    for name, seen in forest.seen.items():
        number = int(name[1:])
        assert seen == {(f"run-{number}", Scope(user=name), str(carrier(number)))}


def check_place(event: Event, events: list[Event]) -> None:
    """Whoever acts is the agent whose span is the nearest one above."""
    above = [other for other in ancestors(event, events) if other["type"] == "run_end" or other.get("kind") == "agent"]
    if above and event.get("kind") != "agent":
        assert event["agent"] == above[0]["agent"]
    if event["type"] == "tool_call":
        assert event["tool"] == "ghost" or event["tool"].startswith(("leaf-", "branch-"))


@pytest.mark.parametrize("seed", range(20) if SOAK else range(2))
def test_fifty_runs_at_once_do_not_mix(seed: int) -> None:  # EXEC-08, EXEC-10, EXEC-11, EXEC-12
    source = random.Random(seed)
    forest = Forest([random_node(source) for _ in range(50)])
    asyncio.run(forest.grow())
    check(forest)


@given(st.lists(nodes(2), min_size=1, max_size=3))
def test_runs_of_any_shape_are_one_tree_each(roots: list[Node]) -> None:  # EXEC-08, EXEC-10, EXEC-11, FR-09
    forest = Forest(roots)
    asyncio.run(forest.grow())
    check(forest)


def test_runs_on_threads_of_their_own_do_not_mix() -> None:  # EXEC-08: a web server with a thread a request
    source = random.Random(7)
    forest = Forest([random_node(source, 2) for _ in range(12)])

    async def all_at_once() -> None:
        one_each = (
            asyncio.to_thread(lambda number=number, root=root: asyncio.run(forest._run(number, root)))
            for number, root in enumerate(forest.roots)
        )
        await asyncio.gather(*one_each)

    asyncio.run(all_at_once())
    check(forest)


def test_one_agent_object_serves_many_runs_at_once(tmp_path: Path) -> None:  # EXEC-08, SES-05
    tracer = Tracer()
    seen: dict[str, set[Any]] = {}

    @tool
    async def look(who: str) -> str:
        """Look around."""
        for _ in range(3):
            seen.setdefault(who, set()).add((*place()[:2], str(current_trace_carrier())))
            await asyncio.sleep(0)
        tracer.emit({"type": "rag_retrieve", "who": who})
        return who

    def answer(messages: list[Any]) -> Any:
        last = messages[-1]
        return "done" if last["role"] == "tool" else tool_call_reply("look", {"who": last["content"]}, call_id="c1")

    sessions = SqliteSessionStore(str(tmp_path / "sessions.db"))
    checkpoints = SqliteCheckpointStore(str(tmp_path / "runs.db"))
    agent = Agent(
        "shared",
        ScriptedLLM(itertools.repeat(answer)),
        tools=[look],
        tracer=tracer,
        session_store=sessions,
        checkpoint_store=checkpoints,
    )

    async def all_at_once() -> None:
        runs = (
            agent.arun(
                f"r{number}", scope=Scope(user=f"r{number}"), run_id=f"run-{number}", trace_carrier=carrier(number)
            )
            for number in range(20)
        )
        await asyncio.gather(*runs)

    with contextlib.closing(sessions), contextlib.closing(checkpoints):
        asyncio.run(all_at_once())
    for number in range(20):
        events, name = by_run(tracer.events)[f"run-{number}"], f"r{number}"
        assert_well_formed(events, upstream=carrier(number))
        assert [event["who"] for event in events if event["type"] == "rag_retrieve"] == [name]
        assert {event["user"] for event in events} == {name}
        assert seen[name] == {(f"run-{number}", Scope(user=name), str(carrier(number)))}


def test_events_from_many_threads_of_one_run_have_steps_without_gap_or_repeat(tracer: Tracer) -> None:
    # EXEC-11: a counter that two threads may read at once repeats a step now and then
    start = threading.Barrier(8)

    def emit_many() -> None:
        start.wait()
        for _ in range(200):
            tracer.emit({"type": "rag_retrieve"})

    async def spread() -> None:
        with ThreadPoolExecutor(8) as pool:
            done = [pool.submit(contextvars.copy_context().run, emit_many) for _ in range(8)]
            await asyncio.gather(*map(asyncio.wrap_future, done))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        agent_of(tracer, "outer", {"spread": spread}).run("go")
    finally:
        sys.setswitchinterval(interval)
    assert_well_formed(tracer.events)
    assert len(tracer.events) == 8 * 200 + 5


def test_without_a_tracer_a_run_is_still_a_run() -> None:  # EXEC-08, EXEC-10, HAR-07
    seen: list[Any] = []

    async def look() -> None:
        seen.append(place())

    async def nested() -> None:
        await Agent("inner", ScriptedLLM([tool_call_reply("look"), "x"]), tools=[tool_of("look", look)]).arun("x")

    outer = Agent("outer", ScriptedLLM([tool_call_reply("nest"), "done"]), tools=[tool_of("nest", nested)])
    assert outer.run("go", run_id="r1", scope=Scope(user="u"), trace_carrier=carrier(1)) == "done"
    assert seen == [("r1", Scope(user="u"), carrier(1))]


def outcome(events: list[Event]) -> Mapping[str, Any]:
    return {event["name"]: event["status"] for event in events if event.get("kind") == "agent"}


def test_sub_agents_of_one_turn_share_the_run_and_not_their_spans(tracer: Tracer) -> None:
    # EXEC-10, REG-02: three at once, each with three more at once
    entered: list[str] = []
    all_there = asyncio.Event()

    async def meet() -> None:
        entered.append(str(place()[0]))
        if len(entered) == 9:
            all_there.set()
        await all_there.wait()
        await governed_chat(ScriptedLLM(["x"]), MESSAGES, tracer=tracer, origin="memory")

    def team(name: str, members: list[Any]) -> Any:
        asked = tool_calls_reply(*((member.name, {"task": "x"}) for member in members))
        return Agent(name, ScriptedLLM([asked, "done"]), tools=[AgentTool(member) for member in members], tracer=tracer)

    teams = [
        team(f"t{one}", [agent_of(tracer, f"t{one}-{two}", {"meet": meet}) for two in range(3)]) for one in range(3)
    ]
    assert team("lead", teams).run("go", trace_carrier=carrier(1)) == "done"
    assert_well_formed(tracer.events, upstream=carrier(1))
    assert set(entered) == {tracer.events[0]["run_id"]}
    assert set(outcome(tracer.events)) == {"t0", "t1", "t2"} | {f"t{one}-{two}" for one in range(3) for two in range(3)}
    for event in tracer.events:
        if event.get("origin") == "memory":
            names = [other.get("tool") or other["name"] for other in ancestors(event, tracer.events)]
            member = event["agent"]
            assert names == ["meet", member, member, member[:2], member[:2], "lead"]
