"""Whose data it is: setting, comparing and matching scopes."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.scope import DIMENSIONS, Scope, scope_key

dimension = st.none() | st.text(max_size=3)
scopes = st.builds(Scope, base=dimension, user=dimension, agent=dimension, session=dimension, app=dimension)


def test_a_scope_has_five_dimensions_in_order_all_unset_at_first() -> None:  # SCP-01
    assert DIMENSIONS == ("base", "user", "agent", "session", "app")
    assert Scope("b", "u", "a", "s", "p") == Scope(base="b", user="u", agent="a", session="s", app="p")
    assert [getattr(Scope(), name) for name in DIMENSIONS] == [None] * 5


def test_a_scope_cannot_be_changed() -> None:  # SCP-01
    with pytest.raises(dataclasses.FrozenInstanceError):
        Scope(user="ada").user = "bob"  # type: ignore[misc]


def test_equal_scopes_are_one_key_of_a_dict() -> None:  # SCP-01
    assert {Scope(user="ada"): 1}[Scope(user="ada")] == 1
    assert len({Scope(user="ada"), Scope(user="ada"), Scope(agent="ada")}) == 2


@pytest.mark.parametrize("name", DIMENSIONS)
@pytest.mark.parametrize("value", [1, 0, False, b"ada", ["ada"], object()])
def test_a_dimension_that_is_no_text_is_refused_by_name(name: str, value: object) -> None:  # SCP-02
    with pytest.raises(TypeError, match=f"Scope.{name}"):
        Scope(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DIMENSIONS)
def test_an_empty_text_counts_as_unset(name: str) -> None:  # SCP-02
    scope = Scope(**{name: ""})
    assert getattr(scope, name) is None
    assert scope == Scope()
    assert scope.is_unset


def test_a_blank_is_a_text_like_any_other() -> None:  # SCP-02
    assert not Scope(user=" ").is_unset


def test_exact_matching_tells_unset_from_set() -> None:  # SCP-03
    assert Scope(user="ada").key() != Scope(user="ada", session="s").key()
    assert Scope(user="ada").key() == Scope(user="ada").key()
    assert Scope(user="ada").key() != Scope(agent="ada").key()


def test_no_scope_is_the_bucket_of_unset_dimensions() -> None:  # SCP-03
    assert scope_key(None) == scope_key(Scope()) == ("", "", "", "", "")


def test_restrictive_matching_filters_by_the_set_dimensions_only() -> None:  # SCP-03
    assert Scope(user="ada", app="desk").restrictions() == {"user": "ada", "app": "desk"}
    assert Scope().restrictions() == {}


def test_a_scope_without_restrictions_is_told_apart_from_all_others() -> None:  # SCP-03
    assert Scope().is_unset
    assert not any(Scope(**{name: "x"}).is_unset for name in DIMENSIONS)


@given(scopes, scopes)
def test_two_scopes_match_exactly_when_they_are_equal(one: Scope, other: Scope) -> None:  # SCP-03
    assert (one.key() == other.key()) == (one == other)


@given(scopes)
def test_the_restrictions_of_a_scope_make_that_scope_again(scope: Scope) -> None:  # SCP-01, SCP-03
    assert Scope(**scope.restrictions()) == scope


def test_with_replaces_some_dimensions_and_leaves_the_original() -> None:  # SCP-01
    scope = Scope(user="ada", session="s")
    assert scope.with_(session=None, agent="desk") == Scope(user="ada", agent="desk")
    assert scope == Scope(user="ada", session="s")
