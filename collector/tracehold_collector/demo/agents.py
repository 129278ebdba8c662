"""Two small agents that run when the demo runs. Their model is scripted; their tools, gates and records are real."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from tracehold import Agent, AgentTool, Interrupt, LLMResponse, Scope, SqliteCheckpointStore, Tracer, tool
from tracehold.governance import Condition, PolicyPermissions, PolicyRule
from tracehold.testing import ScriptedLLM, tool_call_reply

MODEL: Final = "demo-scripted-model"

_REPORT: Final = "demo-weekly-report"
_REFUND: Final = "demo-refund-request"
LIVE_RUNS: Final = (_REPORT, _REFUND)
"""Ids of the runs made here."""

_ORDERS: Final[dict[str, dict[str, Any]]] = {
    "A-1007": {"customer": "c-311", "total_usd": 129.90, "status": "delivered", "items": [79.90, 50.00]},
    "A-1008": {"customer": "c-311", "total_usd": 18.50, "status": "in transit", "items": [18.50]},
}

_POLICY: Final = PolicyPermissions(
    [
        PolicyRule("demo.daily-work", "allow", ["look_up_order", "summarise_prices", "summariser", "send_email"]),
        PolicyRule(
            "demo.mail-stays-inside",
            "deny",
            ["send_email"],
            when=[Condition("to", "not_glob", "*@shop.example")],
            reason="this agent may write to the shop's own addresses only",
        ),
    ],
    name="demo",
)


@tool
async def look_up_order(order: str) -> str:
    """Return an order's customer, total and state."""
    await asyncio.sleep(0.03)  # so that the waterfall has something to show
    return str(_ORDERS[order])


@tool
async def summarise_prices(prices: list[float]) -> str:
    """Return the mean of some prices in USD."""
    await asyncio.sleep(0.01)
    return f"mean {statistics.fmean(prices):.2f} USD"


@tool
def send_email(to: str, subject: str) -> str:
    """Send a mail."""
    raise AssertionError(f"a denied tool must not run: mail {subject} to {to}")


@tool(requires_confirmation=True)
def issue_refund(order: str, amount_usd: float) -> str:
    """Pay a customer back."""
    raise AssertionError(f"a rejected tool must not run: {amount_usd} USD for {order}")


def research_with_one_tool_too_many(tracer: Tracer) -> None:
    """Run an agent that asks for a tool it may not use, is told so, and finishes without it."""
    prices = _ORDERS["A-1007"]["items"]
    summariser = Agent(
        "summariser",
        _script(_wants("summarise_prices", {"prices": prices}), _says("The mean price is 64.95 USD.")),
        tools=[summarise_prices],
        tracer=tracer,
        permissions=_POLICY,
    )
    researcher = Agent(
        "researcher",
        _script(
            _wants("look_up_order", {"order": "A-1007"}),
            _wants("summariser", {"task": f"Summarise the prices {prices}."}),
            _wants("send_email", {"to": "all-customers@example.com", "subject": "Report"}),
            _says("The mean price was 64.95 USD. I may not mail it, so the report is here instead."),
        ),
        "You write the weekly order report.",
        tools=[look_up_order, AgentTool(summariser), send_email],
        tracer=tracer,
        permissions=_POLICY,
    )
    researcher.run(
        "Write the weekly order report and mail it.",
        run_id=_REPORT,
        scope=Scope(user="dana@example.com", session="report-47"),
    )


def answer_a_refund_request(tracer: Tracer) -> None:
    """Run an agent whose refund a person rejects."""
    scope = Scope(user="sam@example.com", session="ticket-9213")
    support = Agent(
        "support",
        _script(
            _wants("look_up_order", {"order": "A-1007"}),
            _wants("issue_refund", {"order": "A-1007", "amount_usd": 129.90}),
            _says("I am sorry, we cannot refund a delivered order."),
        ),
        "You answer customers of a shop.",
        tools=[look_up_order, issue_refund],
        tracer=tracer,
        checkpoint_store=SqliteCheckpointStore(),
        scope=scope,
    )
    waiting = support.run("Customer c-311 wants 129.90 USD back for A-1007.", run_id=_REFUND)
    time.sleep(0.15)  # the person thinks
    if isinstance(waiting, Interrupt):
        support.resume(False, approver="demo-approver", reason="delivered orders are refunded in the shop only")


def _script(*replies: Callable[[list[dict[str, Any]]], Any]) -> ScriptedLLM:
    return ScriptedLLM(replies, model=MODEL, provider="demo")


def _wants(tool_name: str, arguments: dict[str, Any]) -> Callable[[list[dict[str, Any]]], Any]:
    return _thinking(tool_call_reply(tool_name, arguments))


def _says(text: str) -> Callable[[list[dict[str, Any]]], Any]:
    return _thinking(LLMResponse(text, finish_reason="stop"))


def _thinking(reply: LLMResponse) -> Callable[[list[dict[str, Any]]], Any]:
    """Let the scripted model take the time a small one would, and use tokens."""

    async def answer(messages: list[dict[str, Any]]) -> LLMResponse:
        await asyncio.sleep(0.02 + 0.0005 * len(reply.content))
        sent, said = sum(len(str(message)) for message in messages) // 4, 12 + len(reply.content) // 4
        reply.usage = {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}
        reply.model = MODEL
        return reply

    return answer
