"""Trajectories shortened to a budget, by what must not be lost of each kind (HAR-75, CTX-15 to CTX-18)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tracehold.context.reducers.agent import reduce_agent
from tracehold.context.reducers.config import ReducerConfig
from tracehold.context.reducers.plan import reduce_plan
from tracehold.context.reducers.reflection import reduce_reflection

REDUCERS: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = MappingProxyType(
    {"agent": reduce_agent, "plan": reduce_plan, "reflection": reduce_reflection}
)
"""By kind. Each is `await reducer(data, *, budget, config, asummarize, token_counter, prompts=None)`; "agent" also
takes `turn_start`. The same object comes back when it is within the budget."""

__all__ = ["REDUCERS", "ReducerConfig", "reduce_agent", "reduce_plan", "reduce_reflection"]
