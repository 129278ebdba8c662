"""What an agent tried after a denial, with what it asked for where that may be seen. Issue 6, section 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import shipped
from tracehold_collector.cli.app import app
from tracehold_collector.review.retries import arguments_of, compare
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner

T0 = 1_780_000_000_000_000_000
SECOND = 1_000_000_000


def after(number: int, step: int, **fields: Any) -> dict[str, Any]:
    """An event of the denial's run, some seconds later."""
    return {
        "type": "tool_call",
        "event_id": f"{number * 1_000_000 + step:032x}",
        "run_id": f"run-{number}",
        "agent": "support",
        "started_at_ns": T0 + number * 1_000 + step * SECOND,
        "status": "ok",
    } | fields


@pytest.fixture
def tried(stage: Any, denied: Any, id_of: Any, number: int) -> Callable[..., list[dict[str, Any]]]:
    """Store a denied mail and what came after it; give the retries that somebody sees."""

    def look(*later: dict[str, Any], key: str = "ann") -> list[dict[str, Any]]:
        stage.send(
            denied(number, run_id=f"run-{number}", params=MAIL),
            *(after(number, step, **one) for step, one in enumerate(later, 1)),
        )
        found: list[dict[str, Any]] = stage.review(key, id_of(number))["retries"]
        return found

    return look


MODEL = {"type": "llm_call", "model": "m"}
MAIL = {"folder": "outgoing-7", "subject": "the whole list"}


def test_the_same_tool_with_the_same_or_other_arguments_is_told_apart(tried: Any) -> None:
    same, other = tried(
        MODEL, {"tool": "send_mail", "params": MAIL}, {"tool": "send_mail", "params": MAIL | {"folder": "drafts"}}
    )
    assert (same["way"], same["same_arguments"], same["got_through"]) == ("same_tool", True, True)
    assert (other["way"], other["same_arguments"]) == ("same_tool", False)
    assert "subject" in other["shared"]


def test_another_tool_with_the_stopped_calls_target_is_found_whenever_it_comes(tried: Any) -> None:
    (found,) = tried(
        MODEL,
        MODEL,
        {"tool": "search", "params": {"q": "weather"}},
        {"tool": "shell", "params": {"command": "mailx -s 'the whole list' list@corp.example"}},
    )
    assert (found["way"], found["name"], found["got_through"]) == ("same_target", "shell", True)
    assert found["shared"] == ["subject"]


def test_a_target_that_was_stopped_again_did_not_get_through(tried: Any) -> None:
    (found,) = tried(MODEL, MODEL, {"tool": "http_post", "status": "denied", "decision": "denied", "params": MAIL})
    assert (found["way"], found["outcome"], found["got_through"]) == ("same_target", "stopped", False)


def test_without_the_role_content_nothing_is_compared_and_nothing_told(tried: Any) -> None:
    (found,) = tried(
        MODEL, MODEL, {"tool": "send_mail", "params": MAIL}, {"tool": "shell", "params": MAIL}, key="envelope"
    )
    assert (found["way"], found["same_arguments"], found["shared"]) == ("same_tool", None, None)


def test_what_was_masked_for_the_record_is_no_target(tried: Any) -> None:
    secret = "sk-" + "ant-api03-" + "A1b2C3d4E5f6G7h8" * 3
    assert tried(MODEL, MODEL, {"tool": "shell", "params": {"env": secret, "token": secret}}) == []


@pytest.mark.parametrize(
    ("stopped", "later", "shared"),
    [
        ({"path": "/etc/passwd"}, {"cmd": "cat /etc/passwd"}, ("path",)),
        ({"cmd": "cat /etc/passwd"}, {"path": "/etc/passwd"}, ("cmd",)),
        ({"a": [{"b": "invoice-7731"}]}, "see invoice-7731", ("a.0.b",)),
        ({"order": 774_431}, {"id": 774_431}, ("order",)),
        ({"order": 774_431}, {"id": 774_432}, ()),
        ({"n": 7}, {"m": 7}, ()),
        ({"flag": True}, {"on": True}, ()),
        ({"mode": "force"}, {"mode": "force"}, ()),
        ({"key": "[REDACTED:api_key]"}, {"key": "[REDACTED:api_key]"}, ()),
        (None, {"a": "something"}, ()),
    ],
    ids=str,
)
def test_a_value_is_a_target_when_it_is_long_enough_and_stands_in_the_other_call(
    stopped: Any, later: Any, shared: tuple[str, ...]
) -> None:
    assert compare(stopped, later).shared == shared


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    max_leaves=20,
)


@given(one=JSON, other=JSON)
def test_any_two_arguments_can_be_compared_and_equal_ones_are_the_same(one: Any, other: Any) -> None:
    assert compare(one, one).same is True
    assert set(compare(one, other).shared) <= set(compare(one, one).shared)


def test_whether_masked_arguments_are_the_same_is_not_known() -> None:
    mail = {"to": "[REDACTED:email]", "text": "hello"}
    assert compare(mail, mail).same is None
    assert compare(mail, mail | {"text": "bye"}).same is False


@pytest.mark.parametrize(
    "content",
    [
        {"params": {"a": 1}},
        {"data": {"arguments": {"a": 1}}},
        {"attributes": {"gen_ai.tool.call.arguments": '{"a": 1}'}},
        {"attributes": {"input.value": '{"a": 1}'}},
    ],
    ids=["tracer", "engine", "genai", "openinference"],
)
def test_arguments_are_found_whichever_way_they_came_in(content: Any) -> None:
    assert arguments_of(content) == {"a": 1}


def test_a_recorded_run_in_which_a_refused_tool_was_called_again(
    serve: Callable[..., CollectorServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Inspect AI's own recording: of eleven calls of bash the ninth was refused by its approver. No event has a time.
    server = serve()
    monkeypatch.setenv("TRACEHOLD_URL", server.url)
    loaded = CliRunner().invoke(app, ["ingest", str(shipped("inspect-ai-logs/log_tool_call_error.json"))])
    assert loaded.exit_code == 0, loaded.output
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        queue = http.get("/api/v1/queries/review_queue").json()
        retries = http.get("/api/v1/queries/denial_retries").json()
    (row,) = (dict(zip(queue["columns"], row, strict=True)) for row in queue["rows"])
    assert (row["name"], row["decision"], row["retries"], row["got_through"]) == ("bash", "denied", 2, True)
    found = [dict(zip(retries["columns"], row, strict=True)) for row in retries["rows"]]
    assert [(one["way"], one["outcome"], one["steps"]) for one in found] == [
        ("same_tool", "failed", 1),
        ("same_tool", "failed", 2),
    ]
