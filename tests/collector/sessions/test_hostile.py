"""Whatever stands where in a recorded session, the rest of the file is read and nothing but a plain error comes out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.decoding import decode_file
from support.recorded import shipped
from support.sessions import lines
from tracehold_collector.core.errors import BadBodyError
from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.sessions import READERS, Form

FILES = {
    "claude-code": "claude-code-transcripts/representative_messages.jsonl",
    "inspect": "inspect-ai-logs/log_tool_call_error.json",
    "swe-agent": "swe-agent-trajectories/pydicom__pydicom-1458.traj.json",
    "openhands": "openhands-trajectories/basic.json",
    "atif": "phoenix-atif/subagent_trajectories.json",
}
ROLLOUT = [
    {"timestamp": f"2026-03-04T00:53:0{n}Z", "ordinal": n, "type": kind, "payload": payload}
    for n, (kind, payload) in enumerate(
        [
            ("session_meta", {"id": "s-1", "model_provider": "openai"}),
            ("turn_context", {"model": "m"}),
            ("response_item", {"type": "message", "role": "user", "content": [{"text": "go"}]}),
            ("response_item", {"type": "function_call", "name": "f", "call_id": "c", "arguments": '{"a": 1}'}),
            ("event_msg", {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 1}}}),
            ("event_msg", {"type": "exec_command_end", "call_id": "c", "status": "failed", "duration": {"secs": 1}}),
            ("response_item", {"type": "function_call_output", "call_id": "c", "output": {"success": True}}),
            ("response_item", {"type": "web_search_call", "status": "completed", "action": {"query": "q"}}),
        ]
    )
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, -1, 2**63, 10**25, 1e308, "", "x", "2026-01-01T00:00:00Z", "NaN", [], {}, [[]], [None], {"": {}}]
    ),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a value, by the keys that lead to it."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """`value` with something else in one place."""
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(copy[path[0]], path[1:], odd)
    return copy


@lru_cache
def recorded(form: str) -> tuple[Any, list[tuple[Any, ...]]]:
    if form == "codex":
        return ROLLOUT, [path for path in places(ROLLOUT) if path]
    text = shipped(FILES[form]).read_text()
    value = [json.loads(line) for line in text.splitlines()] if READERS[form].lines else json.loads(text)
    return value, [path for path in places(value) if path]


@pytest.mark.parametrize("form", READERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_something_odd_in_any_place_ends_in_no_crash(
    form: str, tmp_path: Path, context: NormaliseContext, data: st.DataObject
) -> None:
    value, all_places = recorded(form)
    for path, odd in data.draw(st.lists(st.tuples(st.sampled_from(all_places), ODD), min_size=1, max_size=3)):
        try:
            value = put(value, path, odd)
        except (KeyError, IndexError, TypeError, ValueError):
            continue  # an earlier one took the place away
    file = tmp_path / ("file.jsonl" if READERS[form].lines else "file.json")
    file.write_text(lines(value) if READERS[form].lines and isinstance(value, list) else json.dumps(value))
    try:
        batch = decode_file(file, context, Form(form))
    except BadBodyError:
        return  # it does not look like a file of that form any more
    assert not [item for item in batch.rejected if "report it" in item.reason]


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_a_file_that_was_cut_is_read_as_far_as_its_form_allows(
    form: str, part: float, tmp_path: Path, context: NormaliseContext
) -> None:
    body = shipped(FILES[form]).read_bytes()
    file = tmp_path / ("file.jsonl" if READERS[form].lines else "file.json")
    file.write_bytes(body[: int(len(body) * part)])
    if READERS[form].lines:
        batch = decode_file(file, context, Form(form))
        assert [item.reason[:25] for item in batch.rejected] == ["the last line is cut shor"]
    else:
        with pytest.raises(BadBodyError, match=r"file\.json cannot be read: the body is not JSON.*line \d+"):
            decode_file(file, context, Form(form))


@pytest.mark.parametrize("form", FILES)
def test_every_form_is_recognised_and_a_wrong_name_for_it_is_corrected(
    form: str, tmp_path: Path, context: NormaliseContext
) -> None:
    file = shipped(FILES[form])
    assert decode_file(file, context) == decode_file(file, context, Form(form))
    for other in READERS:
        if other != form:
            with pytest.raises(BadBodyError, match=rf"is not .*; it looks like {READERS[form].title}"):
                decode_file(file, context, Form(other))


@pytest.mark.parametrize("form", FILES)
def test_a_second_read_gives_the_same_ids(form: str, context: NormaliseContext) -> None:
    first, second = (decode_file(shipped(FILES[form]), context) for _ in range(2))
    ids = [record.event_id for record in first.records]
    assert ids == [record.event_id for record in second.records]
    assert len(set(ids)) == len(ids)
