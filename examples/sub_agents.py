"""An agent that hands work to two others, at the same time and inside its own run: one trace, one set of limits."""

from __future__ import annotations

from tracehold import Agent, AgentTool, RunPolicy, Tracer, tool
from tracehold.testing import ScriptedLLM, tool_call_reply, tool_calls_reply


@tool
def flights(city: str) -> str:
    """Find a flight to a city."""
    return f"a flight to {city} at 9:40"


@tool
def hotels(city: str) -> str:
    """Find a hotel in a city."""
    return f"a room in {city} for 90 EUR"


def main() -> None:
    """Plan a trip with a flight agent and a hotel agent, and print the run as a tree."""
    tracer = Tracer()
    fly = Agent(
        "flight-agent",
        ScriptedLLM([tool_call_reply("flights", {"city": "Oslo"}), "9:40."]),
        tools=[flights],
        tracer=tracer,
    )
    sleep = Agent(
        "hotel-agent",
        ScriptedLLM([tool_call_reply("hotels", {"city": "Oslo"}), "90 EUR."]),
        tools=[hotels],
        tracer=tracer,
    )
    planner = Agent(
        "planner",
        ScriptedLLM(
            [
                tool_calls_reply(
                    ("flight-agent", {"task": "Fly to Oslo."}), ("hotel-agent", {"task": "Sleep in Oslo."})
                ),
                "You fly at 9:40 and sleep for 90 EUR.",
            ]
        ),
        tools=[AgentTool(fly), AgentTool(sleep)],
        tracer=tracer,
        run_policy=RunPolicy(max_llm_calls=10),
    )
    print(planner.run("Plan my trip to Oslo."))
    print_tree(tracer.events)


def print_tree(events: list[dict[str, object]], parent: object = None, depth: int = 0) -> None:
    """Print each event below its parent."""
    for event in events:
        if event["type"] != "run_start" and event.get("parent_span_id") == parent:
            what = event.get("tool") or event.get("name") or event.get("model")
            print("  " * depth + f"{event['type']} {what} ({event['agent']})")
            print_tree(events, event["span_id"], depth + 1)


if __name__ == "__main__":
    main()
