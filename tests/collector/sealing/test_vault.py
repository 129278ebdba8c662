"""Sealing what was said, and opening it again."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold_collector.core.errors import StoreError
from tracehold_collector.sealing.memory_keys import MemoryKeyStore
from tracehold_collector.sealing.vault import DestroyedKeyError, Place, Vault

PLACE = Place(uuid.UUID(int=1), "acme", "run-1")
ELSEWHERE = (
    Place(uuid.UUID(int=2), "acme", "run-1"),
    Place(uuid.UUID(int=1), "acme", "run-2"),
    Place(uuid.UUID(int=1), "beta", "run-1"),
    Place(uuid.UUID(int=1), "acme\0run", "-1"),
)


@given(st.binary(max_size=200))
def test_what_was_sealed_opens_again_and_nobody_can_read_it_without_the_key(text: bytes) -> None:
    vault = Vault(MemoryKeyStore())
    key_id, sealed = vault.seal(PLACE, text)
    assert vault.open(PLACE, key_id, sealed) == text
    assert len(text) < 4 or text not in sealed
    assert vault.seal(PLACE, text)[1] != sealed  # a nonce of its own


@pytest.mark.parametrize("place", ELSEWHERE, ids=["chunk", "run", "tenant", "a tenant that runs into the run"])
def test_sealed_content_that_was_moved_does_not_open(place: Place) -> None:
    vault = Vault(MemoryKeyStore())
    key_id, sealed = vault.seal(PLACE, b"said")
    with pytest.raises(StoreError, match="damaged"):
        vault.open(place, key_id, sealed)


@given(st.integers(0, 8 * (12 + 4 + 16) - 1))
def test_a_flipped_bit_is_noticed(bit: int) -> None:
    vault = Vault(MemoryKeyStore())
    key_id, sealed = vault.seal(PLACE, b"said")
    altered = bytearray(sealed)
    altered[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StoreError, match="damaged"):
        vault.open(PLACE, key_id, bytes(altered))


@pytest.mark.parametrize("sealed", [b"", b"short", bytes(27)])
def test_what_is_no_sealed_content_is_damaged(sealed: bytes) -> None:
    vault = Vault(MemoryKeyStore())
    key_id, _ = vault.seal(PLACE, b"said")
    with pytest.raises(StoreError, match="damaged"):
        vault.open(PLACE, key_id, sealed)


def test_a_run_keeps_its_key_and_each_run_has_its_own() -> None:
    vault = Vault(MemoryKeyStore())
    one, again = vault.seal(PLACE, b"a")[0], vault.seal(PLACE, b"b")[0]
    assert one == again
    assert vault.seal(ELSEWHERE[1], b"a")[0] != one


def test_after_its_key_is_destroyed_a_content_is_erased_and_the_run_gets_a_new_key() -> None:
    vault = Vault(MemoryKeyStore())
    key_id, sealed = vault.seal(PLACE, b"said")
    vault.open(PLACE, key_id, sealed)
    assert vault.destroy([key_id], "e1", 1) == 1
    with pytest.raises(DestroyedKeyError):
        vault.open(PLACE, key_id, sealed)
    renewed, later = vault.seal(PLACE, b"later")
    assert renewed != key_id
    assert vault.open(PLACE, renewed, later) == b"later"
    assert vault.destroy([key_id], "e2", 2) == 0


def test_a_key_that_is_destroyed_while_it_is_fetched_is_not_kept() -> None:
    keys = MemoryKeyStore()
    key_id, sealed = Vault(keys).seal(PLACE, b"said")

    class Racing(MemoryKeyStore):
        def open(self, ids):  # type: ignore[no-untyped-def]
            found = keys.open(ids)
            vault.destroy([key_id], "e1", 1)  # by another thread, after it was read
            keys.destroy([key_id], erasure_id="e1", at_ns=1)
            return found

    vault = Vault(Racing())
    assert vault.open(PLACE, key_id, sealed) == b"said"  # who asked before it was destroyed
    with pytest.raises(DestroyedKeyError):
        vault.open(PLACE, key_id, sealed)
