"""The envelope: what it holds, what it refuses, what derives from it, and ids that rise."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.events import event_ids
from tracehold.events.derived_ids import derived_id
from tracehold.events.event import FIELDS, BlobRef, Event

SEEDED_ID = "from tracehold.events.derived_ids import derived_id as d; print(d('e', 'x', {'b': {'y', 'x'}, 'a': 1}))"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_an_event_has_the_documented_fields_and_defaults() -> None:  # EVT-01
    event = Event(type="order.placed")
    assert set(FIELDS) == {
        *("id", "type", "source", "subject", "time", "stream", "run_id", "tenant", "trace_id", "span_id"),
        *("causation_id", "correlation_id", "seq", "schema_ref", "data", "blobs", "meta", "dup"),
    }
    assert (event.source, event.stream, event.seq, event.schema_ref) == ("aaa", "default", -1, "")
    assert (event.data, event.blobs, event.meta, event.dup) == ({}, (), {}, False)
    assert event.time.tzinfo is UTC


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_can_be_assigned_or_deleted(name: str) -> None:  # EVT-01
    event = Event(type="x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(event, name)


def test_what_the_caller_does_to_its_dicts_later_does_not_change_the_event() -> None:  # EVT-01
    data, meta = {"a": 1}, {"user": "ann"}
    event = Event(type="x", data=data, meta=meta)
    data["a"], meta["user"] = 2, "bob"
    assert (event.data, event.meta) == ({"a": 1}, {"user": "ann"})


def test_events_with_equal_fields_are_equal_and_have_one_hash() -> None:  # EVT-01
    event = Event(type="x", data={"a": [1]})
    same, other = event.with_(), event.with_(data={"a": [2]})
    assert event == same
    assert hash(event) == hash(same)
    assert event != other
    assert len({event, same, other}) == 2


def through_pickle(event: Event) -> Any:
    return pickle.loads(pickle.dumps(event))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, through_pickle])
def test_an_event_can_be_copied_and_pickled(again: Any) -> None:  # EVT-01
    event = Event(type="x", data={"a": {"b": 1}}, blobs=[BlobRef("blob:plain/0", "0", 1)], meta={"n": 1.5})
    assert again(event) == event


def test_dataclasses_replace_checks_what_it_changes() -> None:  # EVT-01
    event = Event(type="x")
    assert dataclasses.replace(event, seq=4) == event.with_(seq=4)
    with pytest.raises(ValueError, match=r"Event\.seq"):
        dataclasses.replace(event, seq=-5)


def test_the_text_form_of_an_event_does_not_say_what_it_is_about() -> None:
    event = Event(type="x", subject="ann@example.org", data={"prompt": "secret"}, meta={"user": "ann"})
    assert "ann" not in repr(event)
    assert "secret" not in repr(event)
    assert event.id in repr(event)


def test_a_time_in_another_zone_is_the_same_moment_in_utc() -> None:  # EVT-01
    local = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    event = Event(type="x", time=local)
    assert event.time == local
    assert event.time.tzinfo is UTC


def test_a_time_without_a_zone_is_refused_rather_than_guessed() -> None:  # EVT-01
    with pytest.raises(ValueError, match="no time zone"):
        Event(type="x", time=datetime(2026, 1, 1))  # noqa: DTZ001 - the point of it


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"type": ""}, ValueError),
        ({"type": 1}, TypeError),
        ({"id": ""}, ValueError),
        ({"id": "a\x00b"}, ValueError),
        ({"stream": "a\nb"}, ValueError),
        ({"stream": None}, TypeError),
        ({"source": "\ud800"}, ValueError),
        ({"tenant": ""}, ValueError),
        ({"tenant": 7}, TypeError),
        ({"subject": ""}, ValueError),
        ({"subject": 7}, TypeError),
        ({"time": "2026-01-01T00:00:00Z"}, TypeError),
        ({"seq": -2}, ValueError),
        ({"seq": True}, ValueError),
        ({"seq": "1"}, TypeError),
        ({"schema_ref": None}, TypeError),
        ({"data": [1]}, TypeError),
        ({"blobs": ["blob:plain/0"]}, TypeError),
        ({"blobs": 5}, TypeError),
        ({"meta": {"a": {"b": 1}}}, TypeError),
        ({"meta": {"a": None}}, TypeError),
        ({"meta": {1: "a"}}, TypeError),
        ({"meta": {"a": float("nan")}}, ValueError),
        ({"meta": "a"}, TypeError),
        ({"dup": 1}, TypeError),
    ],
)
def test_the_constructor_names_the_field_that_is_wrong(
    fields: dict[str, Any], error: type[Exception]
) -> None:  # EVT-01
    with pytest.raises(error, match=rf"Event\.{next(iter(fields))}"):
        Event(**({"type": "x"} | fields))


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="sequence"):
        Event(type="x", sequence=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="sequence"):
        Event(type="x").caused("y", sequence=1)


def test_an_error_does_not_repeat_the_value() -> None:
    with pytest.raises(TypeError) as caught:
        Event(type="x", meta={"user": ["ann@example.org"]})  # type: ignore[dict-item]
    assert "ann" not in str(caught.value)


def test_a_text_of_any_language_is_an_id() -> None:
    assert Event(type="x", id="лог-日志-🧾", stream="прогон").id == "лог-日志-🧾"


def test_default_ids_rise_also_within_one_millisecond() -> None:  # EVT-02
    ids = [Event(type="x").id for _ in range(20_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_ids_rise_when_the_clock_stands_still_or_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:  # EVT-02
    ids = [event_ids.new_id()]
    for now in (5_000_000_000, 5_000_000_000, 1_000_000):
        monkeypatch.setattr(event_ids, "now_ns", lambda now=now: now)
        ids += [event_ids.new_id() for _ in range(3)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 10


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_front(monkeypatch: pytest.MonkeyPatch) -> None:  # EVT-02
    later = 32_503_680_000_000  # the year 3000: no other test has made an id after it
    monkeypatch.setattr(event_ids, "_latest_ms", 0)
    monkeypatch.setattr(event_ids, "now_ns", lambda: later * 1_000_000 + 999_999)
    made = event_ids.new_id()
    assert len(made) == 32
    assert int(made[:12], 16) == later
    assert made[12] == "7"
    assert made[16] in "89ab"


def test_ids_of_several_threads_are_unique_and_rise_in_each() -> None:  # EVT-02
    made: list[list[str]] = [[] for _ in range(4)]

    def work(mine: list[str]) -> None:
        mine.extend(event_ids.new_id() for _ in range(5_000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({one for mine in made for one in mine}) == 20_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_makes_other_ids_that_still_sort_behind_those_before() -> None:  # EVT-02
    program = """
