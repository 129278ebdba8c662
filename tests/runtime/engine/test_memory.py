"""Asking memory backends to forget (MEM-01 to MEM-04)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from engine_parts import engine_on, run
from hypothesis import given
from hypothesis import strategies as st
from tracehold.engine import MemoryReport, MemoryScope


class Notes:
    """Forgets what it holds."""

    def __init__(self, *held: MemoryScope) -> None:
        self.held = list(held)
        self.asked: list[MemoryScope] = []

    async def forget(self, scope: MemoryScope) -> int:
        self.asked.append(scope)
        gone = [one for one in self.held if scope.contains(one)]
        self.held = [one for one in self.held if one not in gone]
        return len(gone)


class Vectors(Notes):
    """Another class of backend."""


class ReadOnly:
    """Cannot forget."""


class Failing:
    """Fails."""

    async def forget(self, scope: MemoryScope) -> int:
        raise ConnectionResetError("made to fail")


# MEM-01
def test_a_scope_is_immutable_and_has_the_documented_fields() -> None:
    scope = MemoryScope(tenant="t", user="u", agent="a", session="s", namespace=("n",))
    names = [field.name for field in dataclasses.fields(scope)]
    assert names == ["tenant", "user", "agent", "session", "namespace"]
    assert MemoryScope() == MemoryScope(None, None, None, None, ())
    assert hash(scope) == hash(dataclasses.replace(scope))
    with pytest.raises(dataclasses.FrozenInstanceError):
        scope.tenant = "other"  # type: ignore[misc]  # what is tested


# MEM-01
@pytest.mark.parametrize(
    ("outer", "inner", "contains"),
    [
        ({"tenant": "t"}, {"tenant": "t", "user": "u", "agent": "a", "session": "s"}, True),
        ({"tenant": "t", "user": "u"}, {"tenant": "t", "user": "u", "agent": "a"}, True),
        ({"tenant": "t", "agent": "a"}, {"tenant": "t", "user": "u", "agent": "a"}, True),
        ({"tenant": "t", "user": "u"}, {"tenant": "t", "user": "v"}, False),
        ({"tenant": "t", "user": "u"}, {"tenant": "t"}, False),
        ({"tenant": "t", "user": "u", "agent": "a"}, {"tenant": "t", "user": "u", "agent": "b"}, False),
        ({"tenant": "t"}, {"tenant": "T"}, False),
        ({"tenant": "t"}, {"user": "u"}, False),
        ({}, {"tenant": "t"}, False),
        ({}, {"user": "u"}, True),
    ],
)
def test_a_scope_contains_another_of_its_tenant_where_user_and_agent_match(
    outer: dict[str, str], inner: dict[str, str], contains: bool
) -> None:
    assert MemoryScope(**outer).contains(MemoryScope(**inner)) is contains  # type: ignore[arg-type]  # texts


_names = st.none() | st.sampled_from("ab")
_scopes = st.builds(MemoryScope, tenant=_names, user=_names, agent=_names, session=_names)


# MEM-01
@given(one=_scopes, two=_scopes, three=_scopes)
def test_containing_is_reflexive_transitive_and_never_crosses_a_tenant(
    one: MemoryScope, two: MemoryScope, three: MemoryScope
) -> None:
    assert one.contains(one)
    if one.contains(two):
        assert one.tenant == two.tenant
        assert one.contains(three) or not two.contains(three)


# MEM-02, MEM-03
def test_every_backend_that_can_is_asked_and_the_others_are_listed() -> None:
    async def main() -> None:
        scope = MemoryScope(tenant="t")
        notes, vectors = Notes(scope, MemoryScope(tenant="other")), Vectors(scope, scope)
        async with engine_on(memory=(notes, ReadOnly(), vectors)) as engine:
            report = await engine.forget_memory(scope)
        assert report == MemoryReport(forgotten={"Notes": 1, "Vectors": 2}, unsupported=["ReadOnly"])
        assert (notes.asked, vectors.asked) == ([scope], [scope])
        assert notes.held == [MemoryScope(tenant="other")]

    run(main())


# MEM-03
def test_a_backend_that_fails_stops_no_other_and_is_named() -> None:
    async def main() -> None:
        notes = Notes(MemoryScope(tenant="t"))
        async with engine_on(memory=(Failing(), notes)) as engine:
            report = await engine.forget_memory(MemoryScope(tenant="t"))
        assert (report.forgotten, report.failed) == ({"Notes": 1}, {"Failing": "ConnectionResetError"})

    run(main())


# MEM-02: a name that is there and no function is no ability
@pytest.mark.parametrize("odd", [type("Odd", (), {"forget": None}), type("Odd", (), {"forget": 7})])
def test_a_backend_whose_forget_cannot_be_called_is_listed(odd: Any) -> None:
    async def main() -> None:
        async with engine_on(memory=(odd(),)) as engine:
            report = await engine.forget_memory(MemoryScope(tenant="t"))
        assert (report.forgotten, report.unsupported) == ({}, ["Odd"])

    run(main())


# MEM-04
def test_backends_of_one_class_are_counted_together() -> None:
    assert MemoryReport() == MemoryReport(forgotten={}, unsupported=[])

    async def main() -> None:
        scope = MemoryScope(tenant="t")
        async with engine_on(memory=(Notes(scope), Notes(scope, scope), ReadOnly(), ReadOnly())) as engine:
            report = await engine.forget_memory(scope)
        assert (report.forgotten, report.unsupported) == ({"Notes": 3}, ["ReadOnly"])

    run(main())


# MEM-03
def test_without_backends_nothing_was_forgotten() -> None:
    async def main() -> None:
        async with engine_on() as engine:
            assert await engine.forget_memory(MemoryScope(tenant="t")) == MemoryReport()

    run(main())
