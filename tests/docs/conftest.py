"""The pages, and a running collector for the snippets that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import CollectorProcess, collector

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def pages() -> dict[str, str]:
    """Every page a reader may open: its path from the root of the repository, and its text."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(paths)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    with collector(tmp_path_factory.mktemp("collector") / "data") as process:
        yield process
