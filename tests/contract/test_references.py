"""The references are read right, what is frozen of them is what they say, and a difference from them is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import tracehold
from contract import documented_b
from contract.comparing import differences
from contract.documented import FROZEN, Documented, Entry, dump, parameters, read_reference

ROOT: Final = Path(__file__).resolve().parents[2]
SPEC: Final = Path(os.environ.get("TRACEHOLD_SPEC", ROOT.parent / "shared" / "spec"))
REFERENCES: Final = [
    pytest.param("Runtime\n", FROZEN, read_reference, id="agent runtime"),
    pytest.param("`aaa.runtime`", documented_b.FROZEN, documented_b.read_reference, id="engine"),
]
"""How a reference begins (its file is named after its digest), where its facts are kept, and what reads it."""

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
    assert [(e.name, e.kind, e.marks, [p.name for p in e.parameters], e.returns) for e in found.entries] == [
        ("Motor", "class", ("dataclass",), [], ""),
        ("Motor.__init__", "method", (), ["power", "parts"], ""),
        ("Motor.turns", "method", ("async", "generator"), ["fast"], "AsyncIterator[Turn]"),
        ("Motor.unheaded", "method", (), ["rest"], "None"),
        ("standard_redactor", "function", (), [], "Motor"),
    ]
    assert found.entries[0].bases == ("Protocol",)


def test_a_heading_without_its_signature_is_no_reference(tmp_path: Path) -> None:
    (tmp_path / "engine.txt").write_text("`pack.runtime`¶\n\nstart ¶\n\nStarts it.\n", "utf-8")
    with pytest.raises(ValueError, match="below the heading start"):
        documented_b.read_reference(tmp_path / "engine.txt")


def test_parameters_are_read_with_and_without_annotations() -> None:
    plain = parameters("(i, /, a, b='x', *, c=None, **kw)")
    annotated = "(self, i: int, /, a: int, b: str = 'x', *, c: int | None = None, **kw: Any) -> None"
    assert parameters(annotated) == plain
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
    def returning(self, a, *, b=None) -> int: ...


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
        ("returning", "returns int, documented is str"),
        ("absent", "has no absent"),
    ],
)
def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch, member: str, said: str) -> None:
    monkeypatch.setattr(tracehold, "_Ours", _Ours, raising=False)
    returns = "str" if member == "returning" else ""
    entry = Entry(f"_Ours.{member}", "method", parameters=parameters("(a, *, b=None)"), returns=returns)
    found = differences(entry, tracehold, {})
    assert bool(found) == bool(said)
    assert all(said in difference for difference in found)


@dataclass
class _Report:
    """A documented dataclass with a field of ours where a caller may take it for a documented one."""

    items: list[str] = field(default_factory=list)
    ours: int = 0


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (Entry("_Report", "class", ("dataclass",)), ""),
        (Entry("_Report", "class", bases=("BaseModel",)), "does not derive from BaseModel"),
        (Entry("_Report", "class", bases=("Protocol",)), "does not derive from Protocol"),
        (Entry("_Report.__init__", "method", parameters=parameters("(items=list(), ours=0)")), ""),
        (Entry("_Report.__init__", "method", parameters=parameters("(items=list())")), "adds ours"),
        (Entry("_Report.__init__", "method", parameters=parameters("(items=dict(), ours=0)")), "default of items"),
    ],
)
def test_a_difference_of_a_class_is_found(monkeypatch: pytest.MonkeyPatch, entry: Entry, said: str) -> None:
    monkeypatch.setattr(tracehold, "_Report", _Report, raising=False)
    found = differences(entry, tracehold, {"list()": list, "dict()": dict})
    assert len(found) == bool(said)
    assert all(said in difference for difference in found)
