"""A command imports what its verb needs; the list of that is complete."""

from __future__ import annotations

import pytest
from tracehold_collector.cli.verbs import VERBS, make_app, modules_of
from typer.main import get_command
from typer.testing import CliRunner


def verbs_of(modules: list[str]) -> set[str]:
    return set(get_command(make_app(modules)).commands)  # type: ignore[attr-defined]


def test_every_verb_is_listed_with_its_module() -> None:
    assert verbs_of(list(VERBS)) == {verb for verbs in VERBS.values() for verb in verbs}


@pytest.mark.parametrize("verb", sorted({verb for verbs in VERBS.values() for verb in verbs}))
def test_a_verb_is_there_when_only_its_modules_are_imported(verb: str) -> None:
    assert verb in verbs_of(modules_of(verb))
    assert CliRunner().invoke(make_app(modules_of(verb)), [verb, "--help"]).exit_code == 0


@pytest.mark.parametrize("word", [None, "--help", "--version", "nonsense", ""])
def test_whatever_is_no_verb_has_all_of_them(word: str | None) -> None:
    assert modules_of(word) == list(VERBS)
