"""Recaps of earlier turns, so that a conversation that grows is not summarized from its start each time (CTX-05)."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from tracehold.core import jsontext
from tracehold.core.message import Message

MAX_RECAPS: Final = 128


class RecapCache:
    """The recaps used last, each under a digest of exactly the messages it stands for; safe across threads.

    A recap is found only by somebody who holds the same messages, so that one cache can serve many conversations.

    Args:
        max_recaps: how many to keep.
    """

    def __init__(self, max_recaps: int = MAX_RECAPS) -> None:
        self._max_recaps = max_recaps
        self._recaps: OrderedDict[bytes, str] = OrderedDict()  # guarded by _lock
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many recaps are kept."""
        return len(self._recaps)

    def longest(self, digests: Sequence[bytes]) -> tuple[int, str]:
        """Return how many of the leading messages a kept recap stands for, and the recap; `(0, "")` for none."""
        with self._lock:
            for count in range(len(digests), 0, -1):
                recap = self._recaps.get(digests[count - 1])
                if recap is not None:
                    self._recaps.move_to_end(digests[count - 1])
                    return count, recap
        return 0, ""

    def put(self, digest: bytes, recap: str) -> None:
        """Keep a recap; the one not used for longest goes when there are too many."""
        with self._lock:
            self._recaps[digest] = recap
            self._recaps.move_to_end(digest)
            while len(self._recaps) > self._max_recaps:
                self._recaps.popitem(last=False)

    def clear(self) -> None:
        """Forget every recap."""
        with self._lock:
            self._recaps.clear()


def digests(messages: Iterable[Message]) -> list[bytes]:
    """Return for each message a digest of it and all before it."""
    chain: list[bytes] = []
    last = b""
    for message in messages:
        last = hashlib.sha256(last + jsontext.dumps([message.role, message.content])).digest()
        chain.append(last)
    return chain
