"""The root of all errors, the public names, and that closing lets go of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import tracehold
from tracehold import ApprovalRequired, ControlSignal, JsonlExporter, SqliteExporter, TraceExporter, TraceholdError
from tracehold.core.control import Redeliver


def test_every_public_error_is_under_the_one_root_which_is_a_runtime_error() -> None:  # ERR-01, DEC-16
    public = [getattr(tracehold, name) for name in tracehold.__all__]
    raised = [item for item in public if isinstance(item, type) and issubclass(item, Exception)]
    errors = [item for item in raised if not issubclass(item, ControlSignal | Redeliver)]
    assert len(errors) >= 3
    assert issubclass(TraceholdError, RuntimeError)
    assert all(issubclass(error, TraceholdError) for error in errors)


def test_a_signal_that_steers_a_run_is_no_error() -> None:  # ERR-01
    assert issubclass(ApprovalRequired, ControlSignal)
    assert not issubclass(ControlSignal, TraceholdError)
    assert not issubclass(Redeliver, TraceholdError)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system does not list a process's open files")
@pytest.mark.parametrize("make", [JsonlExporter, SqliteExporter])
def test_closing_an_exporter_releases_its_file(  # EXP-13
    tmp_path: Path, make: Callable[[Path], TraceExporter]
) -> None:
    path = tmp_path / "events"
    exporter = make(path)
    exporter.export({"type": "tool_call", "run_id": "r"})
    assert _is_open(path)

    exporter.close()

    assert not _is_open(path)


def _is_open(path: Path) -> bool:
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return any(name.startswith(str(path)) for name in names)
