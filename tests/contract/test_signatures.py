"""Every name of the documented agent runtime and of the documented engine can be imported and called as documented."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Final

import pydantic
import pytest
import tracehold
from contract import documented_b
from contract.comparing import differences
from contract.documented import Documented, Entry, load, parameters
from tracehold.events.store import ANY_SEQ
from tracehold.privacy.redactors import DEFAULT_PATTERNS, SECRET_KEYS

A: Final = load()
B: Final = load(documented_b.FROZEN)
ENTRIES: Final = [pytest.param(entry, of, id=entry.name) for of in (A, B) for entry in of.entries]
CLASSES: Final = [pytest.param(e.name, of, id=e.name) for of in (A, B) for e in of.entries if e.kind == "class"]
POSITIONAL: Final = ["GuardrailResult", "Interrupt", "PendingAction", "RunPolicy"]
"""Dataclasses whose fields are documented as a list in order; `ExecutionState`'s are grouped by purpose."""

COLLABORATORS: Final = [
    "BlobIntegrityError",
    "BlobRef",
    "BlobStore",
    "CallableSource",
    "ConcurrencyError",
    "ContextBuilder",
    "ContextConfig",
    "ContextSource",
    "ContextWindowExceeded",
    "DEFAULT_PATTERNS",
    "Event",
    "EventBus",
    "EventStore",
    "FileBlobStore",
    "GuardrailTripwireError",
    "Handler",
    "HistoryCompactor",
    "HybridRetriever",
    "InMemoryBlobStore",
    "InMemoryEventStore",
    "InProcessBus",
    "IndexSync",
    "LLMClient",
    "LLMConfigError",
    "LLMError",
    "LLMRequestError",
    "LLMResponse",
    "LLMResponseError",
    "MemoryReport",
    "MemoryScope",
    "Message",
    "Outcome",
    "OutcomeKind",
    "Projection",
    "Redeliver",
    "ReducerConfig",
    "RetrievalError",
    "RetrievalResult",
    "RetryPolicy",
    "RunCancelled",
    "RunInfo",
    "RunLimitExceeded",
    "RunNotFinished",
    "SECRET_KEYS",
    "SQLiteEventStore",
    "SchemaError",
    "SchemaRegistry",
    "Scope",
    "SessionError",
    "SqliteBookkeeping",
    "StoreUnavailable",
    "StoredSnapshot",
    "SyncIndexSync",
    "TenantMismatch",
    "Tool",
    "ToolError",
    "ToolParameter",
    "ToolPermissions",
    "ToolRegistrationError",
    "ToolRegistry",
    "ToolResponse",
    "ToolRetriever",
    "WindowBudget",
    "WindowBudgetConfig",
    "count_tokens",
    "tool",
]
"""What the references and their clauses name beside the headings: a program cannot use those without these."""


STATED: Final = {
    "CallableSource.__init__": "(name, fetch, *, pass_scope=None)",
    "ContextBuilder.__init__": "(config=None, *, min_chunk_tokens=None, prompts=None, token_counter=count_tokens)",
    "ExecutionState.__init__": (
        "(messages, input_text, remaining=0, decisions=..., pending=..., meta=..., run_id=None, step=0, "
        "completed=False)"
    ),
    "GuardrailResult.__init__": "(passed, message='')",
    "HistoryCompactor.__init__": (
        "(llm, *, keep_recent=4, trigger_tokens=2000, max_summary_tokens=1000, summary_prompt=None, prompts=None, "
        "token_counter=count_tokens)"
    ),
    "Interrupt.__init__": "(pendings, scope=None)",
    "LLMResponse.__init__": (
        "(content='', finish_reason=None, model='', usage=None, reasoning_content=None, tool_calls=None, latency_ms=0, "
        "raw=None, assistant_message=None)"
    ),
    "Message.__init__": "(content, role, timestamp=..., metadata=...)",
    "PendingAction.__init__": "(tool_name, arguments, call_id)",
    "ReducerConfig.__init__": "(agent_keep_recent_steps=3, plan_keep_recent=3)",
    "RunPolicy.__init__": (
        "(max_llm_calls=None, max_tool_calls=None, max_tokens=None, deadline_seconds=None, cancel=None)"
    ),
    "Scope.__init__": "(base=None, user=None, agent=None, session=None, app=None)",
    "Tool.__init__": "(name, description, *, origin='builtin')",
    "ToolParameter.__init__": "(name, type, description, required=True, default=None, schema=None)",
    "ToolPermissions.__init__": "(allow=None, deny=(), allow_origins=None, deny_origins=(), prompts=None)",
    "ToolRegistry.get_tools_description": "(names=None)",
    "ToolRegistry.register": "(tool, *, overwrite=False)",
    "ToolRegistry.register_all": "(tools, *, on_conflict='error')",
    "ToolRegistry.to_openai_schema": "(names=None)",
    "ToolResponse.__init__": "(text, status='success', data=None)",
    "ToolRetriever.__init__": (
        "(registry, retriever, *, scope=None, top_k=8, always_include=(), on_empty='all', selector=None, "
        "index_sync=None)"
    ),
    "ToolRetriever.retrieve": "(query, *, top_k=None)",
    "ToolRetriever.schema_for": "(query, *, top_k=None)",
    "WindowBudgetConfig.__init__": "(desired_output_tokens=4096, max_output_fraction=0.5, rag_ratio=0.35)",
}
"""Constructors and methods that the contract's Part A states, most of them of collaborators; `...` is any default."""

