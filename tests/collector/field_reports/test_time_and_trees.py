"""Times that cannot be, and trees of any depth and size."""

from __future__ import annotations

import json

import pytest
from support.world import START, TRACE, M, World, chat, span

SECONDS_AS_NS = 1_780_000_000


@pytest.mark.parametrize("length", [1_200, 10_000])
def test_fr_21_a_chain_of_any_length_is_added_up_drawn_and_shown(length: int, world: World) -> None:  # FR-21
    spans = [span(n, n - 1 if n else None, chat((2, 1)) if n % 2 else None) for n in range(length)]
    for start in range(0, length, 2_500):
        world.send(*spans[start : start + 2_500])
    run = world.ask.row("run", run_id=TRACE)
    assert (run["events"], run["llm_calls"]) == (length, length // 2)
    assert (run["input_tokens"], run["output_tokens"]) == (length, length // 2)
    assert run["status"] != "started"
    depths = [row["depth"] for row in world.ask.rows("waterfall", run_id=TRACE, limit=length)]
    assert depths == list(range(length))
    (spend,) = world.ask.rows("spend", by="run_id")
    assert spend["input_tokens"] == length
    (trace,) = world.strict(f"/api/traces/{TRACE}")["data"]
    assert len(trace["spans"]) == length


def test_fr_21_a_chain_of_agents_that_each_repeat_the_sum_is_added_up_once(world: World) -> None:  # FR-21
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1}
    spans = [span(n, n - 1 if n else None, agent) for n in range(1_200)]
    world.send(*spans, span(1_200, 1_199, chat((5, 1))))
    assert world.ask.row("run", run_id=TRACE)["input_tokens"] == 5


@pytest.mark.parametrize("levels", [1_200, 100_000])
def test_fr_21_an_attribute_nested_without_end_is_refused_and_the_process_lives(
    levels: int, world: World
) -> None:  # FR-21
    inner = '{"arrayValue":{"values":[' * levels + '{"stringValue":"x"}' + "]}}" * levels
    body = json.dumps(
        {"resourceSpans": [{"scopeSpans": [{"spans": [span(0, None, None, attributes=["HERE"])]}]}]}
    ).replace('"HERE"', '{"key":"deep","value":' + inner + "}")
    answer = world.post(body.encode())
    assert answer.status_code == 400
    assert "nested deeper" in answer.json()["message"]
    world.send(span(1))
    assert world.ask.row("overview")["events"] == 1


TIMES: dict[str, tuple[int | None, int | None]] = {
    "end before start": (START, START - M),
    "end 0": (START, 0),
    "start 0": (0, START),
    "year 2262": (9_223_372_036_000_000_000, 9_223_372_036_854_775_807),
    "beyond 2262": (18_000_000_000_000_000_000, 18_446_744_073_709_551_615),
    "seconds given as nanoseconds": (SECONDS_AS_NS, SECONDS_AS_NS + 2),
    "seconds given as nanoseconds, the end in nanoseconds": (SECONDS_AS_NS, START),
}


@pytest.mark.parametrize("name", TIMES)
def test_fr_23_a_time_that_cannot_be_is_kept_raw_and_out_of_every_average(name: str, world: World) -> None:  # FR-23
    start, end = TIMES[name]
    world.send(
        *(span(n, None, chat()) for n in range(1, 6)),
        span(0, None, chat(), startTimeUnixNano=str(start), endTimeUnixNano=str(end)),
    )
    event = world.events()[f"{1:016x}"]
    assert event["duration_ns"] is None
    envelope = world.strict(f"/api/v1/events/{event['event_id']}")["event"]
    assert json.loads(envelope["attributes"])["odd_time"] is True
    content = world.ask.content(event["event_id"])
    assert (content["start_time_unix_nano"], content["end_time_unix_nano"]) == (start, end)
    (latency,) = world.ask.rows("latency", kind="llm")
    assert latency["p50_ms"] == latency["p99_ms"] == 1.0
    for row in world.ask.rows("waterfall", run_id=TRACE):
        assert row["duration_ns"] is None or row["duration_ns"] >= 0
        assert row["offset_ns"] is None or 0 <= row["offset_ns"] <= 6 * M
    (run,) = world.ask.rows("runs")
    assert 0 <= run["duration_ns"] <= 6 * M
    (trace,) = world.strict(f"/api/traces/{TRACE}")["data"]
    assert [f"{1:016x}"] == [each["spanID"] for each in trace["spans"] if each["warnings"]]
    world.shown_everywhere(0)
