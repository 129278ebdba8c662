"""Makes API keys as the command does, for tests that show them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from tracehold_collector.access.keys import KeyFile, NewKey


def make_key(folder: Path, *roles: Any, name: str | None = None, tenants: Any = ("default",), **more: Any) -> str:
    """Make a key in a data folder and return it whole; `tenants=None` is every tenant."""
    with closing(KeyFile(folder, "a test")) as file:
        wanted = NewKey(name or f"key {len(file.listed())}", roles, tenants, **more)
        return file.create(wanted)[1].reveal()


def bearer(key: str) -> dict[str, str]:
    """The header that shows a key."""
    return {"Authorization": f"Bearer {key}"}