STATED_B: Final = {
    "Algorithm.on_event": ("ALG-01", "async (event, ctx, /)"),
    "BlobRef.__init__": ("EVT-05", "(uri, sha256, size, media_type=...)"),
    "BlobStore.delete": ("BLB-01", "async (ref)"),
    "BlobStore.exists": ("BLB-01", "async (ref)"),
    "BlobStore.get": ("BLB-01", "async (ref)"),
    "BlobStore.put": ("BLB-01", "async (data, media_type=...)"),
    "Budget.__init__": ("BUD-01", "(*, max_steps=None, max_tokens=None, max_cost=None, deadline_s=None)"),
    "Ctx.ledger": ("CTXT-05", "()"),
    "Engine.complete": ("ENG-41", "async (run_id, kind, value=None, reason=None)"),
    "Engine.project": ("ENG-40", "async (projection, run_id)"),
    "Event.caused": ("EVT-03", "(type, data=None, **kw)"),
    "EventBus.abort": ("BUS-08", "async ()"),
    "EventBus.drain": ("BUS-08", "async ()"),
    "EventBus.publish": ("BUS-02", "async (event)"),
    "EventBus.subscribe": ("BUS-01", "(pattern, handler, *, group=None, concurrency=1, predicate=None)"),
    "EventStore.aclose": ("STO-13", "async ()"),
    "EventStore.append": ("STO-01", "async (stream, events, expected_seq=ANY)"),
    "EventStore.delete_stream": ("STO-09", "async (stream)"),
    "EventStore.has": ("STO-06", "async (stream, event_id)"),
    "EventStore.last_seq": ("STO-06", "async (stream)"),
    "EventStore.load_snapshot": ("STO-10", "async (stream, name)"),
    "EventStore.read": ("STO-04", "async (stream, from_seq=0, limit=None)"),
    "EventStore.run_index": ("STO-07", "async ()"),
    "EventStore.save_snapshot": ("STO-10", "async (snap)"),
    "EventStore.scrub": ("STO-08", "async (stream)"),
    "EventStore.subscribe": ("STO-05", "(stream, from_seq=0)"),
    "Ledger.__init__": ("LED-01", "(*, steps=0, tokens=0, cost=0.0)"),
    "MemoryReport.__init__": ("MEM-04", "(forgotten=dict(), unsupported=list())"),
    "MemoryScope.__init__": ("MEM-01", "(tenant=None, user=None, agent=None, session=None, namespace=...)"),
    "Outcome.__init__": ("OUT-01", "(kind, value=None, reason=None)"),
    "Projection.__init__": ("PRJ-01", "(initial, fold, *, name='', version=1, state_type=None, every=64)"),
    "RetryPolicy.__init__": (
        "RTY-01",
        "(max_attempts=None, max_elapsed_s=30.0, base_delay_s=0.1, max_delay_s=2.0, multiplier=2.0, jitter=True)",
    ),
    "RunHandle.cancel": ("HND-06", "async (reason='cancelled')"),
    "SchemaRegistry.register": ("SCH-01", "(ref, model)"),
    "SchemaRegistry.upcaster": ("SCH-01", "(name, from_version, fn)"),
    "SchemaRegistry.validate": ("SCH-02", "(event)"),
    "TenantScope.erase": ("TEN-09", "async (run_id, **kw)"),
    "TenantScope.run": ("TEN-06", "async (algo, input, **kw)"),
    "TenantScope.runs": ("TEN-08", "async (*, open_only=False)"),
    "TenantScope.start": ("TEN-06", "async (algo, input, *, run_id=None, budget=None, user=None, **kw)"),
}
"""The same of Part B, with the clause that states it, which no comment names: its promises are tested elsewhere."""

IMPLEMENTED: Final = [
    (implementation, name)
    for protocol, implementations in {
        "BlobStore": ["FileBlobStore", "InMemoryBlobStore"],
        "EventBus": ["InProcessBus"],
        "EventStore": ["InMemoryEventStore", "SQLiteEventStore"],
    }.items()
    for implementation in implementations
    for name in STATED_B
    if name.startswith(f"{protocol}.")
]
"""What is stated of a protocol holds of what comes with it."""

