"""Vectors in memory, ready to be compared with a query. Importing this needs numpy (the extra `vectors`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tracehold.core.errors import RetrievalError
from tracehold.core.scope import DIMENSIONS

_ROWS_AT_ONCE: Final = 4096
_FLOAT_BYTES: Final = 4

Vector: TypeAlias = NDArray[np.float32]


def as_vectors(vectors: Sequence[Sequence[float]], *, count: int) -> Vector:
    """Return vectors as a matrix of float32, a row each.

    Raises:
        RetrievalError: not `count` of them, of unequal length, without a number, or with one that is not finite.
    """
    try:
        with np.errstate(over="ignore"):  # what overflows is infinite, and refused below
            matrix = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise RetrievalError(f"{count} vectors of one length are needed; what came are not such lists") from error
    if matrix.ndim != 2 or matrix.shape[0] != count or not matrix.shape[1]:  # noqa: PLR2004 - rows and columns
        raise RetrievalError(f"{count} vectors of one length are needed, not an array of shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise RetrievalError("a vector holds a number that is NaN, infinite or too large for 32 bits")
    return matrix


def from_blob(blob: bytes) -> Vector:
    """Return a stored vector."""
    return np.frombuffer(blob, dtype="<f4").astype(np.float32)


def to_blob(vector: Vector) -> bytes:
    """Return a vector as it is stored: float32, little-endian."""
    return vector.astype("<f4").tobytes()


class Matrix:
    """Unit vectors with their row numbers and scopes; grows in place.

    Not safe to share between threads: its owner's lock guards it.

    Args:
        width: numbers a vector; vectors of another length, and those of zeros, are passed over.

    Attributes:
        last_number: the highest row number seen; 0 before the first.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.last_number = 0
        self._count = 0
        self._units = np.empty((0, width), dtype=np.float32)
        self._numbers = np.empty(0, dtype=np.int64)
        self._places = np.empty((0, len(DIMENSIONS)), dtype=np.int32)
        # A number for each value of a dimension, so that scopes are compared as integers.
        self._codes: list[dict[str, int]] = [{"": 0} for _ in DIMENSIONS]

    def extend(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Take rows of number, vector as bytes, and the five dimensions; numbers ascend."""
        waiting = iter(rows)
        while batch := list(islice(waiting, _ROWS_AT_ONCE)):
            fitting = [row for row in batch if len(row[1]) == self.width * _FLOAT_BYTES]
            if fitting:
                self._take(fitting)
            self.last_number = batch[-1][0]

    def _take(self, rows: list[tuple[Any, ...]]) -> None:
        units, lengths = _units(from_blob(b"".join(row[1] for row in rows)).reshape(len(rows), self.width))
        kept = np.flatnonzero(lengths)
        end = self._count + len(kept)
        self._make_room(end)
        self._units[self._count : end] = units[kept]
        for index, row in zip(range(self._count, end), (rows[chosen] for chosen in kept), strict=True):
            self._numbers[index] = row[0]
            self._places[index] = [
                codes.setdefault(value, len(codes)) for codes, value in zip(self._codes, row[2:], strict=True)
            ]
        self._count = end

    def nearest(self, query: Vector, *, top_k: int, key: tuple[str, ...], exact: bool) -> dict[int, float]:
        """Return row numbers and cosines, nearest first; among equals, later rows first.

        Args:
            query: a vector of `width` numbers.
            top_k: how many at most.
            key: the dimensions of a scope, unset ones as `""`.
            exact: whether unset dimensions match only unset ones; else they match anything.
        """
        units, lengths = _units(query[np.newaxis])
        chosen = self._chosen(key, exact=exact)
        if not lengths.all() or not chosen.size:
            return {}
        cosines = (self._units[: self._count] if chosen.size == self._count else self._units[chosen]) @ units[0]
        if top_k < cosines.size:  # sort only what can be among the first
            best = np.flatnonzero(cosines >= np.partition(cosines, -top_k)[-top_k])
            cosines, chosen = cosines[best], chosen[best]
        numbers = self._numbers[chosen]
        order = np.lexsort((-numbers, -cosines))[:top_k]
        return {int(numbers[index]): float(np.clip(cosines[index], -1, 1)) for index in order}

    def _chosen(self, key: tuple[str, ...], *, exact: bool) -> NDArray[np.intp]:
        mask = np.ones(self._count, dtype=bool)
        for column, value in enumerate(key):
            if value or exact:
                mask &= self._places[: self._count, column] == self._codes[column].get(value, -1)
        return np.flatnonzero(mask)

    def _make_room(self, count: int) -> None:
        if count <= len(self._numbers):
            return
        room = max(64, count, 2 * self._count)
        self._units = _grown(self._units, room)
        self._numbers = _grown(self._numbers, room)
        self._places = _grown(self._places, room)


def _units(vectors: Vector) -> tuple[Vector, NDArray[np.float64]]:
    """Return vectors at length 1, and what their lengths were; one of zeros points nowhere and stays as it is."""
    exact = vectors.astype(np.float64)  # the length of a vector of large numbers is beyond 32 bits
    lengths: NDArray[np.float64] = np.linalg.norm(exact, axis=1)
    return (exact / np.where(lengths, lengths, 1)[:, np.newaxis]).astype(np.float32), lengths


def _grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    larger = np.empty((room, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger
