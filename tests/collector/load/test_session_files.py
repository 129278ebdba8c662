"""Recorded sessions reach a collector: recognised or named by --from, once, with what could not be read reported."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.otlp import chat_spans
from support.sessions import claude, lines, reply, tool_result, tool_use
from tracehold_collector.client import Client
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.load import files, find_files, load_files, read_pieces, session_files
from tracehold_collector.load.resume import Progress
from tracehold_collector.serve import CollectorServer
from tracehold_collector.sessions import READERS, Form

Serve = Callable[..., CollectorServer]

TRANSCRIPT = [
    claude("user", "u1", "go"),
    reply("a1", "msg-1", [tool_use("t1")], stop="tool_use", second=1),
    claude("user", "u2", [tool_result("t1")], second=2),
    reply("a2", "msg-2", "done", second=3),
]


def test_a_session_is_stored_once_and_its_odd_lines_are_reported(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    path = tmp_path / "session.jsonl"
    path.write_text(lines([*TRANSCRIPT, "odd"]))
    (tmp_path / "again.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    with Client(server.url) as client:
        packed, plain = load_files(client, find_files([tmp_path]), progress=Progress(server.url, tmp_path / "state"))
    assert (packed.accepted, packed.duplicates, packed.rejected) == (5, 0, 1)
    assert (plain.accepted, plain.duplicates, plain.rejected) == (0, 5, 1)
    assert plain.reasons == ["line 5: a line of a transcript must be an object"]


def test_a_longer_session_adds_what_is_new(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    path = tmp_path / "session.jsonl"
    path.write_text(lines(TRANSCRIPT[:2]))
    with Client(server.url) as client:
        (first,) = load_files(client, [path])
        path.write_text(lines(TRANSCRIPT))
        (second,) = load_files(client, [path])
    assert (first.accepted, second.accepted, second.duplicates) == (4, 2, 3)


def test_a_load_of_a_session_that_was_interrupted_begins_again(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_files, "PIECE_BYTES", 500)
    server = serve()
    path = tmp_path / "session.jsonl"
    path.write_text(lines(TRANSCRIPT))
    progress = Progress(server.url, tmp_path / "state")

    def interrupt(_path: Path, _offset: int) -> None:
        raise KeyboardInterrupt

    with Client(server.url) as client:
        with pytest.raises(KeyboardInterrupt):
            load_files(client, [path], progress=progress, on_bytes=interrupt)
        (result,) = load_files(client, [path], progress=progress)
    assert result.duplicates
    assert (result.accepted or 0) + result.duplicates == 5


def test_an_event_too_large_for_a_request_is_reported_and_the_others_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_files, "_MAX_EVENT_BYTES", 2_000)
    path = tmp_path / "session.jsonl"
    path.write_text(lines([claude("user", "u0", "x" * 3_000), *TRANSCRIPT]))
    (piece,) = read_pieces(path)
    (item,) = piece.rejected
    assert item.reason.endswith("bytes, too many to send")
    assert piece.body.count(b"\n") == 5


@pytest.mark.parametrize(
    ("form", "name", "body", "says"),
    [
        ("claude-code", "a.json", json.dumps({"resourceSpans": []}), "an OTLP request; leave --from out"),
        ("claude-code", "a.jsonl", '{"type":"llm_call","run_id":"r"}\n', "taken as it is; leave --from out"),
        ("claude-code", "a.jsonl", '{"level":"info"}\n', "nor does it look like any other form known here"),
        ("claude-code", "a.json", "[1]", "nor does it look like any other form known here"),
        ("claude-code", "a.json", "[1", "cannot be read: the body is not JSON"),
        ("claude-code", "a.pb", chat_spans(0, 1).SerializeToString(), "an OTLP request in protobuf"),
    ],
)
def test_a_file_that_is_not_what_it_is_said_to_be_is_called_what_it_looks_like(
    tmp_path: Path, form: str, name: str, body: str | bytes, says: str
) -> None:
    path = tmp_path / name
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    with pytest.raises(BadBodyError, match=says):
        list(read_pieces(path, form=Form(form)))


def test_a_session_may_have_any_name_when_it_is_said_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "transcript.txt"
    path.write_text(lines(TRANSCRIPT))
    with pytest.raises(BadBodyError, match=r"transcript\.txt is in no format known here"):
        find_files([path])
    assert find_files([path], Form.CLAUDE_CODE) == [path]
    assert len(list(read_pieces(path, form=Form.CLAUDE_CODE))) == 1


def test_every_reader_has_a_name_on_the_command_line() -> None:
    assert {form.value for form in Form} == {"auto", *READERS}
    assert all(name in files.READ for name in READERS)
