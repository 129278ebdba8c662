"""What the agent's tests share: a tool that remembers, hooks that remember, and views of a record."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from tracehold import Agent, Interrupt, Scope, SqliteCheckpointStore, Tracer
from tracehold.execution.checkpoints import CheckpointStore
from tracehold.governance.hooks import Hook
from tracehold.testing import ScriptedLLM, tool_calls_reply
from tracehold.tools.base import Tool, ToolParameter, ToolResponse

Result = TypeVar("Result")

PATIENCE = 20
"""Seconds after which something that never happens fails a test, instead of hanging it."""


class Act(Tool):
    """A tool that remembers what it was called with, and gives back, or raises, what it is told.

    Args:
        name: the tool.
        does: a value, an exception, or a (maybe async) function of the parameters that gives one.
        confirm: whether a person must say yes.
        parallel: whether calls may run at the same time.
        entered: the list to remember in; several tools, or "processes", may share one.
    """

    def __init__(
        self,
        name: str = "act",
        does: Any = None,
        *,
        confirm: bool = False,
        parallel: bool = False,
        entered: list[Any] | None = None,
    ) -> None:
        super().__init__(name, f"Does {name}.")
        self.requires_confirmation = confirm
        self.supports_parallel = parallel
        self.does = does
        self.entered: list[Any] = [] if entered is None else entered

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter("n", "integer", "Which.", required=False)]

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        self.entered.append(parameters.get("n"))
        outcome = self.does(parameters) if callable(self.does) else self.does
        if inspect.isawaitable(outcome):
            outcome = await outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return ToolResponse.ok(f"{self.name} {parameters.get('n')}" if outcome is None else str(outcome))


class HookLog(Hook):
    """Writes down what fired, in order, with its arguments."""

    def __init__(self) -> None:
        self.fired: list[tuple[Any, ...]] = []

    def names(self) -> list[str]:
        return [name for name, *_ in self.fired]

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [tuple(told) for fired, *told in self.fired if fired == name]

    def on_run_start(self, input_text: str, *, scope: Scope | None = None) -> None:
        self.fired.append(("on_run_start", input_text, scope))

    def before_model(self, messages: Any) -> None:
        self.fired.append(("before_model", len(messages)))

    def after_model(self, response: Any) -> None:
        self.fired.append(("after_model", str(response)))

    def before_tool(self, name: str, parameters: Any) -> None:
        self.fired.append(("before_tool", name, parameters))

    def after_tool(self, name: str, parameters: Any, result: Any) -> None:
        self.fired.append(("after_tool", name, parameters, str(result)))

    def on_guardrail_trip(self, stage: str, message: str) -> None:
        self.fired.append(("on_guardrail_trip", stage, message))

    def on_interrupt(self, pendings: Any, *, scope: Scope | None = None) -> None:
        self.fired.append(("on_interrupt", list(pendings), scope))

    def on_error(self, error: Exception) -> None:
        self.fired.append(("on_error", error))

    def on_run_end(self, output: Any, *, scope: Scope | None = None) -> None:
        self.fired.append(("on_run_end", output, scope))


def turn(*calls: tuple[str, int] | tuple[str, int, str]) -> Any:
    """A reply that asks for calls: tool, its `n`, and the call's id, default "c" and `n`."""
    return tool_calls_reply(*[(name, {"n": n}, *(rest or (f"c{n}",))) for name, n, *rest in calls])


def agent(
    *replies: Any, tools: Iterable[Tool] = (), name: str = "worker", prompt: str | None = None, **options: Any
) -> Agent:
    """An agent on a scripted model; `agent.harness.llm.calls` is what the model saw."""
    return Agent(name, ScriptedLLM(replies), prompt, tools=list(tools), **options)


def waits(result: str | Interrupt) -> list[str]:
    """The ids of the actions that wait."""
    assert isinstance(result, Interrupt), result
    return [action.call_id for action in result.pendings]


def shown(worker: Agent, call: int = -1) -> list[dict[str, Any]]:
    """The messages of one call of the model."""
    messages: list[dict[str, Any]] = worker.harness.llm.calls[call].messages  # type: ignore[attr-defined]  # scripted
    return messages


def asked(worker: Agent) -> int:
    """How often the model was asked."""
    return len(worker.harness.llm.calls)  # type: ignore[attr-defined]  # scripted


def told(worker: Agent, call: int = -1) -> dict[str, str]:
    """What the model was told about each call, by call id."""
    return {m["tool_call_id"]: m["content"] for m in shown(worker, call) if m["role"] == "tool"}


def of(tracer: Tracer | Sequence[Any], *kinds: str) -> list[Any]:
    events = tracer.events if isinstance(tracer, Tracer) else tracer
    return [event for event in events if event["type"] in kinds]


def only(tracer: Tracer | Sequence[Any], kind: str) -> Any:
    (event,) = of(tracer, kind)
    return event


def denials(tracer: Tracer) -> list[tuple[str, str | None]]:
    """What was stopped: the decision, and the tool or model."""
    return [
        (event["decision"], event.get("tool") or event.get("model") or event.get("name"))
        for event in tracer.events
        if event.get("decision", "allowed") not in {"allowed", "suspended"} and event["type"] != "approval_decision"
    ]


def saved(store: CheckpointStore, scope: Scope | None = None) -> dict[str, Any]:
    """The stored state as plain JSON."""
    text = store.load(scope=scope)
    assert text is not None
    state: dict[str, Any] = json.loads(text)
    return state


def tamper(store: CheckpointStore, change: Any, scope: Scope | None = None) -> None:
    """Change the stored state behind everybody's back."""
    state = saved(store, scope)
    change(state)
    store.save(json.dumps(state), scope=scope)


def rows(store: SqliteCheckpointStore) -> int:
    """How many checkpoints the file holds, under whatever scope."""
    with store._database.reading() as connection:
        count: int = connection.execute("SELECT count(*) FROM run_checkpoints").fetchone()[0]
    return count


async def race(*runs: Coroutine[Any, Any, Result]) -> list[Result | BaseException]:
    return list(await asyncio.wait_for(asyncio.gather(*runs, return_exceptions=True), PATIENCE))
