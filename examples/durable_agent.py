"""A gated agent in the engine, on a SQLite file: its process dies inside a tool, another one goes on.

    python examples/durable_agent.py          both, one after the other
    python examples/durable_agent.py begin    dies inside the tool
    python examples/durable_agent.py recover  goes on, and prints what was recorded

The log is `durable.db` in the current folder, or the file in EXAMPLE_DB; look into it with
`tracehold log show durable.db trip-1`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from tracehold import ToolPermissions, Tracer, tool
from tracehold.agent.engine_agent import EngineAgent
from tracehold.engine import Budget, Engine
from tracehold.engine.observer import observe_history
from tracehold.events.sqlite_store import SQLiteEventStore
from tracehold.testing import ScriptedLLM, tool_call_reply

DATABASE = os.environ.get("EXAMPLE_DB", "durable.db")
RUN = "trip-1"


@tool
def send_email(to: str, text: str) -> str:
    """Send an e-mail."""
    return f"{len(text)} characters sent to {to}"


@tool
def book(hotel: str) -> str:
    """Book a room. The process dies here, as if somebody had pulled the plug."""
    print(f"booking the {hotel} ...", flush=True)
    os._exit(9)


def agent(llm: ScriptedLLM) -> EngineAgent:
    """Return the agent; both processes build the same one, under the same name."""
    return EngineAgent("travel", llm, tools=[send_email, book], permissions=ToolPermissions(deny=["send_email"]))


async def begin() -> None:
    """Start the run: an e-mail is denied, and the booking never comes back."""
    llm = ScriptedLLM(
        [
            tool_call_reply("send_email", {"to": "hotel", "text": "a room, please"}),
            tool_call_reply("book", {"hotel": "Grand"}),
        ]
    )
    async with Engine(SQLiteEventStore(DATABASE), default_budget=Budget(max_steps=20)) as engine:
        await engine.run(agent(llm), {"task": "Get me a room."}, run_id=RUN)


async def recover() -> None:
    """Go on where the log ends. The booking is not repeated: nobody knows whether it was made."""
    store = SQLiteEventStore(DATABASE)
    async with Engine(store) as engine:
        await engine.recover([agent(ScriptedLLM(["I cannot tell whether the Grand is booked: please ask."]))])
        outcome = await engine.handle(RUN).result()
        print(outcome.kind, "|", outcome.value["text"])
    tracer = Tracer()
    await observe_history(store, tracer, streams=[RUN])
    await store.aclose()
    for event in tracer.events:
        said = event.get("decision") or event.get("error_type") or ""
        print(event["type"], event["name"], event["status"], said, event.get("rule", ""), sep=" | ")


def main() -> None:
    """Do what the first argument says, or both in processes of their own."""
    match sys.argv[1:]:
        case ["begin"]:
            asyncio.run(begin())
        case ["recover"]:
            asyncio.run(recover())
        case _:
            subprocess.run([sys.executable, __file__, "begin"], check=False)  # noqa: S603 - this very file
            asyncio.run(recover())


if __name__ == "__main__":
    main()
