"""A shared store with evidence in it, and the verifier as an auditor has it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.evidence import OFFLINE, Outcome, World, filled_world


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Not to be added to: it is shared."""
    made = filled_world(tmp_path_factory.mktemp("world"))
    yield made
    made.writer.close()
    made.database.close()


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[World]:
    made = filled_world(tmp_path / "own")
    yield made
    made.writer.close()
    made.database.close()


@pytest.fixture(scope="package")
def verifier() -> ModuleType:
    """The verifier as an auditor has it: one file, loaded by its path."""
    spec = importlib.util.spec_from_file_location("verify_evidence_alone", OFFLINE / "verify_evidence.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(verifier: ModuleType, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the verifier in this process on a bundle, with these arguments."""

    def run(path: Path, *arguments: str) -> Outcome:
        capsys.readouterr()
        code = verifier.main([str(path), "--json", *arguments])
        out = capsys.readouterr()
        return Outcome(code, json.loads(out.out) if out.out else {"error": out.err})

    return run
