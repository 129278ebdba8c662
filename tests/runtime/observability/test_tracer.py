"""Clauses TRC, and the decisions that qualify them."""

from __future__ import annotations

import copy
import logging
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold import EVENT_TYPES, MemoryExporter, TraceExporter, Tracer
from tracehold.observability.event_types import DOCUMENTED_EVENT_TYPES

KEY = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2"


class Recording(TraceExporter):
    """Keeps what it was given, in order, in a log shared with others."""

    def __init__(self, log: list[tuple[str, Any]], name: str = "a", *, fail: Exception | None = None) -> None:
        self.log = log
        self.name = name
        self.fail = fail
        self.closed = 0

    def export(self, event: Any) -> None:
        self.log.append((self.name, event))
        if self.fail is not None:
            raise self.fail

    def close(self) -> None:
        self.closed += 1


class WholeContent(Recording):
    """An exporter that may see content."""

    accepts_content = True


def test_every_exporter_sees_the_cleaned_event_in_order() -> None:  # TRC-01
    log: list[tuple[str, Any]] = []
    tracer = Tracer(exporters=[Recording(log, "first"), Recording(log, "second")])
    tracer.emit({"type": "tool_call", "params": {"password": "hunter2"}})
    assert [name for name, _ in log] == ["first", "second"]
    assert all(event["params"] == {"password": "***"} for _, event in log)


def test_without_exporters_given_events_are_kept_in_memory() -> None:  # TRC-02
    tracer = Tracer()
    tracer.emit({"type": "llm_call"})
    assert [event["type"] for event in tracer.events] == ["llm_call"]


def test_a_given_list_replaces_the_memory_exporter() -> None:  # TRC-02, TRC-17
    tracer = Tracer(exporters=[Recording([])])
    tracer.emit({"type": "llm_call"})
    assert tracer.events == []


def test_secret_keys_and_values_are_masked_at_any_depth() -> None:  # TRC-03, TRC-05
    tracer = Tracer()
    tracer.emit({"type": "tool_call", "params": {"a": [{"api_key": 5, "note": f"use {KEY} now"}]}})
    inner = tracer.events[0]["params"]["a"][0]
    assert inner["api_key"] == "***"
    assert KEY not in inner["note"]
    assert inner["note"].startswith("use ")


def test_token_counters_are_no_secrets() -> None:  # TRC-04
    tracer = Tracer()
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    tracer.emit({"type": "llm_call", "usage": usage})
    assert tracer.events[0]["usage"] == usage


def test_the_account_name_of_a_home_directory_is_masked() -> None:  # TRC-06
    tracer = Tracer()
    tracer.emit({"type": "tool_call", "params": {"path": "/home/maria/work/report.txt"}})
    assert tracer.events[0]["params"]["path"] == "/home/***/work/report.txt"


def test_extra_keys_and_patterns_add_to_the_built_in_rules() -> None:  # TRC-07
    tracer = Tracer(extra_secret_keys=["ssn_no"], extra_secret_patterns=[r"cus_\w+", re.compile("ticket-[0-9]+")])
    tracer.emit({"type": "x", "my_SSN_No": "123", "text": "cus_abc and ticket-17", "password": "p"})
    event = tracer.events[0]
    assert (event["my_SSN_No"], event["password"]) == ("***", "***")
    assert event["text"] == "*** and ***"


@pytest.mark.parametrize("patterns", [["fine", "(open"], (re.compile("fine"), "(open")])
def test_a_pattern_that_does_not_compile_is_named_by_its_place(patterns: Any) -> None:  # TRC-07
    with pytest.raises(re.error, match=r"^extra_secret_patterns\[1\] is no regular expression: missing \)"):
        Tracer(extra_secret_patterns=patterns)


@pytest.mark.parametrize("pattern", [5, b"x", re.compile(b"x")])
def test_a_pattern_that_is_no_text_is_named_by_its_place(pattern: Any) -> None:  # TRC-07
    with pytest.raises(TypeError, match=r"^extra_secret_patterns\[0\] is of type "):
        Tracer(extra_secret_patterns=[pattern])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (MemoryExporter(), "exporters is a list of exporters: [MemoryExporter(...)]"),
        ("a.jsonl", "not the text 'a.jsonl'"),
        (["a.jsonl"], "exporters[0] is the text 'a.jsonl'"),
        ([MemoryExporter(), MemoryExporter], "exporters[1] is the class MemoryExporter"),
        ([None], "exporters[0] is of type NoneType"),
        (5, "not of type int"),
    ],
)
def test_what_is_no_list_of_exporters_is_named(given: Any, said: str) -> None:  # TRC-02
    with pytest.raises(TypeError) as caught:
        Tracer(exporters=given)
    assert said in str(caught.value)


def test_exporters_may_come_as_a_tuple_or_generator() -> None:  # TRC-02
    assert len(Tracer(exporters=(MemoryExporter(),)).exporters) == 1
    assert len(Tracer(exporters=(each for each in [MemoryExporter()])).exporters) == 1  # type: ignore[arg-type]
    assert Tracer(exporters=[]).exporters == []


