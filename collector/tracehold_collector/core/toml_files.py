"""Files of settings that users write, as TOML: read whole, checked whole, and refused with what is wrong where."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from tracehold.core.errors import ConfigurationError

_MAX_BYTES: Final = 1024 * 1024
_MOST_FAULTS: Final = 5

Shape = TypeVar("Shape", bound=BaseModel)


def read_toml(path: Path, shape: type[Shape], what: str) -> Shape:
    """Return what a file holds.

    Args:
        path: the file; at most 1 MiB, in UTF-8.
        shape: what it must look like.
        what: what it is called in errors, such as "the file of budgets".

    Raises:
        ConfigurationError: it cannot be read, or is not of that shape; names the entries, never a value.
    """
    return parse_toml(read_file(path, what), path, shape, what)


def read_file(path: Path, what: str) -> bytes:
    """Return the bytes of such a file; for who makes a digest of them as well.

    Raises:
        ConfigurationError: it cannot be read, or is too large.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {what} {path}: {error.strerror}") from error
    if len(raw) > _MAX_BYTES:
        raise ConfigurationError(f"{what} {path} is larger than {_MAX_BYTES // 1024 // 1024} MiB")
    return raw


def parse_toml(raw: bytes, path: Path, shape: type[Shape], what: str) -> Shape:
    """Return what the bytes of such a file hold; arguments and errors as those of `read_toml`."""
    try:
        return shape.model_validate(tomllib.loads(raw.decode("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{what} {path} is no TOML: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors(include_input=False, include_url=False)[:_MOST_FAULTS]
        )
        raise ConfigurationError(f"{what} {path} cannot be used: {faults}") from None
