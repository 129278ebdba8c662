"""Tracehold: the flight recorder for AI agents.

    from tracehold import CollectorExporter, Tracer

    tracer = Tracer(exporters=[CollectorExporter()])
    with tracer.run("answer a ticket", agent="support"):
        tracer.emit({"type": "llm_call", "model": "gpt-4o-mini", "latency_ms": 420})

This module is the public contract: it names every public object and imports each one on first use, so that
`import tracehold` costs milliseconds and no optional dependency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tracehold.core.lazy import lazy_getattr
from tracehold.core.version import __version__

if TYPE_CHECKING:
    from tracehold.agent.agent import Agent as Agent
    from tracehold.agent.agent_tool import AgentTool as AgentTool
    from tracehold.context import CallableSource as CallableSource
    from tracehold.context import ContextBuilder as ContextBuilder
    from tracehold.context import ContextConfig as ContextConfig
    from tracehold.context import ContextSource as ContextSource
    from tracehold.context import HistoryCompactor as HistoryCompactor
    from tracehold.context import ReducerConfig as ReducerConfig
    from tracehold.context import WindowBudget as WindowBudget
    from tracehold.context import WindowBudgetConfig as WindowBudgetConfig
    from tracehold.core.control import ControlSignal as ControlSignal
    from tracehold.core.errors import CanonicalJsonError as CanonicalJsonError
    from tracehold.core.errors import ConfigurationError as ConfigurationError
    from tracehold.core.errors import ContextWindowExceeded as ContextWindowExceeded
    from tracehold.core.errors import ExporterError as ExporterError
    from tracehold.core.errors import GuardrailTripwireError as GuardrailTripwireError
    from tracehold.core.errors import LLMConfigError as LLMConfigError
    from tracehold.core.errors import LLMError as LLMError
    from tracehold.core.errors import LLMRequestError as LLMRequestError
    from tracehold.core.errors import LLMResponseError as LLMResponseError
    from tracehold.core.errors import RetrievalError as RetrievalError
    from tracehold.core.errors import RunCancelled as RunCancelled
    from tracehold.core.errors import RunLimitExceeded as RunLimitExceeded
    from tracehold.core.errors import SessionError as SessionError
    from tracehold.core.errors import ToolError as ToolError
    from tracehold.core.errors import ToolRegistrationError as ToolRegistrationError
    from tracehold.core.errors import TraceholdError as TraceholdError
    from tracehold.core.message import Message as Message
    from tracehold.core.message import MessageRole as MessageRole
    from tracehold.core.run_context import current_run_id as current_run_id
    from tracehold.core.run_context import current_scope as current_scope
    from tracehold.core.run_context import current_step as current_step
    from tracehold.core.run_context import current_trace_carrier as current_trace_carrier
    from tracehold.core.run_context import new_run_id as new_run_id
    from tracehold.core.scope import Scope as Scope
    from tracehold.core.tokens import count_tokens as count_tokens
    from tracehold.execution.checkpoints import CheckpointStore as CheckpointStore
    from tracehold.execution.checkpoints import SqliteCheckpointStore as SqliteCheckpointStore
    from tracehold.execution.governed import governed_chat as governed_chat
    from tracehold.execution.policy import RunPolicy as RunPolicy
    from tracehold.execution.state import ExecutionState as ExecutionState
    from tracehold.governance.approvals import Principal as Principal
    from tracehold.governance.confirm import ConfirmCallback as ConfirmCallback
    from tracehold.governance.confirm import cli_confirm as cli_confirm
    from tracehold.governance.decisions import Decisions as Decisions
    from tracehold.governance.guardrails import CallableGuardrail as CallableGuardrail
    from tracehold.governance.guardrails import Guardrail as Guardrail
    from tracehold.governance.guardrails import GuardrailResult as GuardrailResult
    from tracehold.governance.hitl import ApprovalRequired as ApprovalRequired
    from tracehold.governance.hitl import Interrupt as Interrupt
    from tracehold.governance.hitl import PendingAction as PendingAction
    from tracehold.governance.hooks import Hook as Hook
    from tracehold.governance.permissions import Permissions as Permissions
    from tracehold.governance.permissions import ToolPermissions as ToolPermissions
    from tracehold.governance.permissions import ToolRef as ToolRef
    from tracehold.governance.permissions import Verdict as Verdict
    from tracehold.governance.policy import PolicyPermissions as PolicyPermissions
    from tracehold.governance.policy_file import load_policy as load_policy
    from tracehold.governance.policy_file import parse_policy as parse_policy
    from tracehold.governance.policy_rules import Condition as Condition
    from tracehold.governance.policy_rules import PolicyRule as PolicyRule
    from tracehold.harness.harness import Harness as Harness
    from tracehold.llm.anthropic_client import AnthropicClient as AnthropicClient
    from tracehold.llm.openai_client import OpenAIClient as OpenAIClient
    from tracehold.llm.protocol import LLMClient as LLMClient
    from tracehold.llm.protocol import LLMResponse as LLMResponse
    from tracehold.llm.protocol import StreamStats as StreamStats
    from tracehold.observability.event_types import DECISIONS as DECISIONS
    from tracehold.observability.event_types import DENIALS as DENIALS
    from tracehold.observability.event_types import EVENT_TYPES as EVENT_TYPES
    from tracehold.observability.exporters.base import TraceExporter as TraceExporter
    from tracehold.observability.exporters.collector import CollectorExporter as CollectorExporter
    from tracehold.observability.exporters.jsonl import JsonlExporter as JsonlExporter
    from tracehold.observability.exporters.memory import MemoryExporter as MemoryExporter
    from tracehold.observability.exporters.otel import OTelExporter as OTelExporter
    from tracehold.observability.exporters.sqlite import SqliteExporter as SqliteExporter
    from tracehold.observability.spans import Run as Run
    from tracehold.observability.spans import Span as Span
    from tracehold.observability.tracer import Tracer as Tracer
    from tracehold.retrieval import Embedder as Embedder
    from tracehold.retrieval import HybridRetriever as HybridRetriever
    from tracehold.retrieval import IndexSync as IndexSync
    from tracehold.retrieval import InMemoryBookkeeping as InMemoryBookkeeping
    from tracehold.retrieval import KeywordIndex as KeywordIndex
    from tracehold.retrieval import RetrievalConfig as RetrievalConfig
    from tracehold.retrieval import RetrievalResult as RetrievalResult
    from tracehold.retrieval import SqliteBookkeeping as SqliteBookkeeping
    from tracehold.retrieval import SyncIndexSync as SyncIndexSync
    from tracehold.retrieval import ToolRetriever as ToolRetriever
    from tracehold.retrieval import VectorStore as VectorStore
    from tracehold.sessions.search import ConversationSearch as ConversationSearch
    from tracehold.sessions.search_tool import ConversationSearchTool as ConversationSearchTool
    from tracehold.sessions.sqlite import SqliteSessionStore as SqliteSessionStore
    from tracehold.sessions.store import ScopeSummary as ScopeSummary
    from tracehold.sessions.store import SessionStore as SessionStore
    from tracehold.tools import Tool as Tool
    from tracehold.tools import ToolParameter as ToolParameter
    from tracehold.tools import ToolRegistry as ToolRegistry
    from tracehold.tools import ToolResponse as ToolResponse
    from tracehold.tools import tool as tool

_HOME: Final = {
    "Agent": "tracehold.agent.agent",
    "AgentTool": "tracehold.agent.agent_tool",
    "AnthropicClient": "tracehold.llm.anthropic_client",
    "ApprovalRequired": "tracehold.governance.hitl",
    "CallableGuardrail": "tracehold.governance.guardrails",
    "CallableSource": "tracehold.context",
    "CanonicalJsonError": "tracehold.core.errors",
    "CheckpointStore": "tracehold.execution.checkpoints",
    "CollectorExporter": "tracehold.observability.exporters.collector",
    "Condition": "tracehold.governance.policy_rules",
    "ConfigurationError": "tracehold.core.errors",
    "ConfirmCallback": "tracehold.governance.confirm",
    "ContextBuilder": "tracehold.context",
    "ContextConfig": "tracehold.context",
    "ContextSource": "tracehold.context",
    "ContextWindowExceeded": "tracehold.core.errors",
    "ControlSignal": "tracehold.core.control",
    "ConversationSearch": "tracehold.sessions.search",
    "ConversationSearchTool": "tracehold.sessions.search_tool",
    "DECISIONS": "tracehold.observability.event_types",
    "DENIALS": "tracehold.observability.event_types",
    "Decisions": "tracehold.governance.decisions",
    "EVENT_TYPES": "tracehold.observability.event_types",
    "Embedder": "tracehold.retrieval",
    "ExecutionState": "tracehold.execution.state",
    "ExporterError": "tracehold.core.errors",
    "Guardrail": "tracehold.governance.guardrails",
    "GuardrailResult": "tracehold.governance.guardrails",
    "GuardrailTripwireError": "tracehold.core.errors",
    "Harness": "tracehold.harness.harness",
    "HistoryCompactor": "tracehold.context",
    "Hook": "tracehold.governance.hooks",
    "HybridRetriever": "tracehold.retrieval",
    "InMemoryBookkeeping": "tracehold.retrieval",
    "IndexSync": "tracehold.retrieval",
    "Interrupt": "tracehold.governance.hitl",
    "JsonlExporter": "tracehold.observability.exporters.jsonl",
    "KeywordIndex": "tracehold.retrieval",
    "LLMClient": "tracehold.llm.protocol",
    "LLMConfigError": "tracehold.core.errors",
    "LLMError": "tracehold.core.errors",
    "LLMRequestError": "tracehold.core.errors",
    "LLMResponse": "tracehold.llm.protocol",
    "LLMResponseError": "tracehold.core.errors",
    "MemoryExporter": "tracehold.observability.exporters.memory",
    "Message": "tracehold.core.message",
    "MessageRole": "tracehold.core.message",
    "OTelExporter": "tracehold.observability.exporters.otel",
    "OpenAIClient": "tracehold.llm.openai_client",
    "PendingAction": "tracehold.governance.hitl",
    "Permissions": "tracehold.governance.permissions",
    "PolicyPermissions": "tracehold.governance.policy",
    "PolicyRule": "tracehold.governance.policy_rules",
    "Principal": "tracehold.governance.approvals",
    "ReducerConfig": "tracehold.context",
    "RetrievalConfig": "tracehold.retrieval",
    "RetrievalError": "tracehold.core.errors",
    "RetrievalResult": "tracehold.retrieval",
    "Run": "tracehold.observability.spans",
    "RunCancelled": "tracehold.core.errors",
    "RunLimitExceeded": "tracehold.core.errors",
    "RunPolicy": "tracehold.execution.policy",
    "Scope": "tracehold.core.scope",
    "ScopeSummary": "tracehold.sessions.store",
    "SessionError": "tracehold.core.errors",
    "SessionStore": "tracehold.sessions.store",
    "Span": "tracehold.observability.spans",
    "SqliteBookkeeping": "tracehold.retrieval",
    "SqliteCheckpointStore": "tracehold.execution.checkpoints",
    "SqliteExporter": "tracehold.observability.exporters.sqlite",
    "SqliteSessionStore": "tracehold.sessions.sqlite",
    "StreamStats": "tracehold.llm.protocol",
    "SyncIndexSync": "tracehold.retrieval",
    "Tool": "tracehold.tools",
    "ToolError": "tracehold.core.errors",
    "ToolParameter": "tracehold.tools",
    "ToolPermissions": "tracehold.governance.permissions",
    "ToolRef": "tracehold.governance.permissions",
    "ToolRegistrationError": "tracehold.core.errors",
    "ToolRegistry": "tracehold.tools",
    "ToolResponse": "tracehold.tools",
    "ToolRetriever": "tracehold.retrieval",
    "TraceExporter": "tracehold.observability.exporters.base",
    "TraceholdError": "tracehold.core.errors",
    "Tracer": "tracehold.observability.tracer",
    "VectorStore": "tracehold.retrieval",
    "Verdict": "tracehold.governance.permissions",
    "WindowBudget": "tracehold.context",
    "WindowBudgetConfig": "tracehold.context",
    "cli_confirm": "tracehold.governance.confirm",
    "count_tokens": "tracehold.core.tokens",
    "current_run_id": "tracehold.core.run_context",
    "current_scope": "tracehold.core.run_context",
    "current_step": "tracehold.core.run_context",
    "current_trace_carrier": "tracehold.core.run_context",
    "governed_chat": "tracehold.execution.governed",
    "load_policy": "tracehold.governance.policy_file",
    "new_run_id": "tracehold.core.run_context",
    "parse_policy": "tracehold.governance.policy_file",
    "tool": "tracehold.tools",
}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604 - the table above is the list


__getattr__ = lazy_getattr(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
