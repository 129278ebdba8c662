"""The protocol: what a client of your own needs, and what it gives back."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from typing import Any

from tracehold.llm import LLMClient, LLMResponse, StreamStats


class Own:
    async def chat(self, messages: Any, *, tools: Any = None, output_schema: Any = None, **_kwargs: Any) -> LLMResponse:
        return LLMResponse(f"{len(messages)} {tools} {output_schema}")

    async def stream(self, messages: Any, *, on_stats: Any = None, **_kwargs: Any) -> Any:
        yield "one"
        if on_stats is not None:
            on_stats(StreamStats(usage={"total_tokens": 1}, model="own"))


def test_a_client_needs_no_base_class() -> None:  # LLM-03
    assert isinstance(Own(), LLMClient)
    assert not isinstance(object(), LLMClient)


def test_chat_is_awaited_with_tools_and_schema_by_keyword() -> None:  # LLM-01
    parameters = inspect.signature(LLMClient.chat).parameters
    assert parameters["tools"].kind is parameters["output_schema"].kind is inspect.Parameter.KEYWORD_ONLY
    assert asyncio.run(Own().chat([{}], tools=[])).content == "1 [] None"


def test_a_response_has_the_documented_fields_and_defaults() -> None:  # LLM-04
    response = LLMResponse()
    assert vars(response) == {
        "content": "",
        "finish_reason": None,
        "model": "",
        "usage": None,
        "reasoning_content": None,
        "tool_calls": None,
        "latency_ms": 0,
        "raw": None,
        "assistant_message": None,
    }
    assert str(LLMResponse("words")) == "words"


def test_stats_have_the_four_documented_fields() -> None:  # LLM-02
    assert vars(StreamStats()) == {"usage": None, "finish_reason": None, "model": "", "latency_ms": 0}


def test_importing_the_clients_imports_no_sdk() -> None:
    program = "import sys, tracehold.llm; print({'openai', 'anthropic', 'httpx', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
