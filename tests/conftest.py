"""What every test may ask for: where the traces are, a Chromium, a hypothesis profile."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.profile import SOAK

ROOT = Path(__file__).resolve().parent.parent

# Started in the background by a shell, this process ignores Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fast", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("soak" if SOAK else "fast")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: a quarter of the time, tests wait for servers and commands they started."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """Leave the collected tests out of every later garbage collection: there are thousands, and they stay."""
    gc.collect()
    gc.freeze()


TRACES = Path(os.environ.get("TRACEHOLD_TRACES", ROOT.parent / "shared" / "data" / "traces"))


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of recorded traces that do not ship with the project."""
    if not TRACES.is_dir():
        pytest.skip(f"no recorded traces at {TRACES}; set TRACEHOLD_TRACES to their folder")
    return TRACES


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    if os.environ.get("TRACEHOLD_REQUIRE_BROWSER"):
        pytest.fail("no Chromium found, and TRACEHOLD_REQUIRE_BROWSER is set: install the package chromium")
    pytest.skip("no Chromium found: install the package chromium to run the browser tests")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what was left out for want of data or a browser."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = sorted({str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple)})
    if reasons:
        terminalreporter.write_sep("-", "left out")
        for reason in reasons:
            terminalreporter.write_line(reason)
