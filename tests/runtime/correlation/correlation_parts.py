"""What the tests of correlation share: ways to send work elsewhere, and what a well-formed run looks like."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

from tracehold import Agent, Tool, Tracer, tool
from tracehold.execution import current_run_id, current_scope, current_trace_carrier
from tracehold.testing import ScriptedLLM, tool_call_reply, tool_calls_reply

Event: TypeAlias = Mapping[str, Any]
Job: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]
Way: TypeAlias = Callable[[Job], Awaitable[Any]]

PATIENCE_S = 60
"""After which something that never happens fails a test, instead of hanging it."""


def carrier(number: int) -> dict[str, str]:
    """An upstream W3C carrier that says its number in both ids."""
    return {"traceparent": f"00-{number + 1:032x}-{number + 1:016x}-01"}


def trace_of(carrier_: Mapping[str, str]) -> str:
    return carrier_["traceparent"][3:35]


def span_of(carrier_: Mapping[str, str]) -> str:
    return carrier_["traceparent"][36:52]


def place() -> tuple[Any, Any, Any]:
    """Which run this code is part of, for whom, and from where."""
    return current_run_id(), current_scope(), current_trace_carrier()


# Ways in which a tool hands work on. A job is a coroutine function; on another thread it gets a loop of its own.


async def _awaited(job: Job) -> Any:
    return await job()


async def _task(job: Job) -> Any:
    return await asyncio.create_task(job())


async def _gather(job: Job) -> Any:
    return (await asyncio.gather(job()))[0]


async def _task_group(job: Job) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(job())
    return task.result()


async def _shielded(job: Job) -> Any:
    return await asyncio.shield(job())


async def _callback(job: Job) -> Any:
    loop = asyncio.get_running_loop()
    started: asyncio.Future[asyncio.Task[Any]] = loop.create_future()
    loop.call_soon(lambda: started.set_result(loop.create_task(job())))
    return await (await started)


async def _from_another_thread_s_callback(job: Job) -> Any:
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
    started: asyncio.Future[asyncio.Task[Any]] = loop.create_future()
    schedule = lambda: loop.call_soon_threadsafe(  # noqa: E731 - what the thread does, said where it is started
        lambda: started.set_result(loop.create_task(job())), context=context
    )
    threading.Thread(target=schedule).start()
    return await (await started)


async def _to_thread(job: Job) -> Any:
    return await asyncio.to_thread(lambda: asyncio.run(job()))


async def _submit_with_context(job: Job) -> Any:
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.wrap_future(pool.submit(context.run, lambda: asyncio.run(job())))


async def _map_with_context(job: Job) -> Any:
    contexts = [contextvars.copy_context()]
    with ThreadPoolExecutor(1) as pool:
        return next(iter(pool.map(lambda context: context.run(lambda: asyncio.run(job())), contexts)))


async def _thread_with_context(job: Job) -> Any:
    return await _on_a_thread(contextvars.copy_context(), job)


async def _submit(job: Job) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.wrap_future(pool.submit(lambda: asyncio.run(job())))


async def _map(job: Job) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return next(iter(pool.map(lambda work: asyncio.run(work()), [job])))


async def _run_in_executor(job: Job) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(job()))


async def _thread(job: Job) -> Any:
    return await _on_a_thread(contextvars.Context(), job)


async def _on_a_thread(context: contextvars.Context, job: Job) -> Any:
    done: Future[Any] = Future()

    def work() -> None:
        try:
            done.set_result(context.run(lambda: asyncio.run(job())))
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            done.set_exception(error)

    threading.Thread(target=work).start()
    return await asyncio.wrap_future(done)


WITH_CONTEXT: dict[str, Way] = {
    "awaited": _awaited,
    "task": _task,
    "gather": _gather,
    "TaskGroup": _task_group,
    "shield": _shielded,
    "callback of the loop": _callback,
    "callback from a thread": _from_another_thread_s_callback,
    "to_thread": _to_thread,
    "submit, context copied": _submit_with_context,
    "map, context copied": _map_with_context,
    "Thread, context copied": _thread_with_context,
}
WITHOUT_CONTEXT: dict[str, Way] = {
    "submit": _submit,
    "map": _map,
    "run_in_executor": _run_in_executor,
    "Thread": _thread,
}


def tool_of(name: str, job: Job) -> Tool:
    """A tool without parameters that does `job`."""

    async def work() -> str:
        await job()
        return "done"

    return tool(name=name, description=f"Does {name}.")(work)


def agent_of(tracer: Tracer, name: str, jobs: Mapping[str, Job], *, together: bool = False, **options: Any) -> Agent:
    """An agent that does each job in a tool call of its own, one after the other or all in one turn, then answers."""
    calls = [tool_call_reply(job) for job in jobs]
    if together:
        calls = [tool_calls_reply(*((job, {}) for job in jobs))]
    return Agent(
        name,
        ScriptedLLM([*calls, f"{name} is done"]),
        tools=[tool_of(job, work) for job, work in jobs.items()],
        tracer=tracer,
        max_turns=len(calls) + 1,
        **options,
    )


# What a run looks like from outside.


def by_run(events: Iterable[Event]) -> dict[str, list[Event]]:
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event["run_id"], []).append(event)
    return runs


def only(events: Iterable[Event], **fields: Any) -> Event:
    """The one event with these fields."""
    (event,) = [event for event in events if fields.items() <= event.items()]
    return event


def root_of(events: Iterable[Event]) -> str:
    """The span that a run's own events name as theirs."""
    (span_id,) = {event["span_id"] for event in events if event["type"] in {"run_start", "run_end"}}
    return str(span_id)


def ancestors(event: Event, events: Sequence[Event]) -> list[Event]:
    """The spans above an event, the nearest first, the run's own end last."""
    spans = {other["span_id"]: other for other in events if other["type"] != "run_start"}
    found: list[Event] = []
    while event["parent_span_id"] in spans:
        event = spans[event["parent_span_id"]]
        assert event not in found, "its parents form a loop"
        found.append(event)
    return found


def assert_well_formed(events: Sequence[Event], *, upstream: Mapping[str, str] | None = None) -> None:
    """One finished run: one trace, one tree, steps 1 to n, each event under its own ids."""
    root = root_of(events)
    assert len({event["run_id"] for event in events}) == 1
    assert {event["trace_id"] for event in events} == {trace_of(upstream) if upstream else events[0]["trace_id"]}
    steps = Counter(event["step_index"] for event in events)
    assert steps == Counter(range(1, len(events) + 1))  # EXEC-11: no gap, no repeat
    assert len({event["event_id"] for event in events}) == len(events)
    own = Counter(event["span_id"] for event in events if event["span_id"] != root)
    assert set(own.values()) <= {1}
    for event in events:
        if event["span_id"] == root:
            assert event["parent_span_id"] == (span_of(upstream) if upstream else None)
        else:
            above = ancestors(event, events)
            assert above, f"{event['type']} names a parent that is no span of its run"
            assert above[-1]["span_id"] == root
