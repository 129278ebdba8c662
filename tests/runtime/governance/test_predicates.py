"""What a policy may ask about an argument, and when it cannot be told."""

from __future__ import annotations

import math
import posixpath
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import ConfigurationError
from tracehold.governance.predicates import (
    OPS,
    PRESENCE,
    all_of,
    any_of,
    is_under,
    look_up,
    make_test,
    matches_glob,
    negated,
    same,
)

YES, NO, UNKNOWN = True, False, None

CASES: list[tuple[str, Any, Any, bool | None]] = [
    ("equals", "prod", "prod", YES),
    ("equals", "prod", "Prod", NO),
    ("equals", "prod", 5, UNKNOWN),
    ("equals", "prod", ["prod"], UNKNOWN),
    ("equals", 1, 1.0, YES),
    ("equals", 1, True, UNKNOWN),
    ("equals", True, True, YES),
    ("equals", 2**63, 2**63 + 1, NO),
    ("equals", {"a": 1, "b": [2]}, {"b": [2], "a": 1}, YES),
    ("equals", 1, math.nan, UNKNOWN),
    ("equals", "a", "\ud800", UNKNOWN),
    ("not_equals", "prod", "dev", YES),
    ("not_equals", "prod", "prod", NO),
    ("not_equals", "prod", 5, UNKNOWN),
    ("in", ["a", 2], "a", YES),
    ("in", ["a", 2], "b", NO),
    ("in", ["a", 2], 3, NO),
    ("in", ["a", 2], True, UNKNOWN),
    ("not_in", ["a", "b"], "c", YES),
    ("not_in", ["a", "b"], "a", NO),
    ("not_in", ["a", "b"], ["a"], UNKNOWN),
    ("glob", "*.example.org", "www.example.org", YES),
    ("glob", "*.example.org", "www.EXAMPLE.org", NO),
    ("glob", "*.example.org", "www.example.org\n", NO),
    ("glob", "a*z", "a/\nz", YES),
    ("glob", ["*.txt", "*.md"], "a.md", YES),
    ("glob", ["*.txt", "*.md"], "a.exe", NO),
    ("glob", "*", 5, UNKNOWN),
    ("not_glob", ["*.exe", "*.dll"], "a.txt", YES),
    ("not_glob", ["*.exe", "*.dll"], "a.dll", NO),
    ("not_glob", "*.exe", None, UNKNOWN),
    ("matches", "[a-z]+", "abc", YES),
    ("matches", "[a-z]+", "abc; rm", NO),
    ("matches", "[a-z]+", "abc\n", NO),
    ("matches", "(?i)select .*", "SELECT 1\nFROM t", YES),
    ("matches", ".*", 5, UNKNOWN),
    ("matches", ".*", "a" * 10_001, UNKNOWN),
    ("starts_with", "https://", "https://example.org", YES),
    ("starts_with", ["https://", "ftp://"], "http://example.org", NO),
    ("starts_with", "1", 12, UNKNOWN),
    ("contains", "drop", "please drop it", YES),
    ("contains", "drop", "DROP", NO),
    ("contains", ["drop", "alter"], "alter it", YES),
    ("contains", "eve", ["ada", "eve"], YES),
    ("contains", "eve", ["ada", "everyone"], NO),
    ("contains", "eve", ["ada", 5], UNKNOWN),
    ("contains", "eve", [], NO),
    ("contains", "eve", {"eve": 1}, UNKNOWN),
    ("under", "/srv/data", "/srv/data/a.txt", YES),
    ("under", ["/srv/data", "/srv/pub"], "/srv/pub/a.txt", YES),
    ("under", "/srv/data", "/srv/data/../etc/passwd", NO),
    ("under", "/srv/data", 5, UNKNOWN),
    ("less_than", 10, 9.5, YES),
    ("less_than", 10, 10, NO),
    ("greater_than", 10, 11, YES),
    ("greater_than", 10, 10, NO),
    ("at_most", 10, 10, YES),
    ("at_most", 10, 10.01, NO),
    ("at_least", 10, 10, YES),
    ("at_least", 10, 9, NO),
    ("at_most", 10, "5", UNKNOWN),
    ("at_most", 10, True, UNKNOWN),
    ("at_most", 10, math.nan, UNKNOWN),
    ("at_most", 10, -math.inf, UNKNOWN),
    ("at_most", 2**53, 2**53 + 1, NO),
]


@pytest.mark.parametrize(("op", "value", "given_", "expected"), CASES)
def test_an_op_answers_yes_no_or_cannot_be_told(op: str, value: Any, given_: Any, expected: bool | None) -> None:
    assert make_test(op, value)(given_) is expected


def test_every_op_is_on_the_page_about_policies() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "policies.md").read_text("utf-8")
    assert [op for op in OPS if f"`{op}`" not in page] == []


