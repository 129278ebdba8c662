"""Guardrails stop a run before its model sees a text, or before a person sees the model's; each trip is an event."""

from __future__ import annotations

import re

from tracehold import Agent, CallableGuardrail, GuardrailTripwireError, Tracer
from tracehold.testing import ScriptedLLM

MOST_WORDS = 40


def short_enough(text: str) -> bool:
    """Refuse what is too long to be a question."""
    return len(text.split()) < MOST_WORDS


def no_prices(text: str) -> bool:
    """Refuse answers that promise a price."""
    return re.search(r"\d+ ?(USD|EUR)", text) is None


def main() -> None:
    """Ask three questions: one passes, one trips on the way in, one on the way out."""
    tracer = Tracer()
    agent = Agent(
        "seller",
        ScriptedLLM(["We have it in blue.", "It costs 40 EUR."]),
        tracer=tracer,
        input_guardrails=[CallableGuardrail(short_enough, message="please ask one short question")],
        output_guardrails=[CallableGuardrail(no_prices, message="prices are given by the shop only")],
    )
    for question in ("Which colours are there?", "Tell me " + "everything " * 50, "What does it cost?"):
        try:
            print(agent.run(question))
        except GuardrailTripwireError as tripped:
            print("stopped:", tripped)
    for event in tracer.events:
        if event["type"] == "guardrail_trip":
            print(event["decided_by"], event["rule"], event["reason"], sep=" | ")


if __name__ == "__main__":
    main()
