"""The map of controls and rules: every date has a source, a file of one's own comes first, every command exists."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import typer
from tracehold_collector.cli.app import app
from tracehold_collector.controls.catalogue import ControlsError, load_controls
from tracehold_dashboard.views import denials, overview, review, run, runs
from tracehold_queries import catalogue
from typer.testing import CliRunner

RULES = {
    "EU AI Act": ["12", "14", "19", "26"],
    "GDPR": ["5", "17", "19", "30", "32"],
    "SOC 2": ["CC6", "CC7"],
    "PCI DSS": ["10"],
    "NIST": ["AU-"],
    "ISO/IEC 42001": ["A."],
}
"""What issue 6 asks to be mapped."""

PAGES = {"Runs": runs, "Run": run, "Gate denials": denials, "Review": review, "Overview": overview}


def test_every_rule_that_was_asked_for_is_served_by_a_control() -> None:
    served = [text for control in load_controls().controls.values() for text in control.serves]
    for law, parts in RULES.items():
        texts = " ".join(text for text in served if text.startswith(law))
        for part in parts:
            assert re.search(rf"\b{re.escape(part)}", texts), (law, part)


def test_every_date_has_a_source_and_every_page_is_one_of_the_dashboard() -> None:
    known = load_controls()
    assert all(one.source for one in known.dates.values())
    assert {control.page for control in known.controls.values() if control.page} <= set(PAGES)
    assert {name for control in known.controls.values() for name in control.dates} <= set(known.dates)


def test_a_file_of_ones_own_comes_before_what_ships(tmp_path: Path) -> None:
    own = tmp_path / "controls.toml"
    own.write_text(
        "as_of = 2027-03-01\n"
        '[[dates]]\nid = "ai-act-annex-iii"\nwhat = "moved again"\nfrom = 2029-01-01\nsource = "the Official Journal"\n'
        '[[controls]]\nid = "ours"\nwhat = "a second look"\nserves = ["House rule 7"]\ncommands = ["tracehold runs"]\n'
    )
    shipped, changed = load_controls(), load_controls(own)
    assert changed.as_of == date(2027, 3, 1)
    assert changed.dates["ai-act-annex-iii"].value == date(2029, 1, 1)
    assert changed.dates["gdpr"] == shipped.dates["gdpr"]
    assert set(changed.controls) == {*shipped.controls, "ours"}
    told = CliRunner().invoke(
        app, ["controls", "--rule", "house rule", "--json"], env={"TRACEHOLD_CONTROLS_FILE": str(own)}
    )
    assert [json.loads(line)["control"] for line in told.stdout.splitlines()] == ["ours"]


DATE = '[[dates]]\nid = "x"\nwhat = "w"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DATE + "from = 2027-01-01\n", "every date has a source"),
        (DATE + 'source = "s"\n', "either from"),
        (DATE + 'from = 2027-01-01\nperiod = "1 day"\nsource = "s"\n', "either from"),
        (DATE + 'from = "soon"\nsource = "s"\n', "from is a date"),
        (DATE + 'from = 2027-01-01\nsource = "s"\nlink = "l"\n', "unknown key 'link'"),
        (DATE + 'from = 2027-01-01\nsource = "s"\n' + DATE, "an id of its own"),
        ('[[controls]]\nid = "x"\nwhat = "w"\nserves = ["a"]\ncommands = ["b"]\ndates = ["none"]\n', "'none'"),
        ('[[controls]]\nid = "x"\nwhat = "w"\nserves = []\ncommands = ["b"]\n', "serves is a list"),
        ("rules = 1\n", "unknown key 'rules'"),
        ('as_of = "today"\n', "as_of is a date"),
        ("dates = 3\n", "list of tables"),
        ("= broken\n", "no TOML"),
    ],
    ids=lambda value: value if " " in value and "\n" not in value else "",
)
def test_a_file_that_cannot_be_used_is_refused_and_says_where(tmp_path: Path, text: str, said: str) -> None:
    own = tmp_path / "controls.toml"
    own.write_text(text)
    with pytest.raises(ControlsError, match=re.escape(said)):
        load_controls(own)


def test_the_command_lists_controls_of_a_rule_and_dates_with_their_sources() -> None:
    told = CliRunner().invoke(app, ["controls", "--rule", "pci dss 10.4"])
    assert "daily-review" in told.stdout
    assert "erasure" not in told.stdout
    assert "yours to judge" in told.stdout
    dates = CliRunner().invoke(app, ["controls", "--dates", "--json"])
    rows: list[dict[str, Any]] = [json.loads(line) for line in dates.stdout.splitlines()]
    assert all(row["source"] for row in rows)


def test_every_command_that_is_named_exists() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    missing = []
    for control in load_controls().controls.values():
        for command in control.commands:
            program, verb, *inner = command.split()
            below = getattr(commands.get(verb), "commands", catalogue() if verb == "query" else None)
            known = verb in commands and (below is None or not inner or inner[0] in below)
            if program != "tracehold" or not known:
                missing.append(command)
    assert missing == []
