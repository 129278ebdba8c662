"""Random schedules of runs, suspensions, crashes, decisions and resumes: what must hold after each of them.

A crash is an exception that no handler stops, raised before or after a random operation on the outside world (a write
or read of a store, an event, a call of the model, the inside of a tool); from then on that "process" can do nothing
any more. The next one is a fresh agent on the same files. Nothing here uses threads, so that a schedule repeats
exactly.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agent_parts import rows
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.profile import SOAK
from tracehold import (
    Agent,
    AgentTool,
    Interrupt,
    Scope,
    SessionError,
    SqliteCheckpointStore,
    SqliteSessionStore,
    ToolPermissions,
    Tracer,
)
from tracehold.agent.journal import Journal
from tracehold.execution.state import ExecutionState
from tracehold.governance.canonical import action_digest
from tracehold.observability.exporters.base import TraceExporter
from tracehold.testing import ScriptedLLM, tool_calls_reply
from tracehold.tools.base import Tool, ToolParameter, ToolResponse

LEVELS = ("boss", "helper", "deep")
SIMPLE = ("plain", "parallel", "fails", "pay", "payfails", "unknown", "denied")
FOR_APPROVAL = {"pay", "payfails"}
UNKNOWN = "outcome is unknown"


@dataclass(frozen=True)
class Wish:
    """A call that a model will ask for: a simple kind, or a sub-agent with turns of its own."""

    kind: str
    turns: tuple[tuple[Wish, ...], ...] = ()
    n: int = 0


def _wishes(level: int) -> st.SearchStrategy[Wish]:
    simple = st.sampled_from(SIMPLE).map(Wish)
    if level == len(LEVELS) - 1:
        return simple
    inner = st.lists(st.lists(_wishes(level + 1), min_size=1, max_size=2).map(tuple), min_size=1, max_size=2)
    return st.one_of(simple, simple, simple, inner.map(lambda turns: Wish("sub", tuple(turns))))


SCRIPTS = st.lists(st.lists(_wishes(0), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)
CRASHES = st.one_of(st.none(), st.integers(1, 40), st.integers(1, 120))


class Killed(BaseException):
    """The process ends here."""


class Power:
    """Counts what a process does to the outside world, and goes out at a given count."""

    def __init__(self, lasts: int | None) -> None:
        self._left = lasts
        self.out = False

    def tick(self) -> None:
        if self._left is not None:
            self._left -= 1
            self.out = self.out or self._left <= 0
        if self.out:
            raise Killed


@dataclass
class World:
    """What outlives processes: the files, the record, and what really happened."""

    folder: Path
    scripts: dict[str, tuple[tuple[Wish, ...], ...]] = field(default_factory=dict)
    entered: Counter[int] = field(default_factory=Counter)
    events: list[Any] = field(default_factory=list)
    asked: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    """The messages of the last call of an agent's model on a task."""


class Recorder(TraceExporter):
    def __init__(self, world: World, power: Power) -> None:
        self._world, self._power = world, power

    def export(self, event: Any) -> None:
        self._power.tick()
        self._world.events.append(event)
        self._power.tick()


class Checkpoints(SqliteCheckpointStore):
    """The real store, without threads, on power that may go out."""

    def __init__(self, path: Path, power: Power) -> None:
        super().__init__(path)
        self._power = power

    async def aload(self, *, scope: Scope | None = None) -> str | None:
        self._power.tick()
        return self.load(scope=scope)

    async def aclear(self, *, scope: Scope | None = None) -> None:
        self._power.tick()
        self.clear(scope=scope)
        self._power.tick()

    async def areplace(self, expected: str | None, state_json: str | None, *, scope: Scope | None = None) -> bool:
        await asyncio.sleep(0)  # as with a thread, others come in between
        self._power.tick()
        done = self.replace(expected, state_json, scope=scope)
        self._power.tick()
        return done


class Sessions(SqliteSessionStore):
    def __init__(self, path: Path, power: Power) -> None:
        super().__init__(path)
        self._power = power

    async def aload(self, **options: Any) -> Any:
        self._power.tick()
        return self.load(**options)

    async def aappend_many(self, messages: Any, *, scope: Scope | None = None) -> None:
        self._power.tick()
        self.append_many(messages, scope=scope)
        self._power.tick()


