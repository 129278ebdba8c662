"""One round of emitting with one package, in an interpreter of its own: `emit_worker.py PACKAGE KIND EXPORTER COUNT`.

Prints `{"cpu_us": CPU microseconds an event, "python": version}`. Only the standard library, and the documented names
`Tracer`, `MemoryExporter`, `JsonlExporter` and `SqliteExporter` of the package: the same code measures both sides.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent_events import events

WARM_UP = 1000


def main(package: str, kind: str, exporter: str, count: int) -> None:
    """Measure, and print one line."""
    names = importlib.import_module(package)
    batch = events(kind)
    with tempfile.TemporaryDirectory() as folder:
        tracer = names.Tracer(exporters=[_exporter(names, exporter, Path(folder))])
        _emit(tracer, batch, WARM_UP)
        begun = time.process_time()
        _emit(tracer, batch, count)
        spent = time.process_time() - begun
        tracer.close()
    print(json.dumps({"cpu_us": spent / count * 1e6, "python": platform.python_version()}))


def _exporter(names: Any, exporter: str, folder: Path) -> Any:
    if exporter == "memory":
        return names.MemoryExporter()
    if exporter == "jsonl":
        return names.JsonlExporter(str(folder / "events.jsonl"))
    return names.SqliteExporter(str(folder / "events.db"))


def _emit(tracer: Any, batch: list[dict[str, Any]], count: int) -> None:
    emit, size = tracer.emit, len(batch)
    for number in range(count):
        emit(batch[number % size])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
