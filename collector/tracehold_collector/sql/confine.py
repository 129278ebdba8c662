"""What the process that runs a statement gives up before it looks at the statement. The kernel holds it to that."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path
from typing import Final

_ENGINE_BYTES: Final = 128 * 1024 * 1024
"""For Arrow, Python and what DuckDB does not count, beside what the statement may use."""


def confine(*, memory_bytes: int, cpu_s: int) -> None:
    """Give up opening files and sockets, starting processes, and memory beyond a bound. For good.

    Args:
        memory_bytes: what may be allocated from now on.
        cpu_s: processor time after which the kernel ends this process, should nobody else.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    os.nice(10)
    # Linux counts what is allocated here; elsewhere DuckDB's own limit has to do.
    bound = _allocated_bytes() + memory_bytes + _ENGINE_BYTES
    _limit(resource.RLIMIT_DATA, bound)
    _limit(resource.RLIMIT_CPU, cpu_s)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    # Only the numbers 0 to 2 are left, and they are taken: nothing can be opened any more, by whatever way.
    _limit(resource.RLIMIT_NOFILE, 3)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(what, (most, most))


def _allocated_bytes() -> int:
    try:
        status = Path("/proc/self/status").read_text("ascii")
    except OSError:
        return 0
    line = next(line for line in status.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024
