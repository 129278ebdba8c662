"""A first agent with one tool, recorded in memory. Needs `pip install .` and no model: its replies are written down.

For a real model put `OpenAIClient("gpt-4o-mini")` (extra `openai`) in the place of `ScriptedLLM`.
"""

from __future__ import annotations

from tracehold import Agent, Tracer, tool
from tracehold.testing import ScriptedLLM, tool_call_reply


@tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"Rain in {city}, 12 degrees."


def main() -> None:
    """Ask the agent one question and print what was recorded."""
    tracer = Tracer()
    llm = ScriptedLLM([tool_call_reply("weather", {"city": "Bergen"}), "Take an umbrella."])
    agent = Agent("guide", llm, "You help people who travel.", tools=[weather], tracer=tracer)
    print(agent.run("What do I need in Bergen?"))
    print(tracer)


if __name__ == "__main__":
    main()