def test_every_op_with_a_value_has_a_yes_a_no_and_an_unknown_case() -> None:
    for op in OPS - PRESENCE:
        assert {expected for name, _, _, expected in CASES if name == op} >= {YES, NO}, op
        assert any(name in {op, "at_most"} and expected is None for name, _, _, expected in CASES), op


@pytest.mark.parametrize(
    ("op", "value"),
    [
        ("equals", None),
        ("equals", math.nan),
        ("equals", b"x"),
        ("in", "abc"),
        ("in", []),
        ("in", [None]),
        ("glob", ""),
        ("glob", 5),
        ("glob", []),
        ("glob", ["a", ""]),
        ("matches", ["a"]),
        ("matches", "(?=a)"),
        ("under", "C:\\data"),
        ("under", "~/data"),
        ("under", "../data"),
        ("under", ""),
        ("less_than", "10"),
        ("less_than", True),
        ("less_than", math.inf),
        ("starts_with", None),
        ("contains", 5),
    ],
)
def test_a_value_an_op_cannot_use_is_refused(op: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        make_test(op, value)


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("/srv/data", "/srv/data", YES),
        ("/srv/data/", "/srv/data/", YES),
        ("//srv///data/x", "/srv/data", YES),
        ("/srv/data/./a/../b", "/srv/data", YES),
        ("/srv/database", "/srv/data", NO),
        ("/srv/data/../data2/x", "/srv/data", NO),
        ("/../../etc/passwd", "/srv/data", NO),
        ("/anything", "/", YES),
        ("data/a", "data", YES),
        ("./data/a", "data", YES),
        ("data/../a", "data", NO),
        ("a", ".", YES),
        ("../a", ".", UNKNOWN),
        ("../data/a", "data", UNKNOWN),
        ("data/../../x", "data", UNKNOWN),
        ("a", "/srv", UNKNOWN),
        ("/srv/data/a", "data", UNKNOWN),
        ("", ".", UNKNOWN),
        ("~/x", ".", UNKNOWN),
        ("data\\..\\..\\x", "data", UNKNOWN),
        ("data/a\0.png", "data", UNKNOWN),
    ],
)
def test_a_path_is_judged_by_its_text(path: str, folder: str, expected: bool | None) -> None:
    assert is_under(path, folder) is expected


@given(st.lists(st.sampled_from(["a", "b", "data", "..", ".", ""]), max_size=8))
def test_a_path_told_to_be_inside_really_is(parts: list[str]) -> None:
    for start, folder in (("/data/", "/data"), ("data/", "data"), ("", "data"), ("/", "/data")):
        path = start + "/".join(parts)
        if is_under(path, folder):
            real = posixpath.normpath(posixpath.join("/cwd", path))
            home = posixpath.join("/cwd", folder)
            assert posixpath.commonpath([real, home]) == home


def test_hostile_text_does_not_make_a_glob_slow() -> None:
    assert matches_glob("a" * 20_000, "*a" * 20 + "*b") is False


answers = st.sampled_from([YES, NO, UNKNOWN])


@given(st.lists(answers))
def test_the_logic_is_kleenes(given_: list[bool | None]) -> None:
    ranks = {NO: 0, UNKNOWN: 1, YES: 2}
    assert ranks[all_of(given_)] == min((ranks[answer] for answer in given_), default=2)
    assert ranks[any_of(given_)] == max((ranks[answer] for answer in given_), default=0)
    assert all_of(map(negated, given_)) is negated(any_of(given_))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(json_values, json_values)
def test_comparing_is_symmetric_and_a_value_equals_itself(one: Any, other: Any) -> None:
    assert same(one, other) is same(other, one)
    assert same(one, one) is True


ARGUMENTS = {
    "to": ["ada", "eve"],
    "none": None,
    "items": [{"path": "a"}, {"path": None}, {"path": "b"}],
    "deep": {"x": {"y": 5}},
    "a.b": 1,
    "empty": [],
}


@pytest.mark.parametrize(
    ("path", "values", "missing", "blocked"),
    [
        (("to",), [["ada", "eve"]], False, False),
        (("to", "1"), ["eve"], False, False),
        (("to", "2"), [], True, False),
        (("to", "-1"), [], False, True),
        (("to", "9" * 30), [], True, False),
        (("to", "*"), ["ada", "eve"], False, False),
        (("to", "x"), [], False, True),
        (("none",), [], True, False),
        (("none", "x"), [], True, False),
        (("nowhere",), [], True, False),
        (("empty", "*"), [], True, False),
        (("items", "*", "path"), ["a", "b"], True, False),
        (("deep", "x", "y"), [5], False, False),
        (("deep", "*", "y"), [5], False, False),
        (("deep", "x", "y", "z"), [], False, True),
        (("a.b",), [1], False, False),
    ],
)
def test_a_path_finds_what_stands_there(path: tuple[str, ...], values: list[Any], missing: bool, blocked: bool) -> None:
    found = look_up(ARGUMENTS, path)
    assert (found.values, found.missing, found.blocked) == (values, missing, blocked)
