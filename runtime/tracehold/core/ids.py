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
_VARIANT = 1 << 63
_LOW_62 = (1 << 62) - 1

_random = random.Random()  # noqa: S311 - uniqueness, not secrecy

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def new_event_id(now_ns: int) -> str:
    """Return a UUIDv7 (RFC 9562 section 5.7) as 32 lower-case hex digits; ids sort by `now_ns`.

    Args:
        now_ns: UTC nanoseconds since the epoch; its millisecond part becomes the id's first 48 bits.
    """
    return _uuid7(now_ns, _random.getrandbits(74))


def derived_event_id(now_ns: int, *parts: str) -> str:
    """Return an event id that depends on nothing but its arguments: recording the same fact twice counts once.

    Args:
        now_ns: UTC nanoseconds of the fact; ids sort by it, as those of `new_event_id` do.
        parts: what tells the fact from others of that moment.
    """
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    digest = int.from_bytes(hashlib.blake2b(text, digest_size=10, person=b"tracehold-event").digest(), "big")
    return _uuid7(now_ns, digest & ((1 << 74) - 1))


def new_span_id() -> str:
    """Return a random W3C span id: 16 lower-case hex digits, never all zero."""
    return f"{_random.getrandbits(64) | 1:016x}"


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
    clock = (now_ns // NS_PER_MS) & 0xFFFFFFFFFFFF
    return f"{clock:012x}7{bits >> 62:03x}{_VARIANT | bits & _LOW_62:016x}"
