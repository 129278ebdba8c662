"""How far into each file a load came, so that an interrupted one goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import platformdirs

_HEAD_BYTES = 4096


class Progress:
    """Remembers offsets by file and collector. Losing them costs time only: a resend adds nothing.

    Args:
        url: the collector that is loaded into.
        folder: where offsets are kept; default the platform's user state folder.
    """

    def __init__(self, url: str, folder: Path | None = None) -> None:
        base = folder or Path(platformdirs.user_state_dir("tracehold", appauthor=False)) / "ingest"
        self._folder = base
        self._url = url

    def offset(self, path: Path) -> int:
        """Return where to go on, 0 when the file is new or no longer the one that was begun."""
        try:
            kept = json.loads(self._place(path).read_text(encoding="utf-8"))
            if kept["head"] == _head(path) and kept["offset"] >= 0:
                return int(kept["offset"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing is kept, or it is unreadable: begin at the start
        return 0

    def keep(self, path: Path, offset: int) -> None:
        """Remember `offset`; called after everything before it was acknowledged."""
        place = self._place(path)
        own = place.with_name(f"{place.name}.{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            own.write_text(json.dumps({"head": _head(path), "offset": offset}), encoding="utf-8")
            own.replace(place)
        except OSError:
            pass  # a read-only home must not stop a load

    def forget(self, path: Path) -> None:
        """Forget a file that is done."""
        self._place(path).unlink(missing_ok=True)

    def _place(self, path: Path) -> Path:
        key = f"{self._url}\n{path.resolve()}"
        return self._folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(_HEAD_BYTES)).hexdigest()