def test_a_blank_extra_key_is_refused() -> None:  # TRC-08
    with pytest.raises(ValueError, match=r"blank|empty"):
        Tracer(extra_secret_keys=[" "])


def test_long_strings_are_cut_and_tell_how_much_is_gone() -> None:  # TRC-10
    for redact in (True, False):
        tracer = Tracer(max_value_len=10, redact=redact)
        tracer.emit({"type": "x", "text": "word " * 10})
        text = tracer.events[0]["text"]
        assert text.startswith("word word ")
        assert "40" in text


def test_redaction_runs_before_the_cut() -> None:  # TRC-01, FR-19
    tracer = Tracer(max_value_len=12)
    tracer.emit({"type": "x", "text": "say it: " + KEY})
    assert KEY[:8] not in tracer.events[0]["text"]


def test_without_redaction_only_the_cut_remains() -> None:  # TRC-11
    tracer = Tracer(redact=False)
    tracer.emit({"type": "x", "password": "hunter2"})
    assert tracer.events[0]["password"] == "hunter2"


def test_run_id_and_step_are_never_masked() -> None:  # TRC-13, DEC-10
    tracer = Tracer()
    run_id = "a" * 20 + "B1" * 10
    tracer.emit({"type": "x", "run_id": run_id, "step_index": 4})
    assert (tracer.events[0]["run_id"], tracer.events[0]["step_index"]) == (run_id, 4)


def test_a_failing_exporter_neither_stops_others_nor_reaches_the_caller() -> None:  # TRC-14
    log: list[tuple[str, Any]] = []
    tracer = Tracer(exporters=[Recording(log, "bad", fail=OSError("full")), Recording(log, "good")])
    tracer.emit({"type": "x"})
    assert [name for name, _ in log] == ["bad", "good"]


def test_strict_raises_what_the_exporter_raised() -> None:  # TRC-14
    failure = OSError("full")
    tracer = Tracer(exporters=[Recording([], fail=failure)], strict=True)
    with pytest.raises(OSError, match="full") as caught:
        tracer.emit({"type": "x"})
    assert caught.value is failure


def test_failures_are_counted_per_class_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:  # TRC-15
    tracer = Tracer(exporters=[Recording([], fail=OSError("full"))])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tracer.emit({"type": "x"})
    assert tracer.summary()["dropped"] == {"Recording": 3}
    assert len([record for record in caplog.records if "Recording" in record.message]) == 1


