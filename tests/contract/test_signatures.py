"""Every name of the documented agent runtime can be imported and called as documented."""

from __future__ import annotations

import dataclasses
import inspect
import os
from pathlib import Path
from typing import Any, Final

import pytest
import tracehold
from contract.comparing import differences
from contract.documented import FROZEN, Documented, Entry, dump, load, parameters, read_reference

ROOT: Final = Path(__file__).resolve().parents[2]
SPEC: Final = Path(os.environ.get("TRACEHOLD_SPEC", ROOT.parent / "shared" / "spec"))
TITLE: Final = "Runtime\n"
"""How the reference of the agent runtime begins; its file is named after its digest."""

A: Final = load()
ENTRIES: Final = [pytest.param(entry, id=entry.name) for entry in A.entries]
CLASSES: Final = [entry.name for entry in A.entries if entry.kind == "class"]
POSITIONAL: Final = ["GuardrailResult", "Interrupt", "PendingAction", "RunPolicy"]
"""Dataclasses whose fields are documented as a list in order; `ExecutionState`'s are grouped by purpose."""

COLLABORATORS: Final = [
    "CallableSource",
    "ContextBuilder",
    "ContextConfig",
    "ContextSource",
    "ContextWindowExceeded",
    "GuardrailTripwireError",
    "HistoryCompactor",
    "HybridRetriever",
    "IndexSync",
    "LLMClient",
    "LLMConfigError",
    "LLMError",
    "LLMRequestError",
    "LLMResponse",
    "LLMResponseError",
    "Message",
    "ReducerConfig",
    "RetrievalError",
    "RetrievalResult",
    "RunCancelled",
    "RunLimitExceeded",
    "Scope",
    "SessionError",
    "SqliteBookkeeping",
    "SyncIndexSync",
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
"""What the reference and its clauses name beside its headings: a program cannot use those without these."""


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
"""Constructors and methods that the contract's clauses state, most of them of collaborators; `...` is any default."""


def meanings(documented: Documented) -> dict[str, Any]:
    """What documented defaults that are no literals stand for, and the default that carries the package's own name."""
    return {
        "count_tokens": getattr(tracehold, "count_tokens", None),
        "_DEFAULT_STRUCTURED_RETRIES": 1,
        repr(documented.package): "tracehold",  # DEC-16
    }


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_documented_name_can_be_called_as_documented(entry: Entry) -> None:
    assert differences(entry, tracehold, meanings(A)) == []


@pytest.mark.parametrize("name", STATED)
def test_what_a_clause_states_can_be_called_so(name: str) -> None:
    entry = Entry(name, "method", parameters=parameters(STATED[name]))
    assert differences(entry, tracehold, meanings(A)) == []


@pytest.mark.parametrize("name", COLLABORATORS)
def test_a_collaborator_that_the_documentation_names_can_be_imported(name: str) -> None:  # DEC-16
    assert getattr(tracehold, name, None) is not None
    assert name in tracehold.__all__


@pytest.mark.parametrize("name", CLASSES)
def test_a_subclass_that_writes_the_documented_abstract_methods_is_complete(name: str) -> None:
    documented = {entry.member for entry in A.entries if entry.owner == name and "abstractmethod" in entry.marks}
    assert set(getattr(getattr(tracehold, name), "__abstractmethods__", ())) == documented


@pytest.mark.parametrize("name", POSITIONAL)
def test_a_dataclass_takes_its_fields_in_the_documented_order(name: str) -> None:
    (documented,) = [entry.fields for entry in A.entries if entry.name == name]
    ours = tuple(field.name for field in dataclasses.fields(getattr(tracehold, name)) if not field.kw_only)
    assert ours == documented


def test_what_is_frozen_is_what_the_reference_says() -> None:
    found = [path for path in sorted(SPEC.glob("*.txt")) if path.read_text("utf-8").startswith(TITLE)]
    if not found:
        pytest.skip(f"the reference is not in {SPEC}; set TRACEHOLD_SPEC to its folder")
    assert FROZEN.read_text("utf-8") == dump(read_reference(found[0]))


def test_a_text_that_is_no_reference_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("Something else\n", "utf-8")
    with pytest.raises(ValueError, match="names no package"):
        read_reference(tmp_path / "other.txt")


def test_parameters_are_read_with_and_without_annotations() -> None:
    plain = parameters("(a, b='x', *, c=None, **kw)")
    assert parameters("(self, a: int, b: str = 'x', *, c: int | None = None, **kw: Any) -> None") == plain
    assert [(item.name, item.kind, item.default) for item in plain] == [
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
