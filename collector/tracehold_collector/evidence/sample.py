"""Draws a sample that anybody can draw again."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

ALGORITHM: Final = "sha256-lowest/1"


def draw(seed: str, size: int, event_ids: Sequence[bytes]) -> list[int]:
    """Return which of the population the seed draws, as places in it, in rising order.

    Each event is given the number SHA-256(seed in UTF-8 || 0x00 || event id); the `size` lowest are the sample. Whoever
    asks chooses the seed, so the server cannot choose the sample; and it draws the same events whatever their order.
    """
    prefix = seed.encode() + b"\x00"
    order = sorted(range(len(event_ids)), key=lambda place: sha256(prefix + event_ids[place]).digest())
    return sorted(order[:size])
