"""For tests of your own agents: a model whose replies are written down, so that a test costs nothing and repeats."""

from tracehold.testing.scripted import ScriptedCall as ScriptedCall
from tracehold.testing.scripted import ScriptedLLM as ScriptedLLM
from tracehold.testing.scripted import ScriptExhausted as ScriptExhausted
from tracehold.testing.scripted import tool_call_reply as tool_call_reply
from tracehold.testing.scripted import tool_calls_reply as tool_calls_reply
