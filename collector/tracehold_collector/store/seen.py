"""Which event ids may the store already hold?

A primary key on the big table would halve ingest speed. Instead Bloom filters in memory say "certainly new" for nearly
every id; only the few they are unsure about are looked up in the table. A filter covers the ids of one stretch of
commits, and a look-up reads that stretch only.

A filter is made of blocks of one cache line, as Putze, Sanders and Singler describe ("Cache-, Hash- and Space-Efficient
Bloom Filters", 2007), each of 16 words, as Parquet's split block filters have 8. An id sets one bit in each word of its
block. At 32 bits an id, one new id in 200,000 is taken for a known one by a full filter (measured); 50 million ids take
200 MB. They are read from the table when the store opens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_WORDS: Final = 16
"""32-bit words of a block: 64 bytes, a cache line."""
_BITS_PER_ID: Final = 32
_FIRST_CAPACITY: Final = 1 << 20
_LAST_CAPACITY: Final = 1 << 23
_TRIED_FIRST: Final = 4
"""Words looked at for every id; the others only for the one in ten that these do not rule out."""
_AT_ONCE: Final = 1 << 15
_BIT_FIELDS: Final = np.arange(0, 60, 5, dtype=np.uint64)
_BITS: Final = np.uint64(31)
_HALF: Final = np.uint64(32)

_Longs = npt.NDArray[np.uint64]


class Unsure(NamedTuple):
    """Ids that may be in the set, and where.

    Attributes:
        places: in the sequence that was asked about.
        first_ns, last_ns: the commits they would be of, by their `received_at`.
    """

    places: list[int]
    first_ns: int
    last_ns: int


class SeenIds:
    """A set of 16-byte ids that never forgets one and rarely claims one it does not hold.

    Used by the one writer thread only.
    """

    def __init__(self) -> None:
        self._filters: list[_Filter] = []

    def maybe(self, ids: bytes) -> Iterator[Unsure]:
        """Yield the ids that may be in the set; the others certainly are not.

        Args:
            ids: 16 bytes each, one behind the other.
        """
        hashes = _hashes(ids)
        for part in self._filters:
            places = part.maybe(hashes)
            if len(places):
                yield Unsure(places.tolist(), part.first_ns, part.last_ns)

    def places(self, ids: bytes) -> set[int]:
        """Return the places of the ids that may be in the set, whatever commits they are of."""
        return {place for unsure in self.maybe(ids) for place in unsure.places}

    @staticmethod
    def all_differ(ids: bytes) -> bool:
        """Whether no two of the ids are the same; `False` may also be a coincidence."""
        first, second = _hashes(ids)
        return len(np.unique(first ^ second)) == len(first)

    def add(self, ids: bytes, first_ns: int = 0, last_ns: int = 0) -> None:
        """Put ids into the set, 16 bytes each, one behind the other.

        Args:
            ids: of the events of some commits.
            first_ns: when the first of these commits was, by its `received_at`.
            last_ns: when the last was.
        """
        first, second = _hashes(ids)
        for start in range(0, len(first), _AT_ONCE):
            part = (first[start : start + _AT_ONCE], second[start : start + _AT_ONCE])
            self._with_room(len(part[0])).add(part, first_ns, last_ns)

    def _with_room(self, count: int) -> _Filter:
        if not self._filters or self._filters[-1].count + count > self._filters[-1].capacity:
            held = sum(each.count for each in self._filters)
            self._filters.append(_Filter(min(max(_FIRST_CAPACITY, held), _LAST_CAPACITY)))
        return self._filters[-1]


class _Filter:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        self.first_ns = self.last_ns = 0
        blocks = capacity * _BITS_PER_ID // (_WORDS * 32)
        self._blocks = np.uint64(blocks)
        self._words = np.zeros(blocks * _WORDS, dtype=np.uint32)

    def add(self, hashes: tuple[_Longs, _Longs], first_ns: int, last_ns: int) -> None:
        places, bits = self._places(hashes, slice(0, _WORDS))
        # Two ids of one call may share a block: bitwise_or.at applies every one of them.
        np.bitwise_or.at(self._words, places, bits)
        self.first_ns = min(self.first_ns, first_ns) if self.count else first_ns
        self.last_ns = max(self.last_ns, last_ns)
        self.count += len(hashes[0])

    def maybe(self, hashes: tuple[_Longs, _Longs]) -> npt.NDArray[np.int64]:
        left = np.flatnonzero(self._all_set(hashes, slice(0, _TRIED_FIRST)))
        rest = (hashes[0][left], hashes[1][left])
        return left[self._all_set(rest, slice(_TRIED_FIRST, _WORDS))]

    def _all_set(self, hashes: tuple[_Longs, _Longs], words: slice) -> npt.NDArray[np.bool_]:
        places, bits = self._places(hashes, words)
        found: npt.NDArray[np.bool_] = ((self._words[places] & bits) != 0).all(axis=0)
        return found

    def _places(
        self, hashes: tuple[_Longs, _Longs], words: slice
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """Return for each word the place it has in the filter for each id, and the bit of the id in it.

        One hash gives twelve bits and the other's lower half, which has no part in choosing the block, the rest.
        """
        first, second = hashes
        block = ((first >> _HALF) * self._blocks >> _HALF).astype(np.int64) * _WORDS
        numbers = np.arange(words.start, words.stop)
        shifts = _BIT_FIELDS[numbers % len(_BIT_FIELDS)][:, None]
        source = np.where((numbers < len(_BIT_FIELDS))[:, None], second, first)
        bits = np.left_shift(np.uint32(1), ((source >> shifts) & _BITS).astype(np.uint32))
        return block + numbers[:, None], bits


def _hashes(ids: bytes) -> tuple[_Longs, _Longs]:
    """Return two hashes of each id, stirred since the first half of a UUIDv7 is a clock."""
    halves = np.frombuffer(ids, dtype=np.uint64).reshape(-1, 2)
    first = _stir(halves[:, 0] ^ _stir(halves[:, 1]))
    return first, _stir(first ^ halves[:, 1])


def _stir(word: _Longs) -> _Longs:
    """The finaliser of splitmix64."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def joined_values(column: pa.BinaryArray, width: int) -> bytes:
    """Return values of `width` bytes that lie one behind the other in the memory of an Arrow column."""
    first = column.offset * width
    return bytes(column.buffers()[2][first : first + len(column) * width])