ENVELOPE: Final = {
    "id", "type", "source", "subject", "time", "stream", "run_id", "tenant", "trace_id", "span_id", "causation_id",
    "correlation_id", "seq", "schema_ref", "data", "blobs", "meta",
}  # fmt: skip
"""The fields of an event (EVT-01)."""


def meanings(documented: Documented) -> dict[str, Any]:
    """What documented defaults that are no literals stand for, and the default that carries the package's own name."""
    return {
        "count_tokens": getattr(tracehold, "count_tokens", None),
        "_DEFAULT_STRUCTURED_RETRIES": 1,
        "ANY": ANY_SEQ,
        "DEFAULT_PATTERNS": DEFAULT_PATTERNS,
        "SECRET_KEYS": SECRET_KEYS,
        "dict()": dict,  # made anew for each object
        "list()": list,
        "S": "State",  # a type variable
        "asyncio.Task[Any]": "asyncio.Task[Result]",  # of what it is given
        repr(documented.package): "tracehold",  # DEC-16
    }


def stated(name: str, text: str) -> Entry:
    """Read `async (a, b=1)`."""
    marks, _, rest = text.partition("(")
    return Entry(name, "method", tuple(marks.split()), parameters(f"({rest}"))


@pytest.mark.parametrize(("entry", "documented"), ENTRIES)
def test_a_documented_name_can_be_called_as_documented(entry: Entry, documented: Documented) -> None:  # DEC-12, DEC-16
    assert differences(entry, tracehold, meanings(documented)) == []


@pytest.mark.parametrize("name", STATED)
def test_what_a_clause_states_can_be_called_so(name: str) -> None:
    assert differences(stated(name, STATED[name]), tracehold, meanings(A)) == []


@pytest.mark.parametrize("name", STATED_B)
def test_what_a_clause_of_the_engine_states_can_be_called_so(name: str) -> None:
    clause, text = STATED_B[name]
    assert differences(stated(name, text), tracehold, meanings(B)) == [], clause


@pytest.mark.parametrize(("implementation", "name"), IMPLEMENTED)
def test_an_implementation_can_be_called_as_its_protocol(implementation: str, name: str) -> None:
    clause, text = STATED_B[name]
    entry = stated(f"{implementation}.{name.partition('.')[2]}", text)
    assert differences(entry, tracehold, meanings(B)) == [], clause


def test_an_event_is_made_of_the_stated_fields_by_name() -> None:  # EVT-01
    taken = inspect.signature(tracehold.Event).parameters
    assert taken.keys() >= ENVELOPE
    assert {name for name, parameter in taken.items() if parameter.default is parameter.empty} == {"type"}
    event = tracehold.Event(type="invoice.sent")
    assert all(hasattr(event, name) for name in ENVELOPE)
    assert event.seq == -1


def test_a_purge_report_lists_the_streams_as_a_property() -> None:
    assert differences(Entry("PurgeReport.streams", "property"), tracehold, {}) == []


def test_an_algorithm_has_a_name() -> None:
    assert "name" in tracehold.Algorithm.__annotations__


@pytest.mark.parametrize("name", ["Budget", "Ledger"])
def test_what_is_documented_as_a_model_validates_and_dumps_as_one(name: str) -> None:  # DEC-16
    model = getattr(tracehold, name)
    fields = [parameter.name for parameter in parameters(STATED_B[f"{name}.__init__"][1])]
    assert issubclass(model, pydantic.BaseModel)
    assert list(model.model_fields) == fields
    assert model.model_validate(model().model_dump()) == model()
    with pytest.raises(pydantic.ValidationError, match=fields[0]):
        model.model_validate({fields[0]: "many"})


@pytest.mark.parametrize("name", COLLABORATORS)
def test_a_collaborator_that_the_documentation_names_can_be_imported(name: str) -> None:  # DEC-16
    assert getattr(tracehold, name, None) is not None
    assert name in tracehold.__all__


@pytest.mark.parametrize(("name", "reference"), CLASSES)
def test_a_subclass_that_writes_the_documented_abstract_methods_is_complete(name: str, reference: Documented) -> None:
    documented = {e.member for e in reference.entries if e.owner == name and "abstractmethod" in e.marks}
    assert set(getattr(getattr(tracehold, name), "__abstractmethods__", ())) == documented


@pytest.mark.parametrize("name", POSITIONAL)
def test_a_dataclass_takes_its_fields_in_the_documented_order(name: str) -> None:
    (documented,) = [entry.fields for entry in A.entries if entry.name == name]
    ours = tuple(field.name for field in dataclasses.fields(getattr(tracehold, name)) if not field.kw_only)
    assert ours == documented
