"""Trace files in pieces, and how they are resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tracehold_collector.core.errors import BadBodyError, TooLargeError
from tracehold_collector.core.limits import Limits
from tracehold_collector.decode import FileFormat, Piece, iter_file, sniff_file
from tracehold_collector.decode.files import PIECE_ITEMS
from tracehold_collector.normalise.context import NormaliseContext

TRACE = "0af7651916cd43dd8448eb211c80319c"


def event(n: int) -> str:
    return json.dumps({"type": "llm_call", "event_id": f"{n:032x}", "run_id": "r"})


def otlp(n: int) -> dict[str, Any]:
    span = {"traceId": TRACE, "spanId": f"{n + 1:016x}", "name": "work"}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def records(pieces: list[Piece]) -> list[bytes]:
    return [record.event_id for piece in pieces for record in piece.batch.records]


def test_a_long_file_comes_in_pieces_and_resumes_at_any_of_them(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "long.jsonl"
    path.write_text("".join(event(n) + "\n" for n in range(2 * PIECE_ITEMS + 5)))
    pieces = list(iter_file(path, context))
    assert [len(piece.batch.records) for piece in pieces] == [PIECE_ITEMS, PIECE_ITEMS, 5]
    assert path.stat().st_size == pieces[-1].offset
    resumed = list(iter_file(path, context, offset=pieces[0].offset))
    assert records(pieces[1:]) == records(resumed)


def test_a_file_that_is_done_gives_nothing_new(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "done.jsonl"
    path.write_text(event(1) + "\n")
    size = path.stat().st_size
    assert records(list(iter_file(path, context, offset=size))) == []


def test_the_files_of_the_opentelemetry_file_exporter_are_read_line_by_line(
    tmp_path: Path, context: NormaliseContext
) -> None:
    for name in ("traces.jsonl", "traces.json"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(otlp(n)) + "\n" for n in range(3)) + '{"resourceLogs":[]}\n')
        assert FileFormat.LINES is sniff_file(path, context)
        (piece,) = iter_file(path, context)
        assert len(piece.batch.records) == 3
        assert ["OTLP logs request" in item.reason for item in piece.batch.rejected] == [True]


def test_a_bad_line_names_the_file_and_its_offset(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "mixed.jsonl"
    path.write_text(event(1) + "\n" + "{broken\n" + event(2) + "\n")
    (piece,) = iter_file(path, context)
    assert len(piece.batch.records) == 2
    assert [f"mixed.jsonl, byte {len(event(1)) + 1}"] == [item.where for item in piece.batch.rejected]


def test_a_line_that_is_still_being_written_is_read_the_next_time(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "growing.jsonl"
    path.write_text(event(1) + "\n" + event(2)[:20])
    (piece,) = iter_file(path, context)
    assert len(piece.batch.records) == 1
    with path.open("a") as file:
        file.write(event(2)[20:] + "\n")
    (rest,) = iter_file(path, context, offset=piece.offset)
    assert [bytes.fromhex(f"{2:032x}")] == records([rest])


def test_a_complete_last_line_needs_no_newline(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "whole.jsonl"
    path.write_text(event(1))
    (piece,) = iter_file(path, context)
    assert (1, path.stat().st_size) == (len(piece.batch.records), piece.offset)


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.json", json.dumps(otlp(1)), FileFormat.OTLP_JSON),
        ("a.json", "[" + event(1) + "]", FileFormat.EVENTS),
        ("a.json", event(1), FileFormat.EVENTS),
        ("a.ndjson", event(1) + "\n", FileFormat.LINES),
        ("a.jsonl", "", FileFormat.LINES),
        ("a.pb", "", FileFormat.OTLP_PROTOBUF),
    ],
)
def test_a_file_is_known_by_its_suffix_and_its_content(
    name: str, text: str, form: FileFormat, tmp_path: Path, context: NormaliseContext
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert form is sniff_file(path, context)
    list(iter_file(path, context))


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", "x"), ("a.json", '{"messages": []}'), ("a.jsonl", '{"type":"user"}')]
)
def test_an_unknown_form_is_refused_naming_the_file_and_what_is_read(
    name: str, text: str, tmp_path: Path, context: NormaliseContext
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadBodyError, match=rf"{name} is in no format known here; read here: \.jsonl"):
        list(iter_file(path, context))


def test_a_broken_document_is_refused_naming_the_file(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"resourceSpans": [')
    with pytest.raises(BadBodyError, match=r"broken\.json: the body is not JSON"):
        list(iter_file(path, context))


def test_a_document_over_the_limit_is_refused(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "big.json"
    path.write_text(json.dumps(otlp(1)))
    with pytest.raises(TooLargeError, match="more than 20 bytes"):
        list(iter_file(path, replace(context, limits=Limits(max_decompressed_bytes=20))))


def test_a_line_over_the_limit_is_refused_and_the_next_is_read(tmp_path: Path, context: NormaliseContext) -> None:
    path = tmp_path / "wide.jsonl"
    path.write_text(event(1) + "\n" + json.dumps({"type": "llm_call", "input": "x" * 500}) + "\n" + event(2) + "\n")
    (piece,) = iter_file(path, replace(context, limits=Limits(max_body_bytes=200)))
    assert len(piece.batch.records) == 2
    assert piece.batch.rejected
