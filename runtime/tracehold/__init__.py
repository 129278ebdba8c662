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
    from tracehold.agent.engine_agent import EngineAgent as EngineAgent
    from tracehold.context import CallableSource as CallableSource
    from tracehold.context import ContextBuilder as ContextBuilder
    from tracehold.context import ContextConfig as ContextConfig
    from tracehold.context import ContextSource as ContextSource
    from tracehold.context import HistoryCompactor as HistoryCompactor
    from tracehold.context import ReducerConfig as ReducerConfig
    from tracehold.context import WindowBudget as WindowBudget
    from tracehold.context import WindowBudgetConfig as WindowBudgetConfig
    from tracehold.core.control import ControlSignal as ControlSignal
    from tracehold.core.control import Redeliver as Redeliver
    from tracehold.core.errors import BlobIntegrityError as BlobIntegrityError
    from tracehold.core.errors import CanonicalJsonError as CanonicalJsonError
    from tracehold.core.errors import ConcurrencyError as ConcurrencyError
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
    from tracehold.core.errors import RunNotFinished as RunNotFinished
    from tracehold.core.errors import SchemaError as SchemaError
    from tracehold.core.errors import SessionError as SessionError
    from tracehold.core.errors import StoreError as StoreError
    from tracehold.core.errors import StoreUnavailable as StoreUnavailable
    from tracehold.core.errors import TenantMismatch as TenantMismatch
    from tracehold.core.errors import ToolError as ToolError
    from tracehold.core.errors import ToolRegistrationError as ToolRegistrationError
    from tracehold.core.errors import TraceholdError as TraceholdError
    from tracehold.core.message import Message as Message
    from tracehold.core.message import MessageRole as MessageRole
    from tracehold.core.outcome import Outcome as Outcome
    from tracehold.core.outcome import OutcomeKind as OutcomeKind
    from tracehold.core.retry import RetryPolicy as RetryPolicy
    from tracehold.core.run_context import current_run_id as current_run_id
    from tracehold.core.run_context import current_scope as current_scope
    from tracehold.core.run_context import current_step as current_step
    from tracehold.core.run_context import current_trace_carrier as current_trace_carrier
    from tracehold.core.run_context import new_run_id as new_run_id
    from tracehold.core.scope import Scope as Scope
    from tracehold.core.tokens import count_tokens as count_tokens
    from tracehold.engine import Algorithm as Algorithm
    from tracehold.engine import Budget as Budget
    from tracehold.engine import Ctx as Ctx
    from tracehold.engine import Engine as Engine
    from tracehold.engine import ErasureReport as ErasureReport
    from tracehold.engine import Ledger as Ledger
    from tracehold.engine import MemoryReport as MemoryReport
    from tracehold.engine import MemoryScope as MemoryScope
    from tracehold.engine import PurgeReport as PurgeReport
    from tracehold.engine import RetentionPolicy as RetentionPolicy
    from tracehold.engine import RunHandle as RunHandle
    from tracehold.engine import TenantScope as TenantScope
    from tracehold.engine.observer import Observer as Observer
    from tracehold.engine.observer import observe_history as observe_history
    from tracehold.events.blobs import BlobStore as BlobStore
    from tracehold.events.blobs import FileBlobStore as FileBlobStore
    from tracehold.events.blobs import InMemoryBlobStore as InMemoryBlobStore
    from tracehold.events.bus import EventBus as EventBus
    from tracehold.events.bus import Handler as Handler
    from tracehold.events.cloudevents import from_cloudevent as from_cloudevent
    from tracehold.events.cloudevents import to_cloudevent as to_cloudevent
    from tracehold.events.event import BlobRef as BlobRef
    from tracehold.events.event import Event as Event
    from tracehold.events.in_process_bus import InProcessBus as InProcessBus
    from tracehold.events.memory_store import InMemoryEventStore as InMemoryEventStore
    from tracehold.events.projections import Projection as Projection
    from tracehold.events.schemas import SchemaRegistry as SchemaRegistry
    from tracehold.events.sqlite_store import SQLiteEventStore as SQLiteEventStore
    from tracehold.events.store import EventStore as EventStore
    from tracehold.events.store import RunInfo as RunInfo
    from tracehold.events.store import StoredSnapshot as StoredSnapshot
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
    from tracehold.governance.policy_record import RecordablePolicy as RecordablePolicy
    from tracehold.governance.policy_record import record_policy as record_policy
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
    from tracehold.privacy.redactors import DEFAULT_PATTERNS as DEFAULT_PATTERNS
    from tracehold.privacy.redactors import SECRET_KEYS as SECRET_KEYS
    from tracehold.privacy.redactors import ChainRedactor as ChainRedactor
    from tracehold.privacy.redactors import KeyRedactor as KeyRedactor
    from tracehold.privacy.redactors import Pattern as Pattern
    from tracehold.privacy.redactors import PatternRedactor as PatternRedactor
    from tracehold.privacy.redactors import Redactor as Redactor
    from tracehold.privacy.redactors import standard_redactor as standard_redactor
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
    "Algorithm": "tracehold.engine",
    "AnthropicClient": "tracehold.llm.anthropic_client",
    "ApprovalRequired": "tracehold.governance.hitl",
    "BlobIntegrityError": "tracehold.core.errors",
    "BlobRef": "tracehold.events.event",
    "BlobStore": "tracehold.events.blobs",
    "Budget": "tracehold.engine",
    "CallableGuardrail": "tracehold.governance.guardrails",
    "CallableSource": "tracehold.context",
    "CanonicalJsonError": "tracehold.core.errors",
    "ChainRedactor": "tracehold.privacy.redactors",
    "CheckpointStore": "tracehold.execution.checkpoints",
    "CollectorExporter": "tracehold.observability.exporters.collector",
    "ConcurrencyError": "tracehold.core.errors",
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
    "Ctx": "tracehold.engine",
    "DECISIONS": "tracehold.observability.event_types",
    "DEFAULT_PATTERNS": "tracehold.privacy.redactors",
    "DENIALS": "tracehold.observability.event_types",
    "Decisions": "tracehold.governance.decisions",
    "EVENT_TYPES": "tracehold.observability.event_types",
    "Embedder": "tracehold.retrieval",
    "Engine": "tracehold.engine",
    "EngineAgent": "tracehold.agent.engine_agent",
    "ErasureReport": "tracehold.engine",
    "Event": "tracehold.events.event",
    "EventBus": "tracehold.events.bus",
    "EventStore": "tracehold.events.store",
    "ExecutionState": "tracehold.execution.state",
    "ExporterError": "tracehold.core.errors",
    "FileBlobStore": "tracehold.events.blobs",
    "Guardrail": "tracehold.governance.guardrails",
    "GuardrailResult": "tracehold.governance.guardrails",
    "GuardrailTripwireError": "tracehold.core.errors",
    "Handler": "tracehold.events.bus",
    "Harness": "tracehold.harness.harness",
    "HistoryCompactor": "tracehold.context",
    "Hook": "tracehold.governance.hooks",
    "HybridRetriever": "tracehold.retrieval",
    "InMemoryBlobStore": "tracehold.events.blobs",
    "InMemoryBookkeeping": "tracehold.retrieval",
    "InMemoryEventStore": "tracehold.events.memory_store",
    "InProcessBus": "tracehold.events.in_process_bus",
    "IndexSync": "tracehold.retrieval",
    "Interrupt": "tracehold.governance.hitl",
    "JsonlExporter": "tracehold.observability.exporters.jsonl",
    "KeyRedactor": "tracehold.privacy.redactors",
    "KeywordIndex": "tracehold.retrieval",
    "LLMClient": "tracehold.llm.protocol",
    "LLMConfigError": "tracehold.core.errors",
    "LLMError": "tracehold.core.errors",
    "LLMRequestError": "tracehold.core.errors",
    "LLMResponse": "tracehold.llm.protocol",
    "LLMResponseError": "tracehold.core.errors",
    "Ledger": "tracehold.engine",
    "MemoryExporter": "tracehold.observability.exporters.memory",
    "MemoryReport": "tracehold.engine",
    "MemoryScope": "tracehold.engine",
    "Message": "tracehold.core.message",
    "MessageRole": "tracehold.core.message",
    "OTelExporter": "tracehold.observability.exporters.otel",
    "Observer": "tracehold.engine.observer",
    "OpenAIClient": "tracehold.llm.openai_client",
    "Outcome": "tracehold.core.outcome",
    "OutcomeKind": "tracehold.core.outcome",
    "Pattern": "tracehold.privacy.redactors",
    "PatternRedactor": "tracehold.privacy.redactors",
    "PendingAction": "tracehold.governance.hitl",
    "Permissions": "tracehold.governance.permissions",
    "PolicyPermissions": "tracehold.governance.policy",
    "PolicyRule": "tracehold.governance.policy_rules",
    "Principal": "tracehold.governance.approvals",
    "Projection": "tracehold.events.projections",
    "PurgeReport": "tracehold.engine",
    "RecordablePolicy": "tracehold.governance.policy_record",
    "Redactor": "tracehold.privacy.redactors",
    "Redeliver": "tracehold.core.control",
    "ReducerConfig": "tracehold.context",
    "RetentionPolicy": "tracehold.engine",
    "RetrievalConfig": "tracehold.retrieval",
    "RetrievalError": "tracehold.core.errors",
    "RetrievalResult": "tracehold.retrieval",
    "RetryPolicy": "tracehold.core.retry",
    "Run": "tracehold.observability.spans",
    "RunCancelled": "tracehold.core.errors",
    "RunHandle": "tracehold.engine",
    "RunInfo": "tracehold.events.store",
    "RunLimitExceeded": "tracehold.core.errors",
    "RunNotFinished": "tracehold.core.errors",
    "RunPolicy": "tracehold.execution.policy",
    "SECRET_KEYS": "tracehold.privacy.redactors",
    "SQLiteEventStore": "tracehold.events.sqlite_store",
    "SchemaError": "tracehold.core.errors",
    "SchemaRegistry": "tracehold.events.schemas",
    "Scope": "tracehold.core.scope",
    "ScopeSummary": "tracehold.sessions.store",
    "SessionError": "tracehold.core.errors",
    "SessionStore": "tracehold.sessions.store",
    "Span": "tracehold.observability.spans",
    "SqliteBookkeeping": "tracehold.retrieval",
    "SqliteCheckpointStore": "tracehold.execution.checkpoints",
    "SqliteExporter": "tracehold.observability.exporters.sqlite",
    "SqliteSessionStore": "tracehold.sessions.sqlite",
    "StoreError": "tracehold.core.errors",
    "StoreUnavailable": "tracehold.core.errors",
    "StoredSnapshot": "tracehold.events.store",
    "StreamStats": "tracehold.llm.protocol",
    "SyncIndexSync": "tracehold.retrieval",
    "TenantMismatch": "tracehold.core.errors",
    "TenantScope": "tracehold.engine",
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
    "from_cloudevent": "tracehold.events.cloudevents",
    "governed_chat": "tracehold.execution.governed",
    "load_policy": "tracehold.governance.policy_file",
    "new_run_id": "tracehold.core.run_context",
    "observe_history": "tracehold.engine.observer",
    "parse_policy": "tracehold.governance.policy_file",
    "record_policy": "tracehold.governance.policy_record",
    "standard_redactor": "tracehold.privacy.redactors",
    "to_cloudevent": "tracehold.events.cloudevents",
    "tool": "tracehold.tools",
}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604 - the table above is the list


__getattr__ = lazy_getattr(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted(__all__)
