"""Identifiers: event ids that sort by time, and trace and span ids that any process derives alike.

A run's trace id and root span id are digests of its run id, so that a run which is suspended here and
resumed in another process keeps one span tree without any state travelling with it.
"""

from __future__ import annotations

import hashlib
import os
import random
from functools import lru_cache

from tracehold.core.clock import NS_PER_MS

# A generator of our own: a program that calls random.seed() must not make our ids repeat. random.Random is
# seeded from the operating system here and again in every forked child.
_LOW_62 = (1 << 62) - 1
_RANDOM_BITS = 76
_FIXED = 7 << 76 | 2 << 62
_FREE = (1 << 76) - 1 & ~(3 << 62)

_random = random.Random()  # noqa: S311 - uniqueness, not secrecy

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_event_id(now_ns: int) -> str:
    """Return a UUIDv7 (RFC 9562 section 5.7) as 32 lower-case hex digits; ids sort by `now_ns`.

    Args:
        now_ns: UTC nanoseconds since the epoch; its millisecond part becomes the id's first 48 bits.
    """
    return _uuid7(now_ns, _random.getrandbits(_RANDOM_BITS))


def derived_event_id(now_ns: int, *parts: str) -> str:
    """Return an event id that depends on nothing but its arguments: recording the same fact twice counts once.

    Args:
        now_ns: UTC nanoseconds of the fact; ids sort by it, as those of `new_event_id` do.
        parts: what tells the fact from others of that moment.
    """
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    digest = int.from_bytes(hashlib.blake2b(text, digest_size=10, person=b"tracehold-event").digest(), "big")
    bits = digest & ((1 << 74) - 1)
    return _uuid7(now_ns, bits >> 62 << 64 | bits & _LOW_62)


def new_span_id() -> str:
    """Return a random W3C span id: 16 lower-case hex digits, never all zero."""
    return (_random.getrandbits(64) | 1).to_bytes(8, "big").hex()


@lru_cache(maxsize=1024)
def run_trace_id(run_id: str) -> str:
    """Return the W3C trace id of a run: 32 hex digits, the same in every process."""
    return hashlib.blake2b(
        run_id.encode("utf-8", "surrogatepass"), digest_size=16, person=b"tracehold-trace"
    ).hexdigest()


@lru_cache(maxsize=1024)
def run_root_span_id(run_id: str) -> str:
    """Return the span id of a run's root: 16 hex digits, the same in every process."""
    return hashlib.blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=8, person=b"tracehold-root").hexdigest()


def _uuid7(now_ns: int, bits: int) -> str:
    """Place 76 bits around version and variant. `int.to_bytes` and `hex` take a quarter of the time of an f-string."""
    clock = (now_ns // NS_PER_MS) & 0xFFFFFFFFFFFF
    return (clock << 80 | bits & _FREE | _FIXED).to_bytes(16, "big").hex()
