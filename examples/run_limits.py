"""A run policy ends an agent that will not stop, and says by which limit. Limits hold for calls issued together too."""

from __future__ import annotations

import itertools

from tracehold import Agent, RunLimitExceeded, RunPolicy, Tracer, tool
from tracehold.testing import ScriptedLLM, tool_calls_reply


@tool(supports_parallel=True)
def search(query: str) -> str:
    """Search the web."""
    return f"nothing about {query}"


def main() -> None:
    """Run an agent whose model asks for three searches at a time, for ever."""
    tracer = Tracer()
    restless = ScriptedLLM(
        tool_calls_reply(*[("search", {"query": str(n)}) for n in range(3)]) for _ in itertools.count()
    )
    agent = Agent(
        "searcher",
        restless,
        tools=[search],
        tracer=tracer,
        run_policy=RunPolicy(max_llm_calls=5, max_tool_calls=4, max_tokens=10_000, deadline_seconds=30),
    )
    try:
        agent.run("Find it.")
    except RunLimitExceeded as stopped:
        print("stopped:", stopped)
    calls = [event for event in tracer.events if event["type"] == "tool_call"]
    print("ran:", sum(event["status"] == "success" for event in calls))
    print("limited:", sum(event["status"] == "limited" for event in calls))


if __name__ == "__main__":
    main()
