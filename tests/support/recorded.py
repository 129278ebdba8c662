"""Where the recorded traces are that ship with the project."""

from __future__ import annotations

from pathlib import Path

from tracehold_collector.demo import RECORDED

_FOLDERS = (Path(__file__).resolve().parent.parent / "data", RECORDED)


def shipped(name: str) -> Path:
    """A shipped trace or folder by its path below the collection, such as "strands-evals/x.otlp.json"."""
    return next(folder / name for folder in _FOLDERS if (folder / name).exists())
