"""A refund that a person must approve, across processes: one asks and ends, another resumes the run.

    python examples/approval.py              both, one after the other
    python examples/approval.py ask          suspends and prints what waits
    python examples/approval.py decide yes   resumes with a yes (or no), as the person who runs it

The state between them is `approval.db` in the current folder, or the file in EXAMPLE_DB.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys

from tracehold import Agent, Interrupt, SqliteCheckpointStore, SqliteExporter, Tracer, tool
from tracehold.testing import ScriptedLLM, tool_call_reply

DATABASE = os.environ.get("EXAMPLE_DB", "approval.db")


@tool(requires_confirmation=True)
def refund(order: str, amount_usd: float) -> str:
    """Pay a customer back."""
    return f"{amount_usd:.2f} USD paid back for {order}"


def support_agent(llm: ScriptedLLM) -> Agent:
    """Return the agent; both processes build the same one on the same file."""
    return Agent(
        "support",
        llm,
        tools=[refund],
        tracer=Tracer(exporters=[SqliteExporter(DATABASE)]),
        checkpoint_store=SqliteCheckpointStore(DATABASE),
        approval_ttl_s=24 * 3600,
    )


def ask() -> None:
    """Run until a person is needed."""
    llm = ScriptedLLM([tool_call_reply("refund", {"order": "A-1007", "amount_usd": 129.9}, call_id="call-1")])
    result = support_agent(llm).run("Customer c-311 wants the money for A-1007 back.")
    if isinstance(result, Interrupt):
        for action in result.pendings:
            print(f"waits: {action.tool_name} {action.arguments} ({action.call_id}, {action.digest})")


def decide(word: str) -> None:
    """Resume with a decision. A web application takes the approver from its session, never from the request's body."""
    llm = ScriptedLLM(["The money is on its way." if word == "yes" else "I am sorry, we cannot refund this."])
    print(support_agent(llm).resume(word == "yes", approver=getpass.getuser()))


def main() -> None:
    """Do what the first argument says, or both in processes of their own."""
    match sys.argv[1:]:
        case ["ask"]:
            ask()
        case ["decide", word]:
            decide(word)
        case _:
            for arguments in (["ask"], ["decide", "yes"]):
                subprocess.run([sys.executable, __file__, *arguments], check=True)  # noqa: S603 - this very file


if __name__ == "__main__":
    main()