class Unprintable:
    """Something whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def test_an_event_that_cannot_be_cleaned_is_dropped_and_counted() -> None:  # TRC-16, DEC-19
    tracer = Tracer()
    tracer.emit({"type": "x", "value": Unprintable()})
    tracer.emit({"type": "y"})
    assert [event["type"] for event in tracer.events] == ["y"]
    assert tracer.summary()["dropped_uncleanable"] == 1


def test_strict_raises_when_an_event_cannot_be_cleaned() -> None:  # TRC-16
    with pytest.raises(RuntimeError, match="no text"):
        Tracer(strict=True).emit({"type": "x", "value": Unprintable()})


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ("text", TypeError, "not of type str"),
        (None, TypeError, "not of type NoneType"),
        ([("type", "x")], TypeError, "not of type list"),
        ({}, ValueError, "missing or empty"),
        ({"type": ""}, ValueError, "missing or empty"),
        ({"kind": "llm"}, ValueError, "missing or empty"),
        ({"type": None}, ValueError, "is of type NoneType"),
        ({"type": 5}, ValueError, "is of type int"),
    ],
)
def test_what_is_no_event_is_dropped_and_counted_and_strict_raises(
    given: Any, kind: type[Exception], said: str
) -> None:  # TRC-16
    tracer = Tracer()
    tracer.emit(given)
    assert tracer.events == []
    assert tracer.summary()["dropped_uncleanable"] == 1
    with pytest.raises(kind, match=said):
        Tracer(strict=True).emit(given)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 2}, 7),
        ({"input_tokens": 5, "output_tokens": 2}, 7),
        ({"input_tokens": 5, "prompt_tokens": 5, "output_tokens": 2, "total_tokens": None}, 7),
        ({"prompt_tokens": 5}, 5),
        ({"total_tokens": 9, "prompt_tokens": 5, "completion_tokens": 2}, 9),
        ({"total_tokens": 0, "prompt_tokens": 5}, 0),
        ({"prompt_tokens": "5", "completion_tokens": -2}, 0),
    ],
)
def test_a_usage_without_a_total_counts_what_went_in_and_out(usage: dict[str, Any], tokens: int) -> None:  # TRC-18
    tracer = Tracer()
    tracer.emit({"type": "llm_call", "usage": usage})
    assert tracer.summary()["total_tokens"] == tokens


def test_the_summary_adds_up_events_tokens_and_latency() -> None:  # TRC-18
    tracer = Tracer()
    tracer.emit({"type": "llm_call", "usage": {"total_tokens": 5}, "latency_ms": 20})
    tracer.emit({"type": "llm_call", "usage": {"total_tokens": None}, "latency_ms": float("nan")})
    tracer.emit({"type": "tool_call", "latency_ms": 7})
    assert tracer.summary() == {
        "events": 3,
        "by_type": {"llm_call": 2, "tool_call": 1},
        "total_tokens": 5,
        "total_latency_ms": 27,
        "dropped": {},
        "dropped_uncleanable": 0,
    }


def test_clear_empties_memory_exporters_only() -> None:  # TRC-19
    log: list[tuple[str, Any]] = []
    tracer = Tracer(exporters=[MemoryExporter(), Recording(log)])
    tracer.emit({"type": "x"})
    tracer.clear()
    assert tracer.events == []
    assert len(log) == 1


def test_close_closes_every_exporter_also_after_one_failed() -> None:  # TRC-20
    class Stuck(Recording):
        def close(self) -> None:
            raise OSError("busy")

    last = Recording([])
    Tracer(exporters=[Stuck([]), last]).close()
    assert last.closed == 1


def test_its_text_is_one_line_an_event() -> None:  # TRC-21
    tracer = Tracer()
    assert str(tracer) == "(no trace events)"
    tracer.emit({"type": "llm_call", "model": "m1"})
    tracer.emit({"type": "tool_call", "tool": "search"})
    first, second = str(tracer).splitlines()
    assert first.startswith("[llm_call] model='m1'")
    assert second.startswith("[tool_call] tool='search'")


def test_the_documented_event_types_are_all_enumerated() -> None:  # TRC-22, DEC-01
    assert len(DOCUMENTED_EVENT_TYPES) == 13
    assert DOCUMENTED_EVENT_TYPES < EVENT_TYPES
    assert {
        "run_start",
        "run_end",
        "guardrail_trip",
        "approval_request",
        "approval_decision",
        "run_suspend",
    } <= EVENT_TYPES


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values))
def test_the_callers_event_is_not_modified(fields: dict[str, Any]) -> None:  # TRC-23
    event = {"type": "x", **fields}
    before = copy.deepcopy(event)
    Tracer().emit(event)
    assert event == before


# What every event carries (issue: "a waterfall needs no guessing and a resend is recognised")


def test_every_event_says_which_it_is_when_it_was_and_where_it_stands() -> None:
    tracer = Tracer()
    before = time.time_ns()
    tracer.emit({"type": "llm_call", "latency_ms": 5})
    event = tracer.events[0]
    assert re.fullmatch("[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}", event["event_id"])
    assert re.fullmatch("[0-9a-f]{32}", event["trace_id"])
    assert re.fullmatch("[0-9a-f]{16}", event["span_id"])
    assert event["parent_span_id"] != event["span_id"]
    assert event["step_index"] == 1
    assert event["run_id"]
    assert before - 5_000_000 <= event["started_at_ns"] <= time.time_ns()
    assert event["duration_ns"] == 5_000_000


def test_ids_sort_by_time_and_do_not_repeat() -> None:
    tracer = Tracer(exporters=[MemoryExporter(None)])
    for _ in range(2000):
        tracer.emit({"type": "x"})
    ids = [event["event_id"] for event in tracer.events]
    assert len(set(ids)) == 2000
    assert [text[:12] for text in ids] == sorted(text[:12] for text in ids)


def test_a_latency_that_is_no_number_gives_no_duration() -> None:
    tracer = Tracer()
    for latency in (float("nan"), float("inf"), -3, "fast", None, True):
        tracer.emit({"type": "x", "latency_ms": latency})
    assert all("duration_ns" not in event for event in tracer.events)


# What only some exporters may see: DEC-15


def test_content_goes_only_to_exporters_that_accept_it() -> None:  # DEC-15
    whole: list[tuple[str, Any]] = []
    short: list[tuple[str, Any]] = []
    tracer = Tracer(exporters=[WholeContent(whole), Recording(short)], content=True)
    tracer.emit({"type": "tool_call", "result": "word " * 100, "input": "question", "output": "answer"})
    assert whole[0][1]["result"] == "word " * 100
    assert whole[0][1]["input"] == "question"
    assert "input" not in short[0][1]
    assert "output" not in short[0][1]
    assert len(short[0][1]["result"]) < 250


def test_content_is_off_unless_asked_for() -> None:  # DEC-15
    whole: list[tuple[str, Any]] = []
    tracer = Tracer(exporters=[WholeContent(whole)])
    tracer.emit({"type": "llm_call", "input": "question", "result": "word " * 100})
    assert "input" not in whole[0][1]
    assert len(whole[0][1]["result"]) < 250


def test_content_is_redacted_and_cut_at_its_own_limit() -> None:  # DEC-15
    whole: list[tuple[str, Any]] = []
    tracer = Tracer(exporters=[WholeContent(whole)], content=True, content_max_bytes=1000)
    tracer.emit({"type": "llm_call", "input": f"{KEY} " + "word " * 1000})
    text = whole[0][1]["input"]
    assert KEY not in text
    assert 1000 <= len(text) < 1100