class Body(Tool):
    """A tool that remembers each time its body is entered."""

    def __init__(self, kind: str, world: World, power: Power) -> None:
        super().__init__(kind, f"Does {kind}.")
        self.requires_confirmation = kind in FOR_APPROVAL
        self.supports_parallel = kind in {"parallel", "pay"}
        self._world, self._power = world, power

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter("n", "integer", "Which.")]

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        self._power.tick()
        self._world.entered[parameters["n"]] += 1
        self._power.tick()
        await asyncio.sleep(0)
        self._power.tick()
        if self.name.endswith("fails"):
            raise ValueError(f"{self.name} {parameters['n']}")
        return ToolResponse.ok(f"{self.name} {parameters['n']}")


class Process:
    """One process: agents of three levels on the world's files."""

    def __init__(self, world: World, *, lasts: int | None = None, ttl_s: float | None = None) -> None:
        self.power = Power(lasts)
        self._world = world
        self._opened = [
            Checkpoints(world.folder / "runs.db", self.power),
            Sessions(world.folder / "talk.db", self.power),
        ]
        tracer = Tracer(exporters=[Recorder(world, self.power)], strict=True)
        inner: list[Tool] = []
        for name in reversed(LEVELS):
            self.agent = Agent(
                name,
                ScriptedLLM(itertools.repeat(lambda messages, name=name: self._reply(name, messages))),
                tools=[*(Body(kind, world, self.power) for kind in SIMPLE if kind != "unknown"), *inner],
                permissions=ToolPermissions(deny=["denied"]),
                checkpoint_store=self._opened[0],  # type: ignore[arg-type]  # the first is one
                session_store=self._opened[1],  # type: ignore[arg-type]  # the second is one
                tracer=tracer,
                approval_ttl_s=ttl_s,
            )
            inner = [AgentTool(self.agent)]

    def _reply(self, name: str, messages: list[dict[str, Any]]) -> Any:
        self.power.tick()
        at = max(index for index, message in enumerate(messages) if message["role"] == "user")
        task = messages[at]["content"]
        self._world.asked[name, task] = messages[at + 1 :]
        done = sum(message["role"] == "assistant" for message in messages[at:])
        turns = self._world.scripts[task]
        if done == len(turns):
            return f"done {task}"
        # Ids that come again in each turn and each agent, as some models give them.
        return tool_calls_reply(*[(*self._call(name, wish), f"call_{at}") for at, wish in enumerate(turns[done])])

    def _call(self, name: str, wish: Wish) -> tuple[str, dict[str, Any]]:
        if wish.kind == "sub":
            return LEVELS[LEVELS.index(name) + 1], {"task": f"task {wish.n}"}
        return wish.kind, {"n": wish.n}

    def close(self) -> None:
        for store in self._opened:
            store.close()


@dataclass
class Current:
    """The run that is going on, and what people said about its actions."""

    text: str
    run_id: str
    ttl_s: float | None
    waits: Interrupt | None = None
    stuck: bool = True
    """Whether nothing can be done before a person decides: a crash may leave something to go on with as well."""
    crashes: int = 0
    mismatches: Counter[int] = field(default_factory=Counter)


