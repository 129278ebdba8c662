"""Writes an answer to a file that is whole or not there, or to standard output."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Final

import typer

from tracehold_collector.core.errors import CollectorError

STDOUT: Final = Path("-")

OutputOption = Annotated[
    Path,
    typer.Option("--output", "-o", help="The file to write; - is standard output.", show_default="standard output"),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]


@contextlib.contextmanager
def written(path: Path, *, force: bool, binary: bool) -> Iterator[IO[bytes]]:
    """Give a file to write to. It takes its name when the block ends well; otherwise nothing is left of it.

    Args:
        path: its name; - is standard output.
        force: whether a file of that name may be replaced.
        binary: whether a terminal cannot show it.

    Raises:
        CollectorError: there is such a file already, it cannot be written, or a terminal would get bytes.
    """
    if path == STDOUT:
        if binary and sys.stdout.isatty():
            raise CollectorError("this form is for files, not for a terminal: name one with -o FILE")
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if path.exists() and not force:
        raise CollectorError(f"{path} exists; name another file, or replace it with --force")
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise CollectorError(f"cannot write into {path.parent}: {error.strerror}") from error
    part = Path(name)
    try:
        # Made for its owner alone, as the store is: it may hold what people said.
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise CollectorError(f"cannot write {path}: {error.strerror}; nothing is left of it") from error
    finally:
        part.unlink(missing_ok=True)
