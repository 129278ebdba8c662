"""Two small agents that run when the demo runs. Their model is scripted; their tools, gates and records are real."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from tracehold import Tracer

MODEL: Final = "demo-scripted-model"

_REPORT: Final = "demo-weekly-report"
_REFUND: Final = "demo-refund-request"
LIVE_RUNS: Final = (_REPORT, _REFUND)
"""Ids of the runs made here."""

_ORDERS: Final = {
    "A-1007": {"customer": "c-311", "total_usd": 129.90, "status": "delivered", "items": [79.90, 50.00]},
    "A-1008": {"customer": "c-311", "total_usd": 18.50, "status": "in transit", "items": [18.50]},
}

_ALLOWED: Final = frozenset({"look_up_order", "summarise_prices", "issue_refund"})
_POLICY: Final = "demo.allow-list/1"


def research_with_one_tool_too_many(tracer: Tracer) -> None:
    """Run an agent that asks for a tool it may not use, is told so, and finishes without it."""
    with tracer.run(
        "weekly order report", run_id=_REPORT, agent="researcher", user="dana@example.com", session="report-47"
    ):
        _think(tracer, "Write the weekly order report and mail it.", "I look up the orders first.", calls=True)
        order = _call(tracer, "look_up_order", {"order": "A-1007"}, _look_up_order)
        with tracer.span("summarise", kind="agent", agent="summariser"):
            _think(tracer, f"Summarise: {order}", "I need the mean of the prices.", calls=True)
            _call(tracer, "summarise_prices", {"prices": order["items"]}, _summarise_prices)
        _think(tracer, "Now mail it.", "I send the mail.", calls=True)
        _call(tracer, "send_email", {"to": "all-customers@example.com", "subject": "Report"}, _never)
        _think(tracer, "The tool send_email is not allowed.", "The report is ready here instead.", calls=False)


def answer_a_refund_request(tracer: Tracer) -> None:
    """Run an agent whose refund a person rejects."""
    with tracer.run(
        "refund request", run_id=_REFUND, agent="support", user="sam@example.com", session="ticket-9213"
    ) as run:
        _think(tracer, "Customer c-311 wants 129.90 USD back for A-1007.", "I check the order.", calls=True)
        _call(tracer, "look_up_order", {"order": "A-1007"}, _look_up_order)
        _think(tracer, "It was delivered.", "I ask for a refund.", calls=True)
        _ask_a_person(tracer, "issue_refund", {"order": "A-1007", "amount_usd": 129.90})
        _think(tracer, "The refund was rejected.", "I am sorry, we cannot refund a delivered order.", calls=False)
        run.set(output="I am sorry, we cannot refund a delivered order.")


def _think(tracer: Tracer, prompt: str, reply: str, *, calls: bool) -> None:
    started = time.perf_counter()
    time.sleep(0.02 + 0.0005 * len(reply))  # the scripted model's thinking, so that the waterfall has something to show
    prompt_tokens, reply_tokens = len(prompt) // 4 + 40, len(reply) // 4
    tracer.emit(
        {
            "type": "llm_call",
            "model": MODEL,
            "provider": "demo",
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": reply_tokens,
                "total_tokens": prompt_tokens + reply_tokens,
            },
            "latency_ms": int((time.perf_counter() - started) * 1000),
            "has_tool_calls": calls,
            "finish_reason": "tool_calls" if calls else "stop",
            "input": [{"role": "user", "content": prompt}],
            "output": reply,
        }
    )


def _call(tracer: Tracer, tool: str, params: Mapping[str, Any], run: Callable[[Mapping[str, Any]], Any]) -> Any:
    if tool not in _ALLOWED:
        tracer.emit(
            {
                "type": "tool_call",
                "tool": tool,
                "params": params,
                "status": "denied",
                "decision": "denied",
                "decided_by": "permissions",
                "rule": _POLICY,
                "reason": f"{tool} is not on the allow list of this agent",
            }
        )
        return None
    started = time.perf_counter()
    result = run(params)
    latency_ms = (time.perf_counter() - started) * 1000
    tracer.emit(
        {
            "type": "tool_call",
            "tool": tool,
            "params": params,
            "status": "success",
            "result": str(result),
            "latency_ms": round(latency_ms, 3),
        }
    )
    return result


def _ask_a_person(tracer: Tracer, tool: str, params: Mapping[str, Any]) -> None:
    tracer.emit(
        {
            "type": "approval_request",
            "tool": tool,
            "params": params,
            "reason": "refunds need a person's approval",
        }
    )
    time.sleep(0.15)  # the person thinks
    reason = "delivered orders are refunded in the shop only"
    decided = {"tool": tool, "decision": "rejected", "decided_by": "demo-approver", "reason": reason}
    tracer.emit({"type": "approval_decision", **decided})
    tracer.emit({"type": "tool_call", "params": params, "status": "rejected", "rule": "demo.approval/1", **decided})


def _look_up_order(params: Mapping[str, Any]) -> Mapping[str, Any]:
    time.sleep(0.03)
    return _ORDERS[params["order"]]


def _summarise_prices(params: Mapping[str, Any]) -> str:
    time.sleep(0.01)
    return f"mean {statistics.fmean(params['prices']):.2f} USD"


def _never(_params: Mapping[str, Any]) -> None:
    raise AssertionError("a denied tool must not run")
