"""Rewrites a store and is killed at a named point; each in a process of its own, forked from one that has imported all.

    python killed_rewrite.py FOLDER POINT...

Prints a line for each point: its name, the signal that ended it, the files it left, then what the next start finds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.records import make_record
from tracehold_collector.store import copying, rewrite
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.rewrite import RewriteOptions, Rewriter
from tracehold_collector.store.writer import Writer

PLACES: dict[str, tuple[Any, str, bool]] = {
    "before the first row is copied": (copying, "copy_stretch", False),
    "after the first rows are copied": (copying, "copy_stretch", True),
    "before the small tables are copied": (copying, "copy_whole", False),
    "after the files are counted": (rewrite, "_refuse", True),
    "before the new file is put in place": (rewrite.Database, "exchange", False),
    "before the rename": (Path, "replace", False),
    "after the rename": (Path, "replace", True),
    "before the old file is overwritten": (rewrite, "overwrite", False),
    "after the old file is overwritten": (rewrite, "overwrite", True),
}


def kill_at(where: tuple[Any, str, bool]) -> None:
    owner, name, after = where
    real: Callable[..., Any] = getattr(owner, name)

    def killed(*given: Any, **named: Any) -> Any:
        if after:
            real(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, killed)


def write_anew(folder: Path, point: str) -> None:
    database = Database(folder / FILE_NAME)
    writer = Writer(database)
    writer.submit([make_record(n, run=f"run-{n % 5}") for n in range(100)]).result(10)
    database.connection.execute("CHECKPOINT")
    writer.submit([make_record(n, run=f"run-{n % 5}") for n in range(100, 150)]).result(10)  # in the write-ahead file
    kill_at(PLACES[point])
    Rewriter(database, writer, RewriteOptions(quiet_s=0.0)).rewrite()


def look(folder: Path) -> None:
    left = sorted(file.name for file in folder.iterdir())
    database = Database(folder / FILE_NAME)
    now = sorted(file.name for file in folder.iterdir())
    counts = [
        database.connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]  # noqa: S608 - names of ours
        for table in ("events", "log_hashes", "runs")
    ]
    database.close()
    tell({"left": left, "now": now, "counts": counts})


def tell(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def apart(work: Callable[[], None]) -> int:
    if pid := os.fork():
        return os.waitpid(pid, 0)[1]
    try:
        work()
    except Exception:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    folder = Path(sys.argv[1])
    for number, point in enumerate(sys.argv[2:]):
        own = folder / str(number)
        own.mkdir()
        status = apart(lambda own=own, point=point: write_anew(own, point))
        tell({"point": point, "killed": status == signal.SIGKILL})
        apart(lambda own=own: look(own))


if __name__ == "__main__":
    main()
