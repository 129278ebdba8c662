"""Every name of the documented agent runtime and of the documented engine can be imported and called as documented."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pydantic
import pytest
import tracehold
from contract import documented_b
from contract.comparing import differences
from contract.documented import FROZEN, Documented, Entry, dump, load, parameters, read_reference
from tracehold.events.store import ANY_SEQ
from tracehold.privacy.redactors import DEFAULT_PATTERNS, SECRET_KEYS

ROOT: Final = Path(__file__).resolve().parents[2]
SPEC: Final = Path(os.environ.get("TRACEHOLD_SPEC", ROOT.parent / "shared" / "spec"))
REFERENCES: Final = [
    pytest.param("Runtime\n", FROZEN, read_reference, id="agent runtime"),
    pytest.param("`aaa.runtime`", documented_b.FROZEN, documented_b.read_reference, id="engine"),
]
"""How a reference begins (its file is named after its digest), where its facts are kept, and what reads it."""

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
    "Algorithm.on_event": "async (event, ctx, /)",  # ALG-01
    "BlobRef.__init__": "(uri, sha256, size, media_type=...)",  # EVT-05
    "BlobStore.delete": "async (ref)",  # BLB-01
    "BlobStore.exists": "async (ref)",
    "BlobStore.get": "async (ref)",
    "BlobStore.put": "async (data, media_type=...)",
    "Budget.__init__": "(*, max_steps=None, max_tokens=None, max_cost=None, deadline_s=None)",  # BUD-01
    "Ctx.ledger": "()",  # CTXT-05
    "Engine.complete": "async (run_id, kind, value=None, reason=None)",  # ENG-41
    "Engine.project": "async (projection, run_id)",  # ENG-40
    "Event.caused": "(type, data=None, **kw)",  # EVT-03
    "EventBus.abort": "async ()",  # BUS-08
    "EventBus.drain": "async ()",  # BUS-08
    "EventBus.publish": "async (event)",  # BUS-02
    "EventBus.subscribe": "(pattern, handler, *, group=None, concurrency=1, predicate=None)",  # BUS-01
    "Ledger.__init__": "(*, steps=0, tokens=0, cost=0.0)",  # LED-01
    "MemoryReport.__init__": "(forgotten=dict(), unsupported=list())",  # MEM-04
    "MemoryScope.__init__": "(tenant=None, user=None, agent=None, session=None, namespace=...)",  # MEM-01
    "Outcome.__init__": "(kind, value=None, reason=None)",  # OUT-01
    "Projection.__init__": "(initial, fold, *, name='', version=1, state_type=None, every=64)",  # PRJ-01
    "RetryPolicy.__init__": (  # RTY-01
        "(max_attempts=None, max_elapsed_s=30.0, base_delay_s=0.1, max_delay_s=2.0, multiplier=2.0, jitter=True)"
    ),
    "RunHandle.cancel": "async (reason='cancelled')",  # HND-06
    "SchemaRegistry.register": "(ref, model)",  # SCH-01
    "SchemaRegistry.upcaster": "(name, from_version, fn)",  # SCH-01
    "SchemaRegistry.validate": "(event)",  # SCH-02
    "TenantScope.erase": "async (run_id, **kw)",  # TEN-09
    "TenantScope.run": "async (algo, input, **kw)",  # TEN-06
    "TenantScope.runs": "async (*, open_only=False)",  # TEN-08
    "TenantScope.start": "async (algo, input, *, run_id=None, budget=None, user=None, **kw)",  # TEN-06
}
"""The same of Part B; a signature written by hand, where a reference does not have it."""

STORE: Final = {
    "aclose": "async ()",  # STO-13
    "append": "async (stream, events, expected_seq=ANY)",  # STO-01
    "delete_stream": "async (stream)",  # STO-09
    "has": "async (stream, event_id)",  # STO-06
    "last_seq": "async (stream)",  # STO-06
    "load_snapshot": "async (stream, name)",  # STO-10
    "read": "async (stream, from_seq=0, limit=None)",  # STO-04
    "run_index": "async ()",  # STO-07
    "save_snapshot": "async (snap)",  # STO-10
    "scrub": "async (stream)",  # STO-08
    "subscribe": "(stream, from_seq=0)",  # STO-05: the result is consumed with `async for`
}
"""What Part B states of an event store."""

STORES: Final = ["EventStore", "InMemoryEventStore", "SQLiteEventStore"]

ENVELOPE: Final = {
    "id", "type", "source", "subject", "time", "stream", "run_id", "tenant", "trace_id", "span_id", "causation_id",
    "correlation_id", "seq", "schema_ref", "data", "blobs", "meta",
}  # fmt: skip
"""The fields of an event (EVT-01)."""


ENGINE: Final = """\
`pack.runtime`¶

Motor `dataclass` ¶

Motor(
    power: int,
    parts: list[str] = list(),
)

Bases: Protocol, _Hidden

turns `async` ¶

turns(*, fast: bool = False) -> AsyncIterator[Turn]

Validate -> count (twice).

unheaded(
    *rest: Callable[[int], bool]
    | None,
) -> None

Others¶

standard_redactor ¶

standard_redactor() -> Motor

pack.runtime¶

