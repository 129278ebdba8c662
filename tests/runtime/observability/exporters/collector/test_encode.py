"""One event, one line."""

from __future__ import annotations

from types import MappingProxyType

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.observability.exporters.collector.encode import encode_event

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.complex_numbers(),
    lambda children: (
        st.lists(children)
        | st.tuples(children)
        | st.frozensets(st.integers())
        | st.dictionaries(st.text(st.characters()) | st.integers() | st.none(), children)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON))
def test_json_values_come_back_as_they_were(fields):
    event = {**fields, "event_id": "1" * 32}
    assert orjson.loads(encode_event(event)) == event


@given(st.dictionaries(st.text(), ANYTHING))
def test_anything_becomes_one_line_of_json(fields):
    line = encode_event({**fields, "event_id": "1" * 32})
    assert b"\n" not in line
    assert orjson.loads(line)["event_id"] == "1" * 32


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({1}, [1]),
        (float("nan"), None),
        (float("inf"), None),
        (2**64, hex(2**64)),
        ("a\ud800b", "a\ufffdb"),
        ({1: {None: 2}}, {"1": {"None": 2}}),
        (b"\xff", "\ufffd"),
        (1j, "1j"),
        ([float("nan"), 2**70], [None, hex(2**70)]),
        (MappingProxyType({"a": 1}), {"a": 1}),
    ],
)
def test_what_json_does_not_know_is_written_all_the_same(value, written):  # EXP-05
    assert orjson.loads(encode_event({"event_id": "1" * 32, "value": value}))["value"] == written


def test_nesting_without_end_is_cut():
    event: dict[str, object] = {"event_id": "1" * 32}
    event["self"] = event
    assert b'"..."' in encode_event(event)


def test_a_mapping_that_is_no_dict_is_taken():
    assert orjson.loads(encode_event(MappingProxyType({"event_id": "1" * 32}))) == {"event_id": "1" * 32}


def test_a_missing_id_is_given_and_differs_each_time():
    ids = {orjson.loads(encode_event({"event_id": None}))["event_id"] for _ in range(100)}
    assert len(ids) == 100


def test_a_value_without_text_is_refused_without_being_shown():
    class Mute:
        def __str__(self) -> str:
            raise ValueError("private words")

    with pytest.raises(TypeError, match="Mute") as caught:
        encode_event({"event_id": "1" * 32, "value": Mute()})
    assert "private words" not in str(caught.value)
