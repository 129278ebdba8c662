"""SWE-agent's trajectories (`.traj`): steps of one reply and one command, without times; tokens for the whole run only.

Source: "Output files" in SWE-agent's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
from tracehold.core.clock import NS_PER_S

from tracehold_collector.core.record import Rejection
from tracehold_collector.sessions.reading import (
    Event,
    Reader,
    Session,
    digest,
    guarded,
    items,
    mapping,
    others,
    run_id,
    text,
    too_deep,
)

_FORM: Final = "swe-agent"
_COMMAND: Final = re.compile(r"\s*([\w./-]+)")
_STEP: Final = ("action", "observation", "response", "thought", "execution_time", "query", "messages")


def looks(value: Any) -> bool:
    """Whether a parsed document is surely a trajectory of SWE-agent."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("trajectory"), list)
        and isinstance(value.get("info"), dict)
        and ("history" in value or "environment" in value)
    )


def read(trajectory: Any) -> Iterator[Event | Rejection]:
    """Yield the events of a trajectory: one run."""
    steps = trajectory["trajectory"]
    key = _key(trajectory, steps)
    session = Session(_FORM, key, run_id(_FORM, key), _FORM)
    history = [turn for turn in items(trajectory.get("history")) if isinstance(turn, dict)]
    agent = next((name for turn in history if (name := text(turn.get("agent")))), _FORM)
    yield _run(session, trajectory, agent)
    yield from _before(session, history, agent)
    for place, step in enumerate(steps):
        where = f"trajectory[{place}]"
        problem = Rejection(where, "a step must be an object") if not isinstance(step, dict) else too_deep(step, where)
        if problem is not None:
            yield problem
        else:
            yield from guarded(where, _step(session, step, place, agent))


def _key(trajectory: dict[str, Any], steps: list[Any]) -> str:
    """Return what tells a run from others: nothing in the file names it.

    The first step does where it says how long its command took, which no other run repeats; a file that grows keeps it.
    Older trajectories need the whole: two runs of one task often begin alike.
    """
    first = mapping(steps[0]) if steps else {}
    told = [first] if "execution_time" in first else [steps, trajectory.get("info")]
    return digest(str(trajectory.get("environment")), orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode())


def _run(session: Session, trajectory: dict[str, Any], agent: str) -> Event:
    info = mapping(trajectory.get("info"))
    ended = text(info.get("exit_status"))
    stats = mapping(info.get("model_stats"))
    # Statistics of no call at all beside steps that were made are not kept, not zero.
    counted = stats if stats.get("api_calls") or not trajectory["trajectory"] else {}
    sent, received = counted.get("tokens_sent"), counted.get("tokens_received")
    status = "unset" if ended is None else "ok" if ended.startswith("submitted") else "error"
    return session.run(
        name="SWE-agent",
        agent=agent,
        status=status,
        error_type=ended if status == "error" else None,
        usage={"input_tokens": sent, "output_tokens": received} if counted else None,
        cost_usd=counted.get("instance_cost"),
        info=info or None,
        environment=trajectory.get("environment"),
        said=others(trajectory, "environment", "trajectory", "history", "info"),
    )


def _before(session: Session, history: list[dict[str, Any]], agent: str) -> Iterator[Event | Rejection]:
    """Yield what was said before the first step; the steps repeat the rest of the history."""
    for place, turn in enumerate(history):
        if turn.get("role") == "assistant" and not turn.get("is_demo"):
            return
        problem = too_deep(turn, f"history[{place}]")
        kind = "session" if turn.get("role") == "user" and not turn.get("is_demo") else "context"
        yield problem or session.event(
            f"history/{place}", "swe_agent.message", kind=kind, status="unset", agent=agent, message=turn
        )


def _step(session: Session, step: dict[str, Any], place: int, agent: str) -> Iterator[Event]:
    action, response = text(step.get("action")), text(step.get("response"))
    asked = f"step/{place}/reply"
    if response or step.get("thought"):
        yield session.event(
            asked,
            "llm_call",
            agent=agent,
            step_index=place,
            status="ok",
            output=response,
            thought=step.get("thought") if step.get("thought") != response else None,
            input=step.get("query") or step.get("messages"),
        )
    if action:
        took = step.get("execution_time")
        command = _COMMAND.match(action)
        yield session.event(
            f"step/{place}/action",
            "tool_call",
            agent=agent,
            step_index=place,
            # Neither a time nor an outcome is written; an observation is a text.
            status="unset",
            tool=command.group(1) if command else "command",
            params={"command": action},
            result=step.get("observation"),
            duration_ns=int(took * NS_PER_S) if isinstance(took, int | float) and took >= 0 else None,
            said=others(step, *_STEP),
        )


READER: Final = Reader(_FORM, "a SWE-agent trajectory", lines=False, looks=looks, read=read)
