"""Looks for byte strings in files: whether anything of what was erased is left somewhere.

In the collector this is done by a process of its own. Closing any descriptor of a file ends every lock that this
process has on it (POSIX `fcntl`): a scan of the live store from inside would let a second collector open it.

What is looked for is never told, logged, or put on a command line; findings name it by its number.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from tracehold_collector.core.errors import StoreError

MIN_BYTES: Final = 8
"""A shorter string would be found by chance: one of 8 random bytes is found in a terabyte once in 16 million times."""

_CHUNK: Final = 1 << 20
_WORD: Final = 4
_IN_TEXT: Final = b" etaoinsr_0123456789"
_MOST_FOUND: Final = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One byte string in one file.

    Attributes:
        needle: its place among those asked for.
        path: the file.
        offset: of its first byte there, the first time.
        times: how often it is in that file.
    """

    needle: int
    path: str
    offset: int
    times: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan came to.

    Attributes:
        findings: what was found where.
        files: how many files were read.
        bytes_read: how large they were together.
        unread: files that could not be read; nothing is known about them.
    """

    findings: tuple[Finding, ...]
    files: int
    bytes_read: int
    unread: tuple[str, ...]


def files_under(folder: Path) -> Iterator[Path]:
    """Yield all files in a folder and those below it; symbolic links are not followed."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path


def scan(paths: Iterable[Path], needles: Sequence[bytes]) -> Scanned:
    """Look for byte strings in files, each file read once, a megabyte at a time.

    Not on files that this process has open with locks; see `scan_apart`.

    Args:
        paths: files; one that is gone meanwhile is left out.
        needles: what to look for, each of at least `MIN_BYTES` bytes.

    Raises:
        ValueError: a needle is too short.
    """
    search = _Search(needles)
    findings: list[Finding] = []
    unread: list[str] = []
    files = bytes_read = 0
    for path in paths:
        try:
            found, size = search.in_file(path)
        except FileNotFoundError:
            continue
        except OSError:
            unread.append(str(path))
            continue
        files += 1
        bytes_read += size
        findings += [Finding(needle, str(path), *place) for needle, place in sorted(found.items())]
    return Scanned(tuple(findings), files, bytes_read, tuple(unread))


def scan_apart(paths: Iterable[Path], needles: Sequence[bytes], *, timeout_s: float = 600.0) -> Scanned:
    """Do as `scan`, in a process of its own, so that no lock of this one ends.

    Raises:
        ValueError: a needle is too short.
        StoreError: the process failed or took too long; nothing is known.
    """
    _Search(needles)
    asked = orjson.dumps({"paths": [str(path) for path in paths], "needles": [needle.hex() for needle in needles]})
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tracehold_collector.store.scan"],
            input=asked,
            capture_output=True,
            timeout=timeout_s,
            check=True,
        )
        told: dict[str, Any] = orjson.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, orjson.JSONDecodeError) as error:
        raise StoreError(
            f"the search for what was erased failed ({type(error).__name__}); it will be tried again"
        ) from None
    findings = tuple(Finding(**finding) for finding in told["findings"])
    return Scanned(findings, told["files"], told["bytes_read"], tuple(told["unread"]))


class _Search:
    """Many strings at once, in one pass.

    Two bytes of each tell which places are worth a look, and two more which are worth a comparison. They are chosen
    from all of a string: its beginning is often that of much else, too, such as the header of a compressed frame.
    """

    def __init__(self, needles: Sequence[bytes]) -> None:
        short = [number for number, needle in enumerate(needles) if len(needle) < MIN_BYTES]
        if short:
            raise ValueError(f"{len(short)} of the byte strings to look for have fewer than {MIN_BYTES} bytes")
        self._needles = needles
        self._longest = max(map(len, needles), default=0)
        self._by_word: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._wanted = np.zeros(1 << 16, dtype=np.bool_)
        for number, needle in enumerate(needles):
            place = _rarest_word(needle)
            word = int.from_bytes(needle[place : place + _WORD], "little")
            self._by_word[word].append((number, place))
            self._wanted[word & 0xFFFF] = True
        self._words = np.array(sorted(self._by_word), dtype=np.uint32)

    def in_file(self, path: Path) -> tuple[dict[int, tuple[int, int]], int]:
        """Return where each string is first and how often, by its number, and the size of the file."""
        found: dict[int, tuple[int, int]] = {}
        size = 0
        kept = b""
        with path.open("rb", buffering=0) as file:
            while read := file.read(_CHUNK):
                chunk = kept + read
                start = size - len(kept)
                size += len(read)
                # What ends in the part that was kept was counted before.
                for number, offset in self._in_chunk(chunk, len(kept)):
                    first, times = found.get(number, (start + offset, 0))
                    found[number] = (first, min(times + 1, _MOST_FOUND))
                kept = chunk[-(self._longest - 1) :] if self._longest > 1 else b""
        return found, size

    def _in_chunk(self, chunk: bytes, known: int) -> Iterator[tuple[int, int]]:
        if len(chunk) < MIN_BYTES or not len(self._words):
            return
        for place, word in self._candidates(chunk):
            for number, before in self._by_word[word]:
                needle = self._needles[number]
                offset = place - before
                if offset >= 0 and offset + len(needle) > known and chunk.startswith(needle, offset):
                    yield number, offset

    def _candidates(self, chunk: bytes) -> list[tuple[int, int]]:
        """Return the places where one of the words stands, and which."""
        data: npt.NDArray[np.uint8] = np.frombuffer(chunk, dtype=np.uint8)
        odd_and_even = [
            np.flatnonzero(self._wanted[np.frombuffer(chunk, "<u2", (len(chunk) - first) // 2, first)]) * 2 + first
            for first in (0, 1)
        ]
        places = np.sort(np.concatenate(odd_and_even))
        places = places[places <= len(chunk) - _WORD]
        words = sum(data[places + byte].astype(np.uint32) << np.uint32(8 * byte) for byte in range(_WORD))
        at = np.minimum(np.searchsorted(self._words, words), len(self._words) - 1)
        hits = np.flatnonzero(self._words[at] == words)
        return list(zip(places[hits].tolist(), self._words[at[hits]].tolist(), strict=True))


def _rarest_word(needle: bytes) -> int:
    """Return the place of four bytes that begin with two which are unlikely in a database's file."""

    def common(place: int) -> tuple[int, int]:
        first, second = needle[place : place + 2]
        score = sum(4 if byte in {0, 0xFF} else 2 if byte in _IN_TEXT else byte < 0x80 for byte in (first, second))  # noqa: PLR2004
        return score + 3 * (first == second), abs(place - len(needle) // 2)

    return min(range(len(needle) - _WORD + 1), key=common)


def main() -> None:
    """Answer one `scan_apart`."""
    asked = orjson.loads(sys.stdin.buffer.read())
    done = scan([Path(path) for path in asked["paths"]], [bytes.fromhex(needle) for needle in asked["needles"]])
    sys.stdout.buffer.write(orjson.dumps(done))


if __name__ == "__main__":
    main()
