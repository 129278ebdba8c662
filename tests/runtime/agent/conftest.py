from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tracehold import SqliteCheckpointStore, SqliteSessionStore, Tracer

# Test folders are no packages, so a module that several test files share must be put on the path.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def tracer() -> Tracer:
    """Keeps its events in memory."""
    return Tracer(strict=True)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A file that checkpoint stores of several "processes" share."""
    return tmp_path / "runs.db"


@pytest.fixture
def store(db: Path) -> Iterator[SqliteCheckpointStore]:
    opened = SqliteCheckpointStore(db)
    yield opened
    opened.close()


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SqliteSessionStore]:
    opened = SqliteSessionStore(tmp_path / "sessions.db")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _no_one_at_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading standard input fails a test: no gate may ever ask it unless told to (HAR-08)."""

    def asked(*_: object) -> str:
        raise AssertionError("standard input was read")

    monkeypatch.setattr("builtins.input", asked)
