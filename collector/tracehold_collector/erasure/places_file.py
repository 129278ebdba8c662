"""The places beyond the database that erasures reach, as somebody writes them down in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from tracehold.core.errors import ConfigurationError

from tracehold_collector.core.toml_files import read_toml

PlaceKind = Literal["engine-sqlite", "trace-sqlite", "jsonl", "sessions", "checkpoints"]


class Place(BaseModel):
    """A file, or a folder, that may hold what is to be erased.

    Attributes:
        name: what reports call it.
        kind: what it is: the log of an engine (`SQLiteEventStore`), traces of a `SqliteExporter` or `JsonlExporter`, a
            `SqliteSessionStore`, a `SqliteCheckpointStore`.
        path: where it is; relative to the file that names it.
        blobs: of an engine, the folder of its `FileBlobStore`.
        tenant: whose data it holds: only erasures of this tenant look into it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=128)
    kind: PlaceKind
    path: Path
    blobs: Path | None = None
    tenant: str = Field(min_length=1, max_length=128)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    places: list[Place] = Field(max_length=1000)


def load_places(path: Path) -> list[Place]:
    """Read a file of places (TOML): tables `[[places]]`.

    Raises:
        ConfigurationError: it cannot be read; says which entry and what is wrong with it.
    """
    places = read_toml(path, _File, "the file of places").places
    names = [place.name for place in places]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(f"the file of places {path} has two called {twice[0]!r}: give each a name of its own")
    return [place.model_copy(update=_absolute(place, path.parent)) for place in places]


def _absolute(place: Place, folder: Path) -> dict[str, Path]:
    found = {"path": folder / place.path}
    return found | ({} if place.blobs is None else {"blobs": folder / place.blobs})
