"""How to install what is optional."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """Return what to do about a missing package: Tracehold is on no package index, so a clone is where it works."""
    return f"run in a clone of Tracehold: pip install '.[{extra}]'"
