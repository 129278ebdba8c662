"""How far a receiver has got, kept in a small file beside the store.

The file is replaced whole, by a rename, after its new contents reached the disk (rename(2), fsync(2)): after a power
cut it holds the old place or the new one, never half of one.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tracehold.core.clock import now_ns

from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.store.feed import Position

_PREFIX: Final = "forward-"
_DIGEST_CHARS: Final = 16
_Count = Annotated[int, Field(ge=0)]


class _Saved(BaseModel):
    """What the file holds."""

    model_config = ConfigDict(strict=True, extra="forbid")

    version: int = Field(1, ge=1, le=1)
    receiver: str
    asked: str | None
    received_at: _Count
    part: tuple[str, int, str, str] | None
    sent: _Count
    refused: _Count
    skipped: _Count
    saved_at: str | None


@dataclass(slots=True)
class Progress:
    """The place up to which a receiver was served, and what became of the events before it. Not thread-safe.

    Attributes:
        path: the file.
        receiver: scheme, host and port, for people; nothing of an address that could be a credential.
        position: everything up to here was taken, refused or skipped.
        asked: where the operator last asked to start from, as asked; so that the same wish works once, not at each
            start.
        sent: events the receiver took.
        refused: events it will never have: it refused them, or they cannot be said in OTLP.
        skipped: opening halves of spans, which are never sent.
    """

    path: Path
    receiver: str
    position: Position
    asked: str | None = None
    sent: int = 0
    refused: int = 0
    skipped: int = 0

    def save(self) -> None:
        """Keep it on disk.

        Raises:
            OSError: it could not be written; the file is what it was.
        """
        saved = _Saved(
            version=1,
            receiver=self.receiver,
            asked=self.asked,
            received_at=self.position.received_at,
            part=self.position.part,
            sent=self.sent,
            refused=self.refused,
            skipped=self.skipped,
            saved_at=iso_utc(now_ns()),
        )
        _replace(self.path, saved.model_dump_json().encode())


def progress_file(folder: Path, address: str) -> Path:
    """Return where the progress of the receiver at `address` is kept.

    The name is a digest: a path may be a credential, and this file goes into backups.
    """
    digest = hashlib.sha256(address.encode()).hexdigest()[:_DIGEST_CHARS]
    return folder / f"{_PREFIX}{digest}.json"


def load_progress(path: Path) -> Progress | None:
    """Return what was saved, or `None` when this receiver was never served.

    Raises:
        StoreError: there is a file, and it cannot be used. To guess would lose events or send all of them again.
    """
    try:
        saved = _Saved.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StoreError(
            f"cannot use {path}, which says how far forwarding has got: {type(error).__name__}. Restore it from a "
            "backup, or remove it: forwarding then starts from now, or from where --forward-from says"
        ) from error
    return Progress(
        path,
        saved.receiver,
        Position(saved.received_at, saved.part),
        saved.asked,
        saved.sent,
        saved.refused,
        saved.skipped,
    )


def _replace(path: Path, body: bytes) -> None:
    # Always the same name: one process has the store, and one that is killed here leaves no more than this.
    own = path.with_name(f".{path.name}.new")
    descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        own.replace(path)
    except BaseException:
        own.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last; not everywhere can a folder be opened (Windows)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
