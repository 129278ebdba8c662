"""Which event ids may the store already hold?

A primary key on the big table would halve ingest speed. Instead a scalable Bloom filter in memory (Almeida et al.,
2007) says "certainly new" for nearly every id; only the few it is unsure about are looked up in the table. At one in a
thousand false alarms it costs about 2 bytes an event, and it is rebuilt from the table when the store opens.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

_HASHES: Final = 10
_BITS_PER_ID: Final = 15
_FIRST_CAPACITY: Final = 1 << 20

_Words = npt.NDArray[np.uint64]


class SeenIds:
    """A set of 16-byte ids that never forgets one and rarely claims one it does not hold.

    Used by the one writer thread only.
    """

    def __init__(self) -> None:
        self._filters = [_Filter(_FIRST_CAPACITY)]

    def maybe(self, ids: bytes) -> list[int]:
        """Return the places of the ids that may be in the set; the others certainly are not.

        Args:
            ids: 16 bytes each, one behind the other.
        """
        words = _words(ids)
        found = np.zeros(len(words), dtype=np.bool_)
        for part in self._filters:
            found |= part.maybe(words)
        places: list[int] = found.nonzero()[0].tolist()
        return places

    @staticmethod
    def all_differ(ids: bytes) -> bool:
        """Whether no two of the ids are the same; `False` may also be a coincidence."""
        words = _words(ids)
        return len(np.unique(_stir(words[:, 0]) ^ words[:, 1])) == len(words)

    def add(self, ids: bytes) -> None:
        """Put ids into the set, 16 bytes each, one behind the other."""
        words = _words(ids)
        if self._filters[-1].count + len(words) > self._filters[-1].capacity:
            self._filters.append(_Filter(max(self._filters[-1].capacity * 4, len(words))))
        self._filters[-1].add(words)


class _Filter:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.count = 0
        size = 1 << (capacity * _BITS_PER_ID - 1).bit_length()
        self._mask = np.uint64(size - 1)
        self.bits = np.zeros(size >> 3, dtype=np.uint8)

    def add(self, words: _Words) -> None:
        places = self._places(words).ravel()
        # Two ids of one call may share a byte: bitwise_or.at applies every one of them.
        np.bitwise_or.at(self.bits, places >> np.uint64(3), _bit(places))
        self.count += len(words)

    def maybe(self, words: _Words) -> npt.NDArray[np.bool_]:
        places = self._places(words)
        hit = (self.bits[places >> np.uint64(3)] & _bit(places)) != 0
        result: npt.NDArray[np.bool_] = hit.all(axis=0)
        return result

    def _places(self, words: _Words) -> _Words:
        """Kirsch and Mitzenmacher's double hashing over the id's halves, stirred since UUIDv7's first is a clock."""
        first = _stir(words[:, 1])
        second = _stir(words[:, 0] ^ words[:, 1]) | np.uint64(1)
        steps = np.arange(_HASHES, dtype=np.uint64)[:, None]
        places: _Words = (first + steps * second) & self._mask
        return places


def _words(ids: bytes) -> _Words:
    return np.frombuffer(ids, dtype=np.uint64).reshape(-1, 2)


def _bit(places: _Words) -> npt.NDArray[np.uint8]:
    return np.left_shift(np.uint8(1), (places & np.uint64(7)).astype(np.uint8))


def _stir(word: _Words) -> _Words:
    """The finaliser of splitmix64."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
