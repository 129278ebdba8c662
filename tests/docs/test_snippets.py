"""What the pages tell a reader to run can be run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from support.processes import CollectorProcess, clean_environment
from tracehold_collector.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = [path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if path.name != "cli.md"]
RUNNABLE = re.compile(r"^```python runnable\n(.*?)^```", re.MULTILINE | re.DOTALL)
SNIPPETS = [
    pytest.param(code, id=f"{path.relative_to(ROOT)}:{number}")
    for path in sorted(WRITTEN)
    for number, code in enumerate(RUNNABLE.findall(path.read_text("utf-8")), start=1)
]


def commands() -> list[str]:
    """Every `tracehold VERB ...` in a shell block or in inline code."""
    found = set()
    for path in WRITTEN:
        text = path.read_text("utf-8")
        for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL):
            found |= {line.strip() for line in block.splitlines() if line.strip().startswith("tracehold ")}
        prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        found |= set(re.findall(r"`(tracehold [^`]+)`", prose))
    return sorted(found)


@pytest.mark.parametrize("code", SNIPPETS)
def test_a_runnable_snippet_runs(running: CollectorProcess, tmp_path: Path, code: str) -> None:
    environment = clean_environment() | {
        "TRACEHOLD_URL": running.url,
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_there_are_runnable_snippets_in_the_readme_and_the_guide() -> None:
    pages = {param.id.rpartition(":")[0] for param in SNIPPETS}
    assert {"README.md", "docs/agent-developers.md"} <= pages


@pytest.mark.parametrize("line", commands())
def test_a_command_on_a_page_exists_with_these_options(line: str) -> None:
    verb, *arguments = shlex.split(line, comments=True)[1:]
    if verb == "VERB":
        return
    group = typer.main.get_command(app)
    assert verb in group.commands, f"{line!r}: there is no such verb"
    command = group.commands[verb]
    if arguments and arguments[0] in getattr(command, "commands", ()):
        command = command.commands[arguments[0]]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    # A dash alone is standard input, an argument.
    unknown = [
        word for word in arguments if word.startswith("-") and word != "-" and word.partition("=")[0] not in known
    ]
    assert not unknown, f"{line!r}: {unknown} are no options of {verb}"


def test_a_log_that_the_engines_page_looks_into_is_made_by_one_of_its_snippets() -> None:
    text = (ROOT / "docs" / "engine.md").read_text("utf-8")
    files = set(re.findall(r"^tracehold log \w+ (\S+)", text, flags=re.MULTILINE))
    runs = set(re.findall(r"^tracehold log \w+ \S+ ([^-\s]\S*)", text, flags=re.MULTILINE))
    (snippet,) = [code for code in RUNNABLE.findall(text) if f'("{min(files)}")' in code]
    assert len(files) == 1
    assert all(f'run_id="{run}"' in snippet for run in runs)


def test_a_make_target_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    for path in WRITTEN:
        for block in re.findall(r"```sh\n(.*?)```|`(make [a-z]+)`", path.read_text("utf-8"), flags=re.DOTALL):
            named = re.findall(r"^make ([a-z]+)", "\n".join(block).strip(), flags=re.MULTILINE)
            assert set(named) <= targets, path.name