import json, os, sys
from tracehold.events import event_ids
now = event_ids.now_ns()
event_ids.now_ns = lambda: now
before = [event_ids.new_id() for _ in range(3)]
reading, writing = os.pipe()
child = os.fork()
ids = [event_ids.new_id() for _ in range(50)]
if child == 0:
    os.write(writing, json.dumps(ids).encode())
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps([before, ids, json.loads(os.read(reading, 65536))]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    before, parent, child = json.loads(done.stdout)
    assert len({*before, *parent, *child}) == 103
    assert min(parent) > max(before)
    assert min(child) > max(before)


def test_a_caused_event_inherits_and_names_its_cause() -> None:  # EVT-03
    parent = Event(
        type="x", stream="s", run_id="r", tenant="acme", trace_id="t", span_id="p", meta={"user": "ann"}, subject="a"
    ).with_(seq=7, dup=True, blobs=(BlobRef("u", "0", 1),), schema_ref="x/v1")
    child = parent.caused("y", {"n": 1})
    assert (child.stream, child.run_id, child.tenant, child.trace_id) == ("s", "r", "acme", "t")
    assert child.meta == {"user": "ann"}
    assert (child.causation_id, child.correlation_id) == (parent.id, parent.id)
    assert (child.seq, child.dup, child.blobs, child.schema_ref) == (-1, False, (), "")
    assert (child.span_id, child.subject) == (None, None)
    assert child.time >= parent.time
    assert child.caused("z").correlation_id == parent.id


def test_the_id_of_a_caused_event_depends_on_parent_type_and_data_only() -> None:  # EVT-03
    parent = Event(type="x")
    made = parent.caused("y", {"a": 1, "b": [2]})
    assert made.id == parent.with_(stream="other", meta={"k": 1}).caused("y", {"b": [2], "a": 1}, source="s").id
    others = [parent.caused("z", {"a": 1, "b": [2]}), parent.caused("y", {"a": 2}), Event(type="x").caused("y")]
    assert len({made.id, *(other.id for other in others)}) == 4


def test_keywords_of_a_caused_event_win_and_are_checked() -> None:  # EVT-03
    parent = Event(type="x", stream="s")
    assert parent.caused("y", stream="other", id="own", meta={"n": 1}).stream == "other"
    assert parent.caused("y", id="own").id == "own"
    with pytest.raises(ValueError, match=r"Event\.tenant"):
        parent.caused("y", tenant="")
    with pytest.raises(ValueError, match=r"Event\.type"):
        parent.caused("")


def test_a_caused_event_does_not_share_the_dict_it_was_given() -> None:  # EVT-03
    data = {"a": 1}
    child = Event(type="x").caused("y", data)
    data["a"] = 2
    assert child.data == {"a": 1}


@given(json_values)
def test_any_json_has_a_derived_id_and_equal_json_the_same(value: Any) -> None:  # EVT-03
    assert derived_id("parent", "type", value) == derived_id("parent", "type", copy.deepcopy(value))


@pytest.mark.parametrize(
    "value", ["\ud800", 1 << 80, {"\udfff": 1 << 70}, b"\x00", Decimal("1.10"), PurePosixPath("/a")]
)
def test_what_models_and_programs_write_has_a_derived_id(value: object) -> None:  # EVT-03
    assert len(derived_id("parent", {"value": value})) == 32


def test_a_derived_id_is_the_same_in_every_process() -> None:  # EVT-03
    made = {
        subprocess.run(
            [sys.executable, "-c", SEEDED_ID],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1


def test_a_value_whose_text_would_differ_each_time_has_no_derived_id() -> None:  # EVT-03
    with pytest.raises(TypeError, match="object"):
        derived_id("parent", {"value": object()})


def test_a_value_that_holds_itself_has_no_derived_id() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested too deep"):
        derived_id(loop)


def test_a_repeat_is_marked_on_a_copy() -> None:  # EVT-04
    event = Event(type="x")
    assert event.with_(dup=True).dup
    assert not event.dup


def test_a_blob_ref_has_four_immutable_fields() -> None:  # EVT-05
    ref = BlobRef("blob:plain/0", "0", 3)
    assert (ref.uri, ref.sha256, ref.size, ref.media_type) == ("blob:plain/0", "0", 3, "application/octet-stream")
    with pytest.raises(dataclasses.FrozenInstanceError):
        ref.size = 4  # type: ignore[misc]


def test_an_event_takes_types_of_the_library_and_others() -> None:  # EVT-06
    assert [Event(type=name).type for name in ("aaa.run.started", "order.placed")] == [
        "aaa.run.started",
        "order.placed",
    ]
