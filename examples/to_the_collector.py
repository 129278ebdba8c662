"""Sends a run with a denied tool to a collector, by default the one that `tracehold up` starts.

Afterwards: `tracehold denials`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tracehold import CollectorExporter, Tracer


def look_up_order(order: str) -> str:
    """Look an order up."""
    return f"{order}: delivered"


TOOLS: dict[str, Callable[[str], str]] = {"look_up_order": look_up_order}


def call_tool(tracer: Tracer, tool: str, argument: str) -> str:
    """Run a tool on the allow list, and record one event for an attempt at any other."""
    if tool not in TOOLS:
        reason = f"{tool} is not on the allow list"
        tracer.emit(
            {
                "type": "tool_call",
                "tool": tool,
                "params": {"argument": argument},
                "status": "denied",
                "decided_by": "permissions",
                "rule": "allow-list/1",
                "reason": reason,
            }
        )
        return reason
    with tracer.span(tool, kind="tool", tool=tool, params={"argument": argument}) as span:
        result = TOOLS[tool](argument)
        span.set(result=result)
        return result


def main() -> None:
    """Run the agent; exit 1 when the collector did not get the events."""
    tracer = Tracer(exporters=[CollectorExporter()], service="example")
    with tracer.run("where is my order?", agent="support", user="dana@example.com", session="ticket-1") as run:
        print(call_tool(tracer, "look_up_order", "A-1007"))
        print(call_tool(tracer, "send_email", "all-customers@example.com"))
    handed_over = tracer.force_flush()
    tracer.close()
    if not handed_over:
        sys.exit("the collector did not answer; the events wait on disk for the next program that sends there")
    print(f"recorded run {run.run_id}")


if __name__ == "__main__":
    main()
