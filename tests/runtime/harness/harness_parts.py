"""Doubles that the harness's tests share: a model that replays, a tool that remembers, a tracer with `emit` only."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from tracehold import Tracer
from tracehold.core.run_context import enter_run, leave_run, make_run
from tracehold.execution import RunPolicy, new_run_id, reset_run, start_run
from tracehold.execution.limits import Limits
from tracehold.governance.hooks import Hook
from tracehold.harness import Harness
from tracehold.llm.protocol import LLMResponse, StreamStats
from tracehold.observability.event_types import DENIALS
from tracehold.observability.exporters.base import TraceExporter
from tracehold.tools import ToolRegistry
from tracehold.tools.base import Tool, ToolParameter, ToolResponse

Result = TypeVar("Result")
PATIENCE = 20
"""Seconds after which something that never happens fails a test, instead of hanging it."""

MESSAGES = [{"role": "user", "content": "hello"}]


def run(awaitable: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(awaitable)


async def soon(awaitable: Awaitable[Result]) -> Result:
    return await asyncio.wait_for(awaitable, PATIENCE)


async def until(condition: Callable[[], object]) -> None:
    """Give other tasks turns until `condition` holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what is waited for may be on a thread, or in the garbage collector
            await asyncio.sleep(0.001)


@dataclass
class Asked:
    """What one call sent."""

    messages: list[dict[str, Any]]
    options: dict[str, Any]


def reply(content: str = "fine", tokens: int | None = 10, **fields: Any) -> LLMResponse:
    usage = None if tokens is None else {"total_tokens": tokens}
    return LLMResponse(content, **({"finish_reason": "stop", "model": "m-1", "usage": usage} | fields))


class Model:
    """A duck-typed client that replays (LLM-03); what a test does not give, it has not even as an attribute.

    Args:
        replies: one a call: a text, a response, an exception to raise, or a function of the messages. Then `reply()`.
        pieces: what a stream yields; an exception among them is raised, a coroutine function awaited.
        stats: told through `on_stats` when a stream ends, however it ends.
        attributes: such as `context_window` and `protocol`.
    """

    def __init__(
        self, *replies: Any, pieces: Any = ("a", "b", "c"), stats: StreamStats | None = None, **attributes: Any
    ):
        vars(self).update({"model": "client-model"} | attributes)
        self.replies = list(replies)
        self.pieces = pieces
        self.stats = stats
        self.chats: list[Asked] = []
        self.streams: list[Asked] = []
        self.streams_ended = 0

    async def chat(self, messages: list[dict[str, Any]], **options: Any) -> LLMResponse:
        self.chats.append(Asked(copy.deepcopy(messages), options))
        given = self.replies.pop(0) if self.replies else reply()
        if callable(given):
            given = given(messages)
        if inspect.isawaitable(given):
            given = await given
        if isinstance(given, BaseException):
            raise given
        return reply(given) if isinstance(given, str) else given

    async def stream(
        self, messages: list[dict[str, Any]], *, on_stats: Any = None, **options: Any
    ) -> AsyncIterator[Any]:
        self.streams.append(Asked(copy.deepcopy(messages), options))
        try:
            for piece in self.pieces:
                await asyncio.sleep(0)
                if callable(piece):
                    await piece()
                    continue
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.streams_ended += 1
            if self.stats is not None and on_stats is not None:
                on_stats(self.stats)


class Probe(Tool):
    """A tool that remembers its calls and gives back, or raises, what it is told; `does` may be a function."""

    def __init__(
        self,
        name: str = "probe",
        does: Any = "done",
        *,
        confirm: bool = False,
        origin: str = "builtin",
        required: bool = False,
    ) -> None:
        super().__init__(name, f"Does {name}.", origin=origin)
        self.requires_confirmation = confirm
        self.does = does
        self.required = required
        self.runs: list[dict[str, Any]] = []

    def get_parameters(self) -> list[ToolParameter]:
        return [ToolParameter("city", "string", "Where.", required=self.required)]

    async def arun(self, parameters: dict[str, Any]) -> ToolResponse:
        self.runs.append(dict(parameters))
        outcome = self.does(parameters) if callable(self.does) else self.does
        if inspect.isawaitable(outcome):
            outcome = await outcome
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome if isinstance(outcome, ToolResponse) else ToolResponse.ok(str(outcome))


