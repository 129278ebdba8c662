"""Native events: Tracer events, engine log lines and CloudEvents, in NDJSON and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.decoding import decode_file
from tracehold.observability.exporters.jsonl import JsonlExporter
from tracehold.observability.tracer import Tracer
from tracehold_collector.core.errors import BadBodyError, TooLargeError
from tracehold_collector.core.limits import Limits
from tracehold_collector.core.record import Batch
from tracehold_collector.decode.events import decode_events
from tracehold_collector.normalise.context import NormaliseContext


def lines(*events: Any) -> bytes:
    return b"\n".join(json.dumps(event).encode() for event in events) + b"\n"


CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "E1",
    "type": "aaa.tool.failed",
    "source": "aaa",
    "time": "2026-10-15T17:27:06.313188123+02:00",
    "runid": "R1",
    "stream": "R1",
    "causationid": "E0",
    "seq": 7,
    "data": {"call_id": "c1", "name": "page", "error": {"type": "RuntimeError", "message": "kaput"}},
    "customattr": "kept",
}


def test_what_a_tracer_wrote_to_a_file_reads_back_as_it_was(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "run.jsonl"
    tracer = Tracer(exporters=[JsonlExporter(path)], service="shop")
    run = tracer.run("night", run_id="run-7", agent="planner", user="ann", session="s9")
    with run, tracer.span("step", kind="agent"):
        tracer.emit({"type": "llm_call", "model": "m1", "latency_ms": 12, "usage": {"prompt_tokens": 9}})
        tracer.emit({"type": "tool_call", "tool": "pay", "status": "denied", "reason": "over the limit"})
    tracer.close()
    batch = decode_file(path, context)
    assert batch.rejected == []
    records = {record.type: record for record in batch.records}
    assert {"run_start", "run_end", "span", "llm_call", "tool_call"} == set(records)
    common = {(r.run_id, r.agent, r.service, r.source) for r in records.values()}
    assert common == {("run-7", "planner", "shop", "tracer")}
    assert {context.pseudonyms.user("ann")} == {r.user_ref for r in records.values()}
    assert records["span"].span_id == records["llm_call"].parent_span_id
    assert records["run_end"].span_id == records["span"].parent_span_id
    assert (records["run_start"].status, records["run_end"].status) == ("started", "ok")
    assert (records["llm_call"].input_tokens, records["llm_call"].duration_ns) == (9, 12_000_000)
    gate = records["tool_call"]
    assert (gate.kind, gate.status, gate.decision, gate.name) == ("gate", "blocked", "denied", "pay")
    assert (gate.content or {})["reason"] == "over the limit"


def test_all_three_formats_may_stand_in_one_body(context: NormaliseContext) -> None:
    engine = {"stream": "R1", "event": {k: v for k, v in CLOUD_EVENT.items() if k != "specversion"} | {"id": "E2"}}
    batch = decode_events(
        lines({"type": "llm_call", "run_id": "R1"}, engine, CLOUD_EVENT), encoding="ndjson", context=context
    )
    assert batch.rejected == []
    assert [record.source for record in batch.records] == ["tracer", "engine", "engine"]


def test_a_cloud_event_keeps_its_run_time_and_extension_attributes(context: NormaliseContext) -> None:
    (record,) = decode_events(orjson.dumps(CLOUD_EVENT), encoding="json", context=context).records
    assert (record.run_id, record.kind, record.status, record.error_type) == ("R1", "tool", "error", "RuntimeError")
    assert record.started_at == 1_792_078_026_313_188_123
    assert record.seq == 7
    assert (record.content or {})["meta"] == {"customattr": "kept"}


def test_a_cloud_event_of_another_version_is_refused(context: NormaliseContext) -> None:
    batch = decode_events(orjson.dumps(CLOUD_EVENT | {"specversion": "0.3"}), encoding="json", context=context)
    assert [item.reason for item in batch.rejected] == ["a CloudEvent of another version; version 1.0 is read here"]


def test_a_cloud_event_and_a_log_line_of_one_event_have_one_id(context: NormaliseContext) -> None:
    line = {"stream": "R1", "event": {"id": "E1", "type": "aaa.tool.failed", "run_id": "R1", "data": {}}}
    first, second = decode_events(lines(CLOUD_EVENT, line), encoding="ndjson", context=context).records
    assert first.event_id == second.event_id


@pytest.mark.parametrize("encoding", ["ndjson", "json"])
@pytest.mark.parametrize("body", [b"", b"  \n\n "])
def test_an_empty_body_has_no_events(encoding: Any, body: bytes, context: NormaliseContext) -> None:
    assert Batch() == decode_events(body, encoding=encoding, context=context)


def test_a_bad_line_is_refused_with_its_number_and_its_neighbours_are_kept(context: NormaliseContext) -> None:
    body = b'{"type":"llm_call"}\n\n{"type":\n"a string"\n{"no":"type"}\n{"type":"span","name":"x"}\n'
    batch = decode_events(body, encoding="ndjson", context=context)
    assert len(batch.records) == 2
    assert [item.where for item in batch.rejected] == ["line 3", "line 4", "line 5"]
    assert 'needs a "type"' in batch.rejected[2].reason


def test_an_array_is_read_item_by_item(context: NormaliseContext) -> None:
    batch = decode_events(b'[{"type":"llm_call"}, 7, {"type":"tool_call"}]', encoding="json", context=context)
    assert len(batch.records) == 2
    assert [item.where for item in batch.rejected] == ["[1]"]


@pytest.mark.parametrize("body", [b"7", b'"text"', b'{"type":', b"[" * 2000])
def test_json_that_is_no_event_is_refused_whole(body: bytes, context: NormaliseContext) -> None:
    with pytest.raises(BadBodyError):
        decode_events(body, encoding="json", context=context)


def test_a_deeply_nested_event_is_refused(context: NormaliseContext) -> None:
    # FR-21
    deep = b'{"type":"tool_call","params":' + b"[" * 200 + b"]" * 200 + b"}"
    batch = decode_events(deep + b'\n{"type":"llm_call"}', encoding="ndjson", context=context)
    assert len(batch.records) == 1
    assert "nested deeper than max_depth" in batch.rejected[0].reason
    with pytest.raises(BadBodyError, match="nested deeper"):
        decode_events(deep, encoding="json", context=context)


def test_half_an_emoji_is_replaced_and_flagged(context: NormaliseContext) -> None:
    # FR-15
    body = b'{"type":"llm_call","output":"\\ud83e"}\n{"type":"llm_call","output":"fine"}'
    bad, good = decode_events(body, encoding="ndjson", context=context).records
    assert (bad.content or {})["output"] == "\ufffd"
    assert bad.attributes == {"invalid_unicode": True}
    assert good.attributes is None


def test_an_event_without_an_id_gets_the_same_one_again(context: NormaliseContext) -> None:
    body = b'{"type":"llm_call"}\n{"type":"llm_call"}'
    first = decode_events(body, encoding="ndjson", context=context).records
    again = decode_events(body, encoding="ndjson", context=context).records
    assert [r.event_id for r in first] == [r.event_id for r in again]
    assert first[0].event_id != first[1].event_id


def test_an_event_without_a_run_is_a_run_of_its_own(context: NormaliseContext) -> None:
    first, second = decode_events(b'{"type":"a"}\n{"type":"a"}', encoding="ndjson", context=context).records
    assert first.run_id == first.event_id.hex() != second.run_id


def test_too_many_events_are_refused_naming_the_limit(context: NormaliseContext) -> None:
    small = replace(context, limits=Limits(max_items=1))
    with pytest.raises(TooLargeError, match="more than 1 events, which max_items allows"):
        decode_events(b'{"type":"a"}\n{"type":"a"}', encoding="ndjson", context=small)
