"""What a model is shown within its window: recaps of long histories, retrieved material, reduced trajectories."""

from __future__ import annotations

from tracehold.context.block_config import ContextConfig
from tracehold.context.builder import NO_CAP, ContextBuilder
from tracehold.context.compactor import HistoryCompactor
from tracehold.context.message_tokens import count_content_tokens, count_message_tokens, count_messages_tokens
from tracehold.context.mmr import mmr_select
from tracehold.context.prompts import DEFAULT_PROMPTS, Prompts
from tracehold.context.reducers import REDUCERS, ReducerConfig
from tracehold.context.sources import CallableSource, ContextSource
from tracehold.context.summaries import AsyncSummarize, Summarize
from tracehold.context.window_budget import WindowBudget, WindowBudgetConfig

__all__ = [
    "DEFAULT_PROMPTS",
    "NO_CAP",
    "REDUCERS",
    "AsyncSummarize",
    "CallableSource",
    "ContextBuilder",
    "ContextConfig",
    "ContextSource",
    "HistoryCompactor",
    "Prompts",
    "ReducerConfig",
    "Summarize",
    "WindowBudget",
    "WindowBudgetConfig",
    "count_content_tokens",
    "count_message_tokens",
    "count_messages_tokens",
    "mmr_select",
]