turns async ¶
"""
"""A reference in miniature: what follows the repeated title is navigation."""


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
    assert differences(stated(name, STATED_B[name]), tracehold, meanings(B)) == []


@pytest.mark.parametrize("member", STORE)
@pytest.mark.parametrize("store", STORES)
def test_a_store_can_be_called_as_the_clauses_state(store: str, member: str) -> None:
    assert differences(stated(f"{store}.{member}", STORE[member]), tracehold, meanings(B)) == []


def test_an_event_is_made_of_the_stated_fields_by_name() -> None:  # EVT-01
    taken = inspect.signature(tracehold.Event).parameters
    assert taken.keys() >= ENVELOPE
    assert {name for name, parameter in taken.items() if parameter.default is parameter.empty} == {"type"}
    event = tracehold.Event(type="invoice.sent")
    assert all(hasattr(event, name) for name in ENVELOPE)
    assert event.seq == -1


def test_a_purge_report_lists_the_streams_as_a_property() -> None:  # RET-10
    assert differences(Entry("PurgeReport.streams", "property"), tracehold, {}) == []


def test_an_algorithm_has_a_name() -> None:  # ALG-01
    assert "name" in tracehold.Algorithm.__annotations__


@pytest.mark.parametrize("name", ["Budget", "Ledger"])
def test_what_is_documented_as_a_model_validates_and_dumps_as_one(name: str) -> None:  # DEC-16
    model = getattr(tracehold, name)
    fields = [parameter.name for parameter in parameters(STATED_B[f"{name}.__init__"])]
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


@pytest.mark.parametrize(("begin", "frozen", "read"), REFERENCES)
def test_what_is_frozen_is_what_the_reference_says(
    begin: str, frozen: Path, read: Callable[[Path], Documented]
) -> None:
    found = [path for path in sorted(SPEC.glob("*.txt")) if path.read_text("utf-8").startswith(begin)]
    if not found:
        pytest.skip(f"the reference is not in {SPEC}; set TRACEHOLD_SPEC to its folder")
    assert frozen.read_text("utf-8") == dump(read(found[0]))


@pytest.mark.parametrize(
    ("read", "said"), [(read_reference, "names no package"), (documented_b.read_reference, "begin with a package")]
)
def test_a_text_that_is_no_reference_is_refused(tmp_path: Path, read: Callable[[Path], Documented], said: str) -> None:
    (tmp_path / "other.txt").write_text("Something else\n", "utf-8")
    with pytest.raises(ValueError, match=said):
        read(tmp_path / "other.txt")


def test_headings_marks_and_annotated_signatures_are_read(tmp_path: Path) -> None:
    (tmp_path / "engine.txt").write_text(ENGINE, "utf-8")
    found = documented_b.read_reference(tmp_path / "engine.txt")
    assert found.package == "pack"
    assert [(e.name, e.kind, e.marks, [p.name for p in e.parameters], e.bases) for e in found.entries] == [
        ("Motor", "class", ("dataclass",), [], ("Protocol",)),
        ("Motor.__init__", "method", (), ["power", "parts"], ()),
        ("Motor.turns", "method", ("async", "generator"), ["fast"], ()),
        ("Motor.unheaded", "method", (), ["rest"], ()),
        ("standard_redactor", "function", (), [], ()),
    ]


def test_a_heading_without_its_signature_is_no_reference(tmp_path: Path) -> None:
    (tmp_path / "engine.txt").write_text("`pack.runtime`¶\n\nstart ¶\n\nStarts it.\n", "utf-8")
    with pytest.raises(ValueError, match="below the heading start"):
        documented_b.read_reference(tmp_path / "engine.txt")


def test_parameters_are_read_with_and_without_annotations() -> None:
    plain = parameters("(i, /, a, b='x', *, c=None, **kw)")
    annotated = "(self, i: int, /, a: int, b: str = 'x', *, c: int | None = None, **kw: Any) -> None"
    assert parameters(annotated.replace("self, i: int, /", "i: int, /")) == plain
    assert [(item.name, item.kind, item.default) for item in plain] == [
        ("i", "/", None),
        ("a", "positional", None),
        ("b", "positional", "'x'"),
        ("c", "keyword", "None"),
        ("kw", "**", None),
    ]


class _Ours:
    """Differs from what is documented in each way there is."""

    def same(self, a, *, b=None): ...
    def more(self, a, *, b=None, c=0): ...
    def renamed(self, x, *, b=None): ...
    def default(self, a, *, b=1): ...
    def loose(self, a, b=None): ...
    def demanding(self, a, *, b=None, c): ...
    async def awaited(self, a, *, b=None): ...


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("same", ""),
        ("more", ""),
        ("renamed", "takes"),
        ("default", "default of b"),
        ("loose", "documented is keyword"),
        ("demanding", "not keyword-only with a default"),
        ("awaited", "must not be awaited"),
        ("absent", "has no absent"),
    ],
)
def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch, member: str, said: str) -> None:
    monkeypatch.setattr(tracehold, "_Ours", _Ours, raising=False)
    entry = Entry(f"_Ours.{member}", "method", parameters=parameters("(a, *, b=None)"))
    found = differences(entry, tracehold, {})
    assert inspect.isclass(_Ours)
    assert bool(found) == bool(said)
    assert all(said in difference for difference in found)
