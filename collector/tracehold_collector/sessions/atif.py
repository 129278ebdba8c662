"""Trajectories in ATIF, the Agent Trajectory Interchange Format: steps with their metrics, several agents in one file.

Source: the format's RFC (0001-trajectory-format) in the Harbor project, versions 1.0 to 1.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

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
    time_ns,
    too_deep,
    width_ns,
)

_FORM: Final = "atif"
_MOST_NESTED: Final = 20
_USAGE: Final = ("prompt_tokens", "completion_tokens", "cached_tokens")
_TOTALS: Final = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
}
_STEP: Final = ("step_id", "timestamp", "source", "message", "model_name", "tool_calls", "observation", "metrics")
_AGENT: Final = "agent"


def looks(value: Any) -> bool:
    """Whether a parsed document is surely a trajectory in ATIF, or some of them together."""
    return bool(_trajectories(value))


def read(document: Any) -> Iterator[Event | Rejection]:
    """Yield the events of a document. One trajectory is a run, and so are those it refers to, told apart by `agent`."""
    found = _trajectories(document)
    by_name = {name: trajectory for trajectory in found for name in _names(trajectory)}
    called = {name for trajectory in found for name in _called(trajectory)}
    roots = [trajectory for trajectory in found if not called.intersection(_names(trajectory))]
    told: set[int] = set()
    # Trajectories that refer to each other in a ring have no root: each that is left is one.
    for trajectory in [*roots, *found]:
        if id(trajectory) not in told:
            key = _key(trajectory)
            run = run_id(_FORM, text(trajectory.get("session_id")) or key)
            yield from _Reading(by_name, run, told).read(
                trajectory, Session(_FORM, key, run, _service(trajectory)), None
            )


def _trajectories(value: Any, depth: int = 0) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        version = value.get("schema_version")
        if isinstance(version, str) and version.startswith("ATIF") and isinstance(value.get("steps"), list):
            inner = items(value.get("subagent_trajectories"))
            return [value, *_trajectories(inner, depth + 1)] if depth < _MOST_NESTED else [value]
        value = list(value.values())
    if not isinstance(value, list) or depth >= _MOST_NESTED:
        return []
    # A file may hold them in a list or under names of its own, one level down.
    inner = [item for item in value if isinstance(item, dict) and "steps" in item]
    return [found for item in inner for found in _trajectories(item, depth + 1)]


def _names(trajectory: dict[str, Any]) -> list[str]:
    return [name for key in ("trajectory_id", "session_id") if (name := text(trajectory.get(key)))]


def _called(trajectory: dict[str, Any]) -> Iterator[str]:
    for step in trajectory["steps"]:
        for result in _results(mapping(step)):
            yield from _references(mapping(result))


def _results(step: dict[str, Any]) -> list[Any]:
    return items(mapping(step.get("observation")).get("results"))


def _references(result: dict[str, Any]) -> list[str]:
    references = result.get("subagent_trajectory_ref")
    return [
        name
        for reference in (references if isinstance(references, list) else [references])
        for name in _names(mapping(reference))[:1]
    ]


def _key(trajectory: dict[str, Any]) -> str:
    names = _names(trajectory)
    if names:
        return names[0]
    told = [trajectory.get("agent"), trajectory["steps"][:1]]
    return digest(orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode())


def _service(trajectory: dict[str, Any]) -> str:
    return text(mapping(trajectory.get("agent")).get("name")) or _FORM


class _Reading:
    """Reads one root and what it refers to, as one run."""

    def __init__(self, by_name: dict[str, dict[str, Any]], run: str, told: set[int]) -> None:
        self._by_name = by_name
        self._run = run
        self._told = told

    def read(self, trajectory: dict[str, Any], session: Session, inside: str | None) -> Iterator[Event | Rejection]:
        self._told.add(id(trajectory))
        steps = trajectory["steps"]
        agent = mapping(trajectory.get("agent"))
        name = text(agent.get("name"))
        times = [at for step in steps if (at := time_ns(mapping(step).get("timestamp"))) is not None]
        totals = mapping(trajectory.get("final_metrics"))
        # The steps' own figures are counted; totals would repeat them.
        alone = not any(mapping(step).get("metrics") for step in steps)
        about: dict[str, Any] = {
            "name": name,
            "agent": name,
            "status": "unset",
            "started_at_ns": min(times, default=None),
            "duration_ns": width_ns(min(times, default=None), max(times, default=None)),
            "usage": ({ours: totals[key] for key, ours in _TOTALS.items() if key in totals} or None) if alone else None,
            "cost_usd": totals.get("total_cost_usd") if alone else None,
            "said": others(trajectory, "steps", "subagent_trajectories"),
        }
        problem = too_deep(about["said"], "the trajectory")
        if problem is not None:
            yield problem
            about["said"] = None
        if inside is None:
            yield session.run(**about)
        else:
            own = session.event("run", "atif.subagent", kind="agent", **about)
            own["parent_span_id"] = inside
            yield own
        for place, step in enumerate(steps):
            where = f"{session.key}: steps[{place}]"
            wrong = (
                Rejection(where, "a step must be an object") if not isinstance(step, dict) else too_deep(step, where)
            )
            if wrong is not None:
                yield wrong
            else:
                yield from guarded(where, self._step(session, step, place, agent, inside))

        if not alone and not any(_called(trajectory)):
            # Of a trajectory that refers to others it is not said whether their tokens are in its totals.
            yield from _unshown(session, steps, totals, agent)

    def _step(
        self, session: Session, step: dict[str, Any], place: int, agent: dict[str, Any], inside: str | None
    ) -> Iterator[Event | Rejection]:
        number = step.get("step_id")
        local = f"step/{number if type(number) is int else place}"
        common: dict[str, Any] = {
            "agent": text(agent.get("name")),
            "step_index": number,
            "started_at_ns": time_ns(step.get("timestamp")),
            "parent": "run" if inside is not None else None,
        }
        source = step.get("source")
        results = [mapping(result) for result in _results(step)]
        calls = [call for call in items(step.get("tool_calls")) if isinstance(call, dict)]
        answers = _paired(calls, results)
        loose = [result for result in results if not any(result is answer for answer in answers.values())]
        # What was copied from elsewhere was counted there; and a step can be made without asking a model.
        copied = bool(step.get("is_copied_context"))
        asked = source == _AGENT and not copied and step.get("llm_call_count") != 0
        metrics = mapping(step.get("metrics"))
        yield session.event(
            local,
            "llm_call" if asked else f"atif.{source}",
            kind=None if asked else "session" if source == "user" and not copied else "context",
            status="ok" if asked else "unset",
            model=(text(step.get("model_name")) or text(agent.get("model_name"))) if asked else None,
            usage=({key: metrics[key] for key in _USAGE if key in metrics} or None) if asked else None,
            cost_usd=metrics.get("cost_usd") if asked else None,
            output=step.get("message") if asked else None,
            message=None if asked else step.get("message"),
            metrics=others(metrics, *_USAGE, "cost_usd") if asked else metrics or None,
            observation=loose or None,
            said=others(step, *_STEP),
            **common,
        )
        for index, call in enumerate(calls):
            name = f"{local}/call/{text(call.get('tool_call_id')) or index}"
            answer = answers.get(index, {})
            yield session.event(
                name,
                "tool_call",
                # The format has no field for how a call ended.
                status="unset",
                tool=text(call.get("function_name")),
                call_id=text(call.get("tool_call_id")),
                params=call.get("arguments"),
                result=answer.get("content"),
                said=others(call, "tool_call_id", "function_name", "arguments"),
                observed=others(answer, "source_call_id", "content"),
                **common,
            )
            yield from self._delegated(session, answer, session.span(name))
        for result in loose:
            yield from self._delegated(session, result, session.span(local))

    def _delegated(self, session: Session, result: dict[str, Any], inside: str) -> Iterator[Event | Rejection]:
        for reference in _references(result):
            child = self._by_name.get(reference)
            if child is not None and id(child) not in self._told:
                yield from self.read(child, Session(_FORM, _key(child), self._run, session.service), inside)


def _unshown(
    session: Session, steps: list[Any], totals: dict[str, Any], agent: dict[str, Any]
) -> Iterator[Event | Rejection]:
    """Yield what the totals hold beyond the steps: calls that no step shows, such as one that was cut off."""
    metrics = [mapping(mapping(step).get("metrics")) for step in steps]
    rest = {ours: _rest(totals.get(key), metrics, ours) for key, ours in _TOTALS.items()}
    rest = {key: count for key, count in rest.items() if count is not None}
    if rest.get("prompt_tokens", 0) > 0 or rest.get("completion_tokens", 0) > 0:
        yield session.event(
            "unshown",
            "llm_call",
            name="calls that no step shows",
            agent=text(agent.get("name")),
            status="unset",
            model=text(agent.get("model_name")),
            usage=rest,
            cost_usd=_rest(totals.get("total_cost_usd"), metrics, "cost_usd"),
            totals=totals,
        )


def _rest(total: Any, metrics: list[dict[str, Any]], key: str) -> Any:
    """Return what a total holds beyond the steps, or `None` when it is not known or less."""
    parts = [part[key] for part in metrics if _is_number(part.get(key))]
    rest = total - sum(parts) if _is_number(total) else -1
    return rest if rest >= 0 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _paired(calls: list[dict[str, Any]], results: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the result of each call by the call's place; one without a name is a lone call's."""
    by_call = {text(result.get("source_call_id")): result for result in results}
    paired = {
        index: by_call[name]
        for index, call in enumerate(calls)
        if (name := text(call.get("tool_call_id"))) is not None and name in by_call
    }
    if not paired and len(calls) == 1 and len(results) == 1 and None in by_call:
        return {0: results[0]}
    return paired


READER: Final = Reader(_FORM, "a trajectory in ATIF", lines=False, looks=looks, read=read)