class Schedules(RuleBasedStateMachine):
    """Any order of what may happen to runs in one scope."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Path(tempfile.mkdtemp()))
        self.numbers = itertools.count(1)
        self.current: Current | None = None
        self.conversation: list[str] = []
        self.decided: dict[int, bool] = {}
        self.kinds: dict[int, str] = {}

    def teardown(self) -> None:
        if self.current is not None:
            self._finish_with(approve=True)
        shutil.rmtree(self.world.folder)

    # What may happen

    @precondition(lambda self: self.current is None)
    @rule(script=SCRIPTS, crash=CRASHES, expires=st.sampled_from([False, False, False, True]))
    def start(self, script: Any, crash: int | None, *, expires: bool) -> None:
        text = f"run {next(self.numbers)}"
        self.world.scripts[text] = self._numbered(script)
        note(f"{text}: {self.world.scripts[text]}")
        self.current = Current(text, f"id-{text}", 1e-9 if expires else None)
        self._do(crash, lambda process: process.agent.arun(text, run_id=f"id-{text}"))

    @precondition(lambda self: self.current is not None)
    @rule()
    def start_another(self) -> None:
        text = f"run {next(self.numbers)}"
        process = self._process()
        self.world.scripts[text] = ()
        if self._kept().completed:
            # Only the clean-up of the last one was missing (EXEC-05).
            assert asyncio.run(process.agent.arun(text)) == f"done {text}"
            self._check(then=[text, f"done {text}"])
        else:
            with pytest.raises(SessionError, match="resume it, or clear its checkpoint, first"):
                asyncio.run(process.agent.arun(text))
        process.close()

    @precondition(lambda self: self.current is not None and self.current.waits is not None)
    @rule(approve=st.booleans(), crash=CRASHES)
    def decide_all(self, crash: int | None, *, approve: bool) -> None:
        for action in self._waiting():
            self._note_try(action, approve)
        self._do(crash, lambda process: process.agent.aresume(approve, approver="ann"))

    @precondition(lambda self: self.current is not None and self.current.waits is not None)
    @rule(data=st.data(), crash=CRASHES)
    def decide_some(self, data: st.DataObject, crash: int | None) -> None:
        told = self._some(data)
        self._do(crash, lambda process: process.agent.aresume(told))

    @precondition(lambda self: self.current is not None and self.current.waits is not None)
    @rule(data=st.data(), crash=CRASHES)
    def decide_on_something_else_than_was_shown(self, data: st.DataObject, crash: int | None) -> None:
        action = data.draw(st.sampled_from(self._waiting()))
        self._note_try(action, approve=True, fits=False)
        seen = {action.call_id: "sha256:" + "0" * 64}
        self._do(crash, lambda process: process.agent.aresume({action.call_id: True}, seen=seen))

    @precondition(lambda self: self.current is not None and self.current.waits is not None)
    @rule(data=st.data())
    def decide_twice_at_once(self, data: st.DataObject) -> None:
        told = self._some(data)
        seen = {action.call_id: action.digest or "" for action in self._waiting()}
        processes = [self._process() for _ in range(2)]

        async def both() -> list[Any]:
            resumes = [process.agent.aresume(told, seen=seen) for process in processes]
            return await asyncio.gather(*resumes, return_exceptions=True)

        results = asyncio.run(both())
        for process in processes:
            process.close()
        errors = [result for result in results if isinstance(result, BaseException)]
        assert len(errors) < 2, errors
        assert all(isinstance(error, SessionError | ValueError) for error in errors), errors
        # The slower one may have met the questions of the next turn; they stand as they are.
        outputs = [result for result in results if isinstance(result, str)]
        assert len(outputs) < 2
        self._settle(outputs[0] if outputs else self._pending())

    @precondition(lambda self: self.current is not None and not self.current.stuck)
    @rule(decision=st.sampled_from([None, True, {}]), crash=CRASHES)
    def go_on_after_a_crash(self, decision: Any, crash: int | None) -> None:
        assert self.current is not None
        if decision is True and self.current.waits is not None:
            for action in self._waiting():
                self._note_try(action, approve=True)
        if decision is True and self.current.waits is None:
            decision = None  # with nothing to decide on a yes is refused: see test_approvals
        self._do(crash, lambda process: process.agent.aresume(decision))

    @precondition(lambda self: self.current is not None and self.current.waits is not None and self.current.stuck)
    @rule()
    def go_on_without_a_decision(self) -> None:
        process = self._process()
        with pytest.raises(ValueError, match="wait for a decision"):
            asyncio.run(process.agent.aresume())
        process.close()

    @precondition(lambda self: self.current is not None and self.current.waits is not None)
    @rule(nonsense=st.sampled_from([{"call_7": True}, {"call_0": 1}, "yes", 1]))
    def decide_nonsense(self, nonsense: Any) -> None:
        before = self._pending()
        process = self._process()
        with pytest.raises((TypeError, ValueError)):
            asyncio.run(process.agent.aresume(nonsense))
        process.close()
        assert self._pending() == before

    # What must hold at all times

    @invariant()
    def no_tool_is_entered_twice(self) -> None:
        assert [n for n, times in self.world.entered.items() if times > 1] == []

    @invariant()
    def what_needs_approval_is_entered_only_with_one(self) -> None:
        for n in self.world.entered:
            if self.kinds[n] in FOR_APPROVAL:
                assert self.decided.get(n) is True, f"call {n} was entered"

    @invariant()
    def what_is_shown_as_pending_is_what_waits(self) -> None:
        if self.current is None:
            assert self._pending() is None
        else:
            assert self._pending() == self.current.waits

    # How it is done

    def _numbered(self, script: Any) -> Any:
        return tuple(tuple(self._numbered_wish(wish) for wish in turn) for turn in script)

    def _numbered_wish(self, wish: Wish) -> Wish:
        n = next(self.numbers)
        self.kinds[n] = wish.kind
        turns = self._numbered(wish.turns)
        if wish.kind == "sub":
            self.world.scripts[f"task {n}"] = turns
        return Wish(wish.kind, turns, n)

    def _process(self, lasts: int | None = None) -> Process:
        return Process(self.world, lasts=lasts, ttl_s=self.current.ttl_s if self.current is not None else None)

    def _waiting(self) -> list[Any]:
        assert self.current is not None
        assert self.current.waits is not None
        return self.current.waits.pendings

    def _pending(self) -> Interrupt | None:
        process = self._process()
        try:
            return asyncio.run(process.agent.apending())
        finally:
            process.close()

    def _some(self, data: st.DataObject) -> dict[str, bool]:
        waiting = self._waiting()
        chosen = data.draw(st.lists(st.sampled_from(waiting), unique_by=lambda action: action.call_id))
        told = {action.call_id: data.draw(st.booleans()) for action in chosen}
        for action in chosen:
            self._note_try(action, told[action.call_id])
        return told

    def _note_try(self, action: Any, approve: bool, *, fits: bool = True) -> None:
        """Whatever was tried before had no effect, or the action would not wait any more: the last try counts."""
        assert self.current is not None
        n = action.arguments["n"]
        if fits:
            self.decided[n] = approve and self.current.ttl_s is None
        else:
            self.decided.pop(n, None)
            self.current.mismatches[n] += 1

    def _do(self, crash: int | None, act: Any) -> None:
        process = self._process(crash)
        try:
            result = asyncio.run(act(process))
        except Killed:
            self._crashed()
        else:
            self._settle(result)
        finally:
            process.close()

    def _crashed(self) -> None:
        current = self.current
        assert current is not None
        current.crashes += 1
        if self._checkpoint() is not None:
            current.waits = self._pending()
            current.stuck = Journal(None, None, self._kept()).stuck
        elif self._said(current.text):
            self._check()  # it was over and cleared when the power went
        else:
            # Nothing was kept, and nothing was done: the first tool comes after the first write.
            assert not any(self.world.entered[n] for n in self._numbers(current.text))
            self.current = None

    def _checkpoint(self) -> str | None:
        store = SqliteCheckpointStore(self.world.folder / "runs.db")
        text = store.load()
        store.close()
        return text

    def _kept(self) -> ExecutionState:
        text = self._checkpoint()
        assert text is not None
        return ExecutionState.from_json(text)

    def _settle(self, result: str | Interrupt | None) -> None:
        assert self.current is not None
        if isinstance(result, Interrupt):
            self.current.waits, self.current.stuck = result, True
            for action in result.pendings:
                assert action.tool_name == self.kinds[action.arguments["n"]]
                assert action.digest == action_digest(action.tool_name, action.arguments)
                # It is asked about anew, so no decision on it stands.
                self.decided.pop(action.arguments["n"], None)
            return
        assert result == f"done {self.current.text}"
        self._check()

    def _finish_with(self, *, approve: bool) -> None:
        for _ in range(60):
            if self.current is None:
                return
            if self.current.waits is not None and self.current.stuck:
                self.decide_all(crash=None, approve=approve)
            else:
                self._do(None, lambda process: process.agent.aresume())
        raise AssertionError("the run does not come to its end")

    # What must hold when a run is over

    def _check(self, *, then: list[str] | None = None) -> None:
        current = self.current
        assert current is not None
        self.current = None
        self.conversation += [current.text, f"done {current.text}", *(then or [])]
        talk = SqliteSessionStore(self.world.folder / "talk.db")
        assert [message.content for message in talk.load()] == self.conversation
        for level in LEVELS[1:]:
            said = Counter(message.content for message in talk.load(scope=Scope(agent=level)))
            assert set(said.values()) <= {1}, "a sub-agent's conversation is stored once"
        talk.close()
        store = SqliteCheckpointStore(self.world.folder / "runs.db")
        assert rows(store) == 0, "nothing is left of it or of what was inside it"
        store.close()
        self._check_conversation(current, "boss", current.text)
        self._check_run_events(current)

    def _said(self, text: str) -> bool:
        talk = SqliteSessionStore(self.world.folder / "talk.db")
        contents = [message.content for message in talk.load()]
        talk.close()
        return f"done {text}" in contents

    def _numbers(self, text: str) -> list[int]:
        found: list[int] = []
        for turn in self.world.scripts[text]:
            for wish in turn:
                found.append(wish.n)
                if wish.kind == "sub":
                    found += self._numbers(f"task {wish.n}")
        return found

    def _check_conversation(self, current: Current, agent: str, task: str) -> None:
        """The model was told about each call, in order, and what it was told is what happened."""
        wanted = [wish for turn in self.world.scripts[task] for wish in turn]
        ids = [f"call_{at}" for turn in self.world.scripts[task] for at, _ in enumerate(turn)]
        told = [message for message in self.world.asked[agent, task] if message["role"] == "tool"]
        assert [message["tool_call_id"] for message in told] == ids
        for wish, message in zip(wanted, told, strict=True):
            self._check_told(current, wish, message["content"])
            self._check_events(current, wish, told_unknown=UNKNOWN in message["content"])
            if wish.kind == "sub":
                self._check_conversation(current, LEVELS[LEVELS.index(agent) + 1], f"task {wish.n}")

    def _check_told(self, current: Current, wish: Wish, text: str) -> None:
        entered = self.world.entered[wish.n]
        if UNKNOWN in text:
            assert current.crashes, "only a crash makes an outcome unknown"
            assert wish.kind in {"plain", "parallel", "fails", "pay", "payfails"}
            return
        if wish.kind in FOR_APPROVAL and not self.decided[wish.n]:
            assert entered == 0
            assert ("had expired" if current.ttl_s else "a person rejected") in text
            return
        if wish.kind == "unknown":
            assert "does not exist" in text
        elif wish.kind == "denied":
            assert "was not run" in text
        elif wish.kind == "sub":
            assert text == f"done task {wish.n}"
        else:
            assert entered == 1
            assert f"{wish.kind} {wish.n}" in text
            return
        assert entered == 0

    def _check_events(self, current: Current, wish: Wish, *, told_unknown: bool) -> None:
        """Each call has its event.

        Without a crash: exactly one, beside one request for each time a person was asked. A crash loses none: what
        was in flight is told again, or as of unknown outcome. What it may repeat:

        - "outcome unknown", under the same event id;
        - the event of a call that a gate stopped, of a sub-agent's call, and a request, when it fell between the event
          and the write after it;
        - beside the event of a call that ran, "outcome unknown", when it fell between that event and the write.
        """
        arguments = {"task": f"task {wish.n}"} if wish.kind == "sub" else {"n": wish.n}
        events = [event for event in self.world.events if event.get("params") == arguments]
        calls = [event for event in events if event["type"] == "tool_call" and event["status"] != "suspended"]
        lost = [event for event in calls if event.get("error_type") == "OutcomeUnknown"]
        others = [event for event in calls if event not in lost]
        assert {event["run_id"] for event in events} == {current.run_id}
        assert len({event["event_id"] for event in lost}) == (1 if told_unknown else 0)
        assert calls
        decision = self._decision(current, wish)
        assert {event.get("decision") for event in others} <= {decision}
        if decision not in {"allowed", None} or wish.kind == "sub":
            assert 1 <= len(others) <= 1 + current.crashes
        else:
            assert len(others) <= 1
            assert len(others) == 1 or told_unknown
        if not current.crashes:
            assert len(calls) == 1
        if wish.kind in FOR_APPROVAL:
            self._check_approval(current, wish, events, decision)

    def _decision(self, current: Current, wish: Wish) -> str | None:
        if wish.kind == "unknown":
            return "unknown_tool"
        if wish.kind == "denied":
            return "denied"
        if wish.kind in FOR_APPROVAL and not self.decided[wish.n]:
            return "expired" if current.ttl_s else "rejected"
        return "allowed"

    def _check_approval(self, current: Current, wish: Wish, events: list[Any], decision: str | None) -> None:
        digest = action_digest(wish.kind, {"n": wish.n})
        requests = [event for event in events if event["type"] == "approval_request"]
        assert {event["digest"] for event in requests} == {digest}
        asked = 1 + current.mismatches[wish.n]
        if not current.crashes:
            assert len(requests) == asked
        assert len(requests) >= 1
        said = [
            event for event in self.world.events if event["type"] == "approval_decision" and event["digest"] == digest
        ]
        assert {event["decision"] for event in said} == {decision}
        # A crash may repeat it; it is one decision, under one id.
        assert len({event["event_id"] for event in said}) == 1
        if not current.crashes:
            assert len(said) == 1

    def _check_run_events(self, current: Current) -> None:
        own = [event for event in self.world.events if event["run_id"] == current.run_id]
        ends = [event["status"] for event in own if event["type"] == "run_end" and event["status"] == "ok"]
        assert len(ends) <= 1
        if not current.crashes:
            assert len(ends) == 1
            steps = [event["step_index"] for event in own]
            assert len(steps) == len(set(steps))


TestSchedules = pytest.mark.timeout(3600 if SOAK else 120)(Schedules.TestCase)
TestSchedules.settings = settings(stateful_step_count=15)
