"""What an agent cannot work with is refused when it is made, in words that say what to give instead."""

from __future__ import annotations

from typing import Any

import pytest
from tracehold import Agent, Harness
from tracehold.agent.engine_agent import EngineAgent
from tracehold.testing import ScriptedLLM


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"session_store": "c.db"}, r"session_store cannot be str: give SqliteSessionStore\('agent.db'\)"),
        ({"checkpoint_store": "c.db"}, "checkpoint_store cannot be str: give SqliteCheckpointStore"),
        ({"scope": "ada"}, r"scope cannot be str: give a Scope, as Scope\(user='ada'\)"),
        ({"tracer": []}, r"tracer cannot be list: give a Tracer\(\)"),
        ({"output_guardrails": [print]}, r"a guardrail cannot be builtin_function_or_method: .*CallableGuardrail"),
        ({"guardrails": []}, "Agent has no argument 'guardrails'; did you mean 'input_guardrails'"),
        ({"permission": None}, "Agent has no argument 'permission'; did you mean 'permissions'"),
        ({"zzz": 1}, "Agent has no argument 'zzz'; it has approval_ttl_s, "),
    ],
)
def test_an_agent_refuses_what_it_cannot_work_with(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Agent("a", ScriptedLLM([]), **arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"session_store": object()}, "EngineAgent has no argument 'session_store'"),
        ({"permission": None}, "EngineAgent has no argument 'permission'; did you mean 'permissions'"),
        ({"input_guardrails": [print]}, "wrap a function in CallableGuardrail"),
    ],
)
def test_an_agent_of_the_engine_does_too(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        EngineAgent("a", ScriptedLLM([]), **arguments)


@pytest.mark.parametrize("make", [lambda llm: Agent("a", llm), lambda llm: EngineAgent("a", llm), Harness])
@pytest.mark.parametrize(("llm", "named"), [("gpt-4o", "str"), (ScriptedLLM, "the class ScriptedLLM")])
def test_a_models_name_is_no_model(make: Any, llm: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"llm cannot be {named}: give a model client"):
        make(llm)
