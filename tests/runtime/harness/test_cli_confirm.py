"""`cli_confirm`: asking a person at the terminal, only where it was passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness_parts import Probe, only, run, with_tools
from tracehold import Tracer
from tracehold.harness import cli_confirm

Type = Callable[[Any], list[str]]


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Type:
    """Answer the next questions with a text, or with an exception; returns the list of what was asked."""

    def prepare(answer: Any) -> list[str]:
        asked: list[str] = []

        def ask(prompt: str = "") -> str:
            asked.append(prompt)
            if isinstance(answer, BaseException):
                raise answer
            return str(answer)

        monkeypatch.setattr("builtins.input", ask)
        return asked

    return prepare


def test_it_shows_the_tool_and_its_parameters_and_asks(type_in: Type, capsys: Any) -> None:  # HAR-90
    asked = type_in("y")
    assert cli_confirm(Probe("send_mail"), {"to": "maria", "urgent": True}) is True
    shown = capsys.readouterr().out + "".join(asked)
    assert "send_mail" in shown
    assert "to" in shown
    assert "maria" in shown
    assert "urgent" in shown
    assert len(asked) == 1


@pytest.mark.parametrize("answer", ["y", "Y", "  y ", "\ty\n"])
def test_a_y_is_a_yes(answer: str, type_in: Type) -> None:  # HAR-90
    type_in(answer)
    assert cli_confirm(Probe(), {}) is True


@pytest.mark.parametrize("answer", ["", "n", "N", "yes", "yy", "no", "1", "true", "ý", "y n"])
def test_anything_else_is_a_no(answer: str, type_in: Type) -> None:  # HAR-90
    type_in(answer)
    assert cli_confirm(Probe(), {}) is False


def test_it_is_used_only_when_passed(type_in: Type) -> None:  # HAR-91, HAR-08
    asked, tool = type_in("y"), Probe(confirm=True)
    assert run(with_tools(tool).aexec_tool("probe", {})).status == "error"
    assert asked == tool.runs == []
    assert run(with_tools(tool, confirm=cli_confirm).aexec_tool("probe", {})).status == "success"
    assert len(asked) == 1


def test_a_no_at_the_terminal_refuses(type_in: Type, tracer: Tracer) -> None:  # HAR-52, HAR-90
    type_in("n")
    tool = Probe(confirm=True)
    assert run(with_tools(tool, confirm=cli_confirm, tracer=tracer).aexec_tool("probe", {})).status == "error"
    assert tool.runs == []
    event = only(tracer, "tool_call")
    assert (event["status"], event["decided_by"]) == ("unconfirmed", "confirm:cli_confirm")


@pytest.mark.parametrize("ending", [EOFError(), OSError("no terminal")])
def test_no_terminal_is_a_no(ending: Exception, type_in: Type, tracer: Tracer) -> None:  # HAR-41: fail closed
    type_in(ending)
    tool = Probe(confirm=True)
    assert run(with_tools(tool, confirm=cli_confirm, tracer=tracer).aexec_tool("probe", {})).status == "error"
    assert tool.runs == []
    assert only(tracer, "tool_call")["status"] == "unconfirmed"


def test_parameters_cannot_rewrite_the_screen(type_in: Type, capsys: Any) -> None:  # HAR-90: a model chose them
    asked = type_in("y")
    cli_confirm(Probe(), {"city": "\x1b[2J\x1b[Hharmless\r\x9b\x08\x07", "\x1b[31m": "\u202etxt.exe"})
    shown = capsys.readouterr().out + "".join(asked)
    assert not any(char in shown for char in "\x1b\x9b\r\x08\x07\u202e")


ODD = {"bytes": b"\xff", "object": object(), "not a number": float("nan"), "surrogate": "\ud83e"}


@pytest.mark.parametrize("kind", ODD)
def test_odd_parameters_are_shown_somehow(kind: str, type_in: Type) -> None:  # HAR-90
    type_in("y")
    assert cli_confirm(Probe(), {"city": ODD[kind]}) is True


@pytest.mark.parametrize("key", [1, None, (1, 2), b"k"])
def test_odd_keys_are_no_crash_of_the_call(key: Any, type_in: Type) -> None:  # HAR-41, HAR-90
    type_in("n")
    assert run(with_tools(Probe(confirm=True), confirm=cli_confirm).aexec_tool("probe", {key: 1})).status == "error"


def test_circular_parameters_are_no_crash_of_the_call(type_in: Type) -> None:  # HAR-41, HAR-90
    type_in("y")
    circle: dict[str, Any] = {}
    circle["self"] = circle
    answer = run(with_tools(Probe(confirm=True), confirm=cli_confirm).aexec_tool("probe", circle))
    assert answer.status in {"success", "error"}
