"""The file of keys and of the access log: its name, and whether any key was ever made in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

FILE_NAME: Final = "access.sqlite"
BUSY_S: Final = 5.0


def holds_keys(folder: Path) -> bool:
    """Whether the data folder has keys, revoked and expired ones included: with the first, keyless access is over.

    A file that cannot be read counts as one with keys: in doubt nothing is open.
    """
    path = folder / FILE_NAME
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as connection:
            made = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'keys'").fetchone()
            return made is not None and connection.execute("SELECT 1 FROM keys LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return True
