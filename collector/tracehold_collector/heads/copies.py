"""The second places of tree heads. A store that was altered, cut or rebuilt does not fit the heads that lie elsewhere.

A copy in the data folder is always made: who can write to the database only cannot write there. It is no second place
for who has the whole machine; a folder of another one, an object store or a receiver of somebody else is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

import httpx
import orjson
from pyarrow import fs
from tracehold.core.errors import ConfigurationError

from tracehold_collector.core.errors import StoreError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.store.tree_heads import StoredHead

LOCAL_FILE: Final = "tree-heads.log"
_OBJECT_STORES: Final = frozenset({"s3", "gs", "gcs", "abfs", "abfss"})
_TIMEOUT_S: Final = 5.0


class CopyPlace(Protocol):
    """Takes copies of tree heads."""

    @property
    def name(self) -> str:
        """What it is called in logs and metrics; no secrets."""
        ...

    def put(self, head: StoredHead) -> None:
        """Keep a copy of `head`. Repeating one does no harm.

        Raises:
            StoreError: it could not be kept; try again later.
        """
        ...


class FileCopies:
    """Appends heads to a file of JSON lines: tenant, size, root (hex), signed_at, note.

    The file is only ever appended to, so that it may lie on a medium that allows nothing else.

    Args:
        path: the file; a folder gets one named `tree-heads.log`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path / LOCAL_FILE if path.is_dir() or not path.suffix else path

    @property
    def name(self) -> str:
        """The path."""
        return str(self._path)

    def put(self, head: StoredHead) -> None:
        """Append it and wait until the disk has it."""
        line = orjson.dumps(
            {
                "tenant": head.tenant,
                "size": head.size,
                "root": head.root.hex(),
                "signed_at": iso_utc(head.signed_at),
                "note": head.note,
            }
        )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                # A line that a crash cut short is ended first: what follows must not be glued to it.
                file.write(b"" if _ends_whole(self._path) else b"\n")
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"cannot copy a tree head to {self._path}: {error.strerror}") from error


class ObjectCopies:
    """Writes each head as an object of its own: `<tenant>/<size>.txt` below an address such as `s3://bucket/heads`.

    Args:
        address: as `pyarrow.fs.FileSystem.from_uri` takes it; credentials come from the environment.

    Raises:
        ConfigurationError: it is no such address.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._name = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        try:
            self._files, self._folder = fs.FileSystem.from_uri(address)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"tree heads cannot be copied to {self._name}: {type(error).__name__}") from error

    @property
    def name(self) -> str:
        """The address without its query."""
        return self._name

    def put(self, head: StoredHead) -> None:
        """Write the object."""
        path = f"{self._folder.rstrip('/')}/{quote(head.tenant, safe='')}/{head.size:020d}.txt"
        try:
            with self._files.open_output_stream(path) as stream:
                stream.write(head.note.encode())
        except OSError as error:
            raise StoreError(f"cannot copy a tree head to {self._name}: {type(error).__name__}") from error


class WebhookCopies:
    """Posts each head, the signed note as text, to a receiver that answers with 2xx once it has it.

    Args:
        url: an http or https address; user info in it is sent as such, and never shown.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._name = f"{parts.scheme}://{parts.hostname}{parts.path}"
        self._url = url

    @property
    def name(self) -> str:
        """The address without user info and query."""
        return self._name

    def put(self, head: StoredHead) -> None:
        """Post it."""
        headers = {"Content-Type": "text/plain; charset=utf-8", "X-Tracehold-Tenant": quote(head.tenant, safe="")}
        try:
            answer = httpx.post(self._url, content=head.note.encode(), headers=headers, timeout=_TIMEOUT_S)
        except httpx.HTTPError as error:
            raise StoreError(f"cannot copy a tree head to {self._name}: {type(error).__name__}") from error
        if not answer.is_success:
            raise StoreError(f"cannot copy a tree head to {self._name}: it answered {answer.status_code}")


def open_places(addresses: str, data_dir: Path) -> list[CopyPlace]:
    """Return the places named in a setting, and the one in the data folder before them.

    Args:
        addresses: folders, `s3://` (or gs, abfs) addresses and `https://` ones, separated by commas.
        data_dir: the data folder.

    Raises:
        ConfigurationError: one cannot be used.
    """
    places: list[CopyPlace] = [FileCopies(data_dir / LOCAL_FILE)]
    for address in filter(None, map(str.strip, addresses.split(","))):
        scheme = urlsplit(address).scheme
        if scheme in {"http", "https"}:
            places.append(WebhookCopies(address))
        elif scheme in _OBJECT_STORES:
            places.append(ObjectCopies(address))
        elif not scheme:
            places.append(FileCopies(Path(address).expanduser()))
        else:
            raise ConfigurationError(
                f"tree heads cannot be copied to an address that begins with {scheme}://; give a folder, "
                "s3://bucket/path or https://receiver"
            )
    return places


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_copies(data_dir: Path) -> list[tuple[str, str]]:
    """Return the tree heads that were copied into the data folder, as (tenant, note); none when there is no file.

    Raises:
        StoreError: the file cannot be read.
    """
    path = data_dir / LOCAL_FILE
    return list(_lines_of(path)) if path.exists() else []


def read_notes(path: Path) -> list[str]:
    """Return the tree heads in a file: one signed note, or JSON lines as `FileCopies` writes them.

    Raises:
        StoreError: the file cannot be read.
    """
    text = _text_of(path)
    return [note for _, note in _lines_of(path)] if text.lstrip().startswith("{") else [text]


def _lines_of(path: Path) -> Iterator[tuple[str, str]]:
    for line in _text_of(path).splitlines():
        # A line that a crash cut short says nothing, and hides none of the others.
        with contextlib.suppress(orjson.JSONDecodeError, KeyError, TypeError):
            said = orjson.loads(line)
            yield str(said["tenant"]), str(said["note"])


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read tree heads from {path}: {type(error).__name__}") from error
