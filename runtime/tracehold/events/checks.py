"""What every event store refuses, in the same words."""

from __future__ import annotations

from tracehold.core.errors import ConcurrencyError, SchemaError, StoreError


def check_stream(stream: str) -> None:
    """Refuse a stream name that no store can keep.

    Raises:
        SchemaError: it is no text, empty, or holds a lone surrogate.
    """
    if not isinstance(stream, str) or not stream:
        raise SchemaError(
            f"a stream's name is a text that is not empty, not {type(stream).__name__}. Nothing was stored"
        )
    try:
        stream.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(
            "a stream's name holds a lone surrogate, which no file can keep. Nothing was stored"
        ) from error


def check_limit(limit: int | None) -> None:
    """Refuse a limit that cannot be meant.

    Raises:
        ValueError: it is negative.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be None or at least 0, not {limit}")


def wrong_seq(stream: str, expected: int, last: int) -> ConcurrencyError:
    """Return the error of an append that expected another last number (STO-02)."""
    return ConcurrencyError(
        f"stream {stream!r} ends with event {last}, not with {expected} as the writer expected: another one was first. "
        "Nothing was stored; read the stream again before you retry"
    )


def closed_error(what: str) -> StoreError:
    """Return the error of a store that is used after `aclose` (STO-13)."""
    return StoreError(f"{what} is closed; open a new one")
