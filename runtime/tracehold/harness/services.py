"""What a harness is made of, each part optional on its own (HAR-01 to HAR-09)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tracehold.context import ContextBuilder, ContextSource, HistoryCompactor, ReducerConfig, WindowBudgetConfig
from tracehold.core.requirements import require_known, require_methods
from tracehold.core.tokens import TokenCounter, count_tokens
from tracehold.execution.recording import Tracing
from tracehold.governance.confirm import ConfirmCallback
from tracehold.governance.hooks import Hook
from tracehold.governance.permissions import Permissions
from tracehold.harness.registry_seam import ToolSeam, seam
from tracehold.llm.protocol import LLMClient
from tracehold.tools.registry import ToolRegistry


class ToolSelector(Protocol):
    """Picks the tools that matter for a query; `ToolRetriever` is one."""

    def schema_for(self, query: str) -> list[dict[str, Any]]:
        """Return the schemas of the tools to offer, in the function-calling shape."""


def require_services(owner: str, given: Mapping[str, Any], own: object) -> None:
    """Refuse keyword arguments that neither `owner` nor a harness has.

    Args:
        owner: the class that passes them on.
        given: what it was given beyond its own arguments.
        own: its constructor, whose arguments it also has.

    Raises:
        TypeError: names the first unknown one, and what was perhaps meant.
    """
    theirs = inspect.signature(Services.__init__).parameters.keys() - {"self", "llm", "tool_registry"}
    ours = inspect.signature(own).parameters.keys() - {"self", "services"}  # type: ignore[arg-type]  # a function
    require_known(owner, [name for name in given if name not in theirs], [*theirs, *ours])


class Services:
    """The dependencies of a harness; leaving one out switches that capability off (HAR-04).

    Args:
        llm: the model client.
        tool_registry: the tools; without one no tool can be called.
        confirm: asked before a tool that needs confirmation runs, outside approval mode; without one such a tool is
            refused. Standard input is never read unless `cli_confirm` is given (HAR-08).
        tracer: anything with `emit(event: dict)`; without one no event is built and nothing is timed (HAR-07).
        permissions: may a tool be called at all; asked before any person is.
        hooks: watch calls, in list order.
        compactor: shortens an overlong history when it is assembled.
        tool_retriever: picks the tools that matter for a query.
        context_builder: puts retrieved material together; only with `sources`.
        sources: where that material comes from; only with `context_builder`.
        reducer: how much of a trajectory stays verbatim; default `ReducerConfig()`.
        window_budget: how a model's window is shared out; default `WindowBudgetConfig()`.
        prompts: texts to use instead of ours, by name.
        token_counter: estimates the tokens of a text.
        approval_ttl_s: seconds after which a pending approval is refused as expired; default never (DEC-02).
        confirm_timeout_s: seconds a `confirm` callback may take before the call is refused; default no limit.

    Raises:
        ValueError: one of `context_builder` and `sources` without the other (HAR-02, HAR-03); seconds not above 0.
        TypeError: a `tool_registry` that cannot show its tools (HAR-05).
    """

    def __init__(
        self,
        llm: LLMClient,
        *,
        tool_registry: ToolRegistry | None = None,
        confirm: ConfirmCallback | None = None,
        tracer: Tracing | None = None,
        permissions: Permissions | None = None,
        hooks: Sequence[Hook] | None = None,
        compactor: HistoryCompactor | None = None,
        tool_retriever: ToolSelector | None = None,
        context_builder: ContextBuilder | None = None,
        sources: Sequence[ContextSource] | None = None,
        reducer: ReducerConfig | None = None,
        window_budget: WindowBudgetConfig | None = None,
        prompts: Mapping[str, str] | None = None,
        token_counter: TokenCounter = count_tokens,
        approval_ttl_s: float | None = None,
        confirm_timeout_s: float | None = None,
    ) -> None:
        require_methods("llm", llm, ("chat",), "give a model client, as OpenAIClient('gpt-4o') or ScriptedLLM([...])")
        require_methods("tracer", tracer, ("emit",), "give a Tracer()")
        if context_builder is not None and not sources:
            raise ValueError("a context_builder needs sources to build from: give both, or neither")
        if sources and context_builder is None:
            raise ValueError("sources are read by a context_builder only: give both, or neither")
        if tool_registry is not None and not callable(getattr(tool_registry, "to_openai_schema", None)):
            raise TypeError(
                f"tool_registry must offer to_openai_schema(), as ToolRegistry does; {type(tool_registry).__name__} "
                "does not. Put a list of tools into a ToolRegistry first"
            )
        for name, seconds in (("approval_ttl_s", approval_ttl_s), ("confirm_timeout_s", confirm_timeout_s)):
            if seconds is not None and (type(seconds) not in {int, float} or not 0 < seconds < math.inf):
                raise ValueError(f"{name} must be a number of seconds above 0 or None, not {seconds!r}")
        self.llm = llm
        self.tool_registry = tool_registry
        self.confirm = confirm
        self.tracer = tracer
        self.permissions = permissions
        self.hooks: list[Hook] = list(hooks or [])
        self.compactor = compactor
        self.tool_retriever = tool_retriever
        self.context_builder = context_builder
        self.sources: list[ContextSource] = list(sources or [])
        self.reducer = reducer or ReducerConfig()
        self.window_budget = window_budget or WindowBudgetConfig()
        self.prompts = prompts
        self.token_counter = token_counter
        self.approval_ttl_s = approval_ttl_s
        self.confirm_timeout_s = confirm_timeout_s

    @property
    def tools(self) -> ToolSeam | None:
        """The registry as the gates use it."""
        return seam(self.tool_registry)