class ThreadProbe(Probe):
    """The same on a worker thread, by the default `arun` (REG-01)."""

    arun = Tool.arun

    def run(self, parameters: dict[str, Any]) -> ToolResponse:
        self.runs.append(dict(parameters))
        return ToolResponse.ok(str(self.does(parameters)))


class HookLog(Hook):
    """Writes down what fired; `also` is a place to tell it to other logs."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.fired: list[Any] = [] if log is None else log

    def names(self) -> list[str]:
        return [name for name, *_ in self.fired]

    def before_model(self, messages: Any) -> None:
        self.fired.append(("before_model", copy.deepcopy(messages)))

    def after_model(self, response: Any) -> None:
        self.fired.append(("after_model", response))

    def before_tool(self, name: str, parameters: Any) -> None:
        self.fired.append(("before_tool", name, dict(parameters)))

    def after_tool(self, name: str, parameters: Any, result: Any) -> None:
        self.fired.append(("after_tool", name, dict(parameters), result))


class Emitter:
    """The least a tracer can be (HAR-07): no other method, no attribute."""

    __slots__ = ("_events",)

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events

    def emit(self, event: dict[str, Any]) -> None:
        assert type(event) is dict
        self._events.append(event)


class ContentExporter(TraceExporter):
    """Like the collector's: it accepts content (DEC-15)."""

    accepts_content = True

    def __init__(self) -> None:
        self.events: list[Any] = []

    def export(self, event: Any) -> None:
        self.events.append(event)


class Refusing:
    """Permissions that deny everything, with a reason, and remember what they judged."""

    def __init__(self, reason: str | BaseException | None = "not today") -> None:
        self.reason = reason
        self.judged: list[Any] = []

    def denial_reason(self, tool: Any) -> str | None:
        self.judged.append(tool)
        if isinstance(self.reason, BaseException):
            raise self.reason
        return self.reason


def registry(*tools: Tool) -> ToolRegistry:
    made = ToolRegistry()
    made.register_all(tools)
    return made


def with_tools(*tools: Tool, **options: Any) -> Harness:
    return Harness(Model(), tool_registry=registry(*tools), **options)


def execute(harness: Harness, parameters: Any = None, *, name: str = "probe", **options: Any) -> ToolResponse:
    return run(harness.aexec_tool(name, {} if parameters is None else parameters, **options))


def of(tracer: Tracer | list[Any], kind: str) -> list[Any]:
    events = tracer if isinstance(tracer, list) else tracer.events
    return [event for event in events if event["type"] == kind]


def only(tracer: Tracer | list[Any], kind: str) -> Any:
    """The one event of `kind`."""
    (event,) = of(tracer, kind)
    return event


def stopped(tracer: Tracer, decision: str) -> Any:
    """The only event there is, which says that a tool call was stopped by `decision`."""
    (event,) = tracer.events
    assert event["type"] == "tool_call"
    assert event["status"] == event["decision"] == decision
    assert decision in DENIALS
    assert event["decided_by"]
    assert event["reason"]
    assert "latency_ms" not in event
    assert "result" not in event
    return event


def yes(tool: Any, parameters: Any) -> bool:
    return True


def no(tool: Any, parameters: Any) -> bool:
    return False


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def in_run(
    policy: RunPolicy | None = None, *, run_id: str | None = None, clock: Clock | None = None, **options: Any
) -> Iterator[str]:
    """A run around the block; with a `clock`, deadlines go by it."""
    run_id = run_id or new_run_id()
    if clock is not None:
        token = enter_run(make_run(run_id, limits=Limits(policy, clock=clock), **options))
        try:
            yield run_id
        finally:
            leave_run(token)
        return
    token = start_run(run_id, policy=policy, **options)
    try:
        yield run_id
    finally:
        reset_run(token)
