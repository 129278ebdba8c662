"""Payloads outside the log: kept once, bound to their stream, given away and restored."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import hashlib
import multiprocessing
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import BlobIntegrityError, SchemaError
from tracehold.events.blobs import (
    CLAIM,
    BlobStore,
    FileBlobStore,
    InMemoryBlobStore,
    bound_to,
    claim,
    hydrate,
    salted,
    unsalted,
)
from tracehold.events.event import BlobRef, Event

BIG = {"text": "x" * 1000}

payloads = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@pytest.fixture(params=["memory", "files"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """Every blob store there is."""
    return InMemoryBlobStore() if request.param == "memory" else FileBlobStore(tmp_path / "blobs")


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def test_what_is_put_comes_back(blobs: BlobStore) -> None:  # BLB-01
    async def main() -> None:
        for data in (b"", b"hello", bytes(range(256)) * 1000):
            ref = await blobs.put(data, "text/plain")
            assert (ref.size, ref.media_type) == (len(data), "text/plain")
            assert await blobs.exists(ref)
            assert await blobs.get(ref) == data

    asyncio.run(main())


def test_blobs_are_addressed_by_their_content_and_kept_once(blobs: BlobStore) -> None:  # BLB-01
    async def main() -> None:
        first, again, other = await blobs.put(b"a"), await blobs.put(bytearray(b"a")), await blobs.put(b"b")
        assert first == again
        assert first.sha256 == hashlib.sha256(b"a").hexdigest()
        assert first.uri != other.uri
        await blobs.delete(again)
        assert not await blobs.exists(first)

    asyncio.run(main())


def test_a_missing_blob_is_a_file_not_found_error(blobs: BlobStore) -> None:  # BLB-01
    async def main() -> None:
        ref = await blobs.put(b"a")
        await blobs.delete(ref)
        await blobs.delete(ref)  # again: nothing to do
        with pytest.raises(FileNotFoundError, match=ref.sha256):
            await blobs.get(ref)
        assert not await blobs.exists(ref)

    asyncio.run(main())


@pytest.mark.parametrize(
    "change",
    [
        {"uri": "blob:../../etc/passwd"},
        {"uri": "blob:plain/../../../etc/passwd", "sha256": "../../../etc/passwd"},
        {"sha256": "0" * 64},
        {"uri": "blob:plain/" + "0" * 64},
        {"uri": "file:///etc/passwd", "sha256": "/etc/passwd"},
        {"uri": ""},
        {"uri": None},
        {"uri": "blob:" + "G" * 32 + "/" + "0" * 64, "sha256": "0" * 64},
    ],
)
def test_a_ref_of_a_hostile_log_leads_nowhere(blobs: BlobStore, change: dict[str, Any]) -> None:  # BLB-01
    async def main() -> None:
        ref = await blobs.put(b"a")
        hostile = dataclasses.replace(ref, **change)
        assert not await blobs.exists(hostile)
        with pytest.raises(FileNotFoundError):
            await blobs.get(hostile)
        await blobs.delete(hostile)
        assert await blobs.exists(ref)

    asyncio.run(main())


def test_a_ref_of_another_size_is_an_integrity_error(blobs: BlobStore) -> None:  # BLB-01
    async def main() -> None:
        ref = await blobs.put(b"abc")
        with pytest.raises(BlobIntegrityError, match=ref.sha256):
            await blobs.get(dataclasses.replace(ref, size=2))

    asyncio.run(main())


@pytest.mark.parametrize(("data", "media_type"), [("text", "a/b"), (5, "a/b"), (b"", 5)])
def test_what_is_no_bytes_or_no_media_type_is_refused(blobs: BlobStore, data: Any, media_type: Any) -> None:
    with pytest.raises(TypeError):
        asyncio.run(blobs.put(data, media_type))
    with pytest.raises(ValueError, match="media type"):
        asyncio.run(blobs.put(b"", ""))


@pytest.mark.parametrize("changed", [b"xbc", b"abcd", b""])
def test_changed_bytes_are_an_integrity_error_and_putting_them_again_repairs_them(
    tmp_path: Path, changed: bytes
) -> None:
    # BLB-01
    async def main() -> None:
        blobs = FileBlobStore(tmp_path)
        ref = await blobs.put(b"abc")
        [path] = files(tmp_path)
        path.write_bytes(changed)
        with pytest.raises(BlobIntegrityError, match=ref.sha256):
            await blobs.get(ref)
        await blobs.put(b"abc")
        assert await blobs.get(ref) == b"abc"

    asyncio.run(main())


def test_files_are_the_owner_s_only_and_nothing_else_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        blobs = FileBlobStore(tmp_path / "a" / "b")
        ref = await blobs.put(salted("run", b"abc"))
        [path] = files(tmp_path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        await blobs.delete(ref)
        assert files(tmp_path) == []
        assert not path.parent.exists()

    asyncio.run(main())


def test_another_store_on_the_same_folder_finds_what_was_put(tmp_path: Path) -> None:  # BLB-01
    ref = asyncio.run(FileBlobStore(tmp_path).put(b"abc"))
    assert asyncio.run(FileBlobStore(str(tmp_path)).get(ref)) == b"abc"


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blobs = FileBlobStore("blobs")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    asyncio.run(blobs.put(b"abc"))
    assert len(files(tmp_path / "blobs")) == 1


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="no way to tell a link here")
def test_a_link_in_a_blob_s_place_is_not_followed(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "elsewhere").write_bytes(b"abc")
        blobs = FileBlobStore(tmp_path / "blobs")
        ref = await blobs.put(b"abc")
        [path] = files(tmp_path / "blobs")
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere")
        assert not await blobs.exists(ref)
        with pytest.raises(BlobIntegrityError):
            await blobs.get(ref)
        await blobs.delete(ref)
        assert (tmp_path / "elsewhere").read_bytes() == b"abc"

    asyncio.run(main())


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # BLB-01
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    blobs = FileBlobStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space left"):
            asyncio.run(blobs.put(b"abc"))
    assert files(tmp_path) == []


def test_what_a_killed_writer_left_goes_with_its_blob_and_after_an_hour(tmp_path: Path) -> None:
    async def main() -> None:
        blobs = FileBlobStore(tmp_path)
        ref = await blobs.put(b"abc")
        [path] = files(tmp_path)
        incoming = tmp_path / "incoming"
        (incoming / f"plain.{ref.sha256}.0123").write_bytes(b"ab")
        old, new = incoming / "plain.0.old", incoming / "plain.0.new"
        old.write_bytes(b"x")
        new.write_bytes(b"y")
        os.utime(old, (time.time() - 7200,) * 2)
        await blobs.delete(ref)
        assert files(tmp_path) == [new, old]
        await FileBlobStore(tmp_path).put(b"abc")
        assert files(tmp_path) == [new, path]

    asyncio.run(main())


def test_many_at_once_put_and_delete_without_a_trace_of_one_another(tmp_path: Path) -> None:  # BLB-01
    async def main() -> None:
        blobs = FileBlobStore(tmp_path)

        async def churn(number: int) -> None:
            data = salted("run", str(number % 3).encode())
            for _ in range(20):
                ref = await blobs.put(data)
                await blobs.delete(ref)

        await asyncio.gather(*(churn(number) for number in range(8)))
        assert files(tmp_path) == []

    asyncio.run(main())


def _put_same(root: str) -> None:
    asyncio.run(FileBlobStore(root).put(b"x" * 100_000))


def test_several_processes_put_the_same_blob(tmp_path: Path) -> None:  # BLB-01
    processes = [
        multiprocessing.get_context("spawn").Process(target=_put_same, args=(str(tmp_path),)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(files(tmp_path)) == 1


def test_identical_payloads_of_two_streams_are_different_blobs(blobs: BlobStore) -> None:  # BLB-04
    async def main() -> None:
        mine, yours = await blobs.put(salted("run-1", b"same")), await blobs.put(salted("run-2", b"same"))
        assert mine.sha256 != yours.sha256
        await blobs.delete(mine)
        assert unsalted("run-2", await blobs.get(yours)) == b"same"

    asyncio.run(main())


@given(st.text(), st.text(), st.binary(max_size=50))
def test_a_salted_payload_comes_back_in_its_stream_only(stream: str, other: str, data: bytes) -> None:  # BLB-04
    assert unsalted(stream, salted(stream, data)) == data
    if stream != other:
        with pytest.raises(BlobIntegrityError, match="not bound"):
            unsalted(other, salted(stream, data))
    with pytest.raises(BlobIntegrityError, match="not bound"):
        unsalted(stream, data)


def test_a_store_lists_what_it_holds_of_a_stream(tmp_path: Path) -> None:  # BLB-04
    async def main() -> None:
        for blobs in (InMemoryBlobStore(), FileBlobStore(tmp_path)):
            mine = {(await blobs.put(salted("run-1", data))).uri for data in (b"a", b"b")}
            await blobs.put(salted("run-2", b"a"))
            await blobs.put(b"a")
            found = await blobs.of_stream("run-1")
            assert {ref.uri for ref in found} == mine
            for ref in found:
                assert unsalted("run-1", await blobs.get(ref)) in (b"a", b"b")
                await blobs.delete(ref)
            assert await blobs.of_stream("run-1") == []
            assert len(await blobs.of_stream("run-2")) == 1

    asyncio.run(main())


def test_a_ref_says_whose_it_is() -> None:  # BLB-04
    async def main() -> None:
        blobs = InMemoryBlobStore()
        ref = await blobs.put(salted("run-1", b"a"))
        assert bound_to(ref, "run-1") is True
        assert bound_to(ref, "run-2") is False
        assert bound_to(await blobs.put(b"a"), "run-1") is None
        assert bound_to(BlobRef("s3://bucket/key", "0" * 64, 1), "run-1") is None

    asyncio.run(main())


def test_a_payload_beyond_the_threshold_is_claimed_and_restored(blobs: BlobStore) -> None:  # BLB-02, BLB-03
    async def main() -> None:
        event = Event(type="x", stream="run", data=BIG)
        size = len(b'{"text":""}') + 1000
        assert await claim(event, blobs, size) is event
        claimed = await claim(event, blobs, size - 1)
        assert claimed.data.keys() == {CLAIM}
        assert (len(claimed.blobs), claimed.blobs[0].media_type) == (1, "application/json")
        assert await hydrate(claimed, blobs) == event
        assert claimed == event.with_(data=claimed.data, blobs=claimed.blobs)

    asyncio.run(main())


@given(payloads)
def test_any_payload_comes_back_exactly(data: dict[str, Any]) -> None:  # BLB-02
    async def main() -> None:
        blobs, event = InMemoryBlobStore(), Event(type="x", stream="run", data=data)
        assert await hydrate(await claim(event, blobs, -1), blobs) == event

    asyncio.run(main())


@pytest.mark.parametrize("value", ["\ud800", 1 << 100, -0.0, 1e308, "\x00", {"": {"": []}}])
def test_what_json_writers_stumble_over_comes_back_exactly(value: Any) -> None:  # BLB-02
    async def main() -> None:
        blobs, event = InMemoryBlobStore(), Event(type="x", stream="run", data={"value": value, "more": "x" * 50})
        back = await hydrate(await claim(event, blobs, 10), blobs)
        assert repr(back.data) == repr(event.data)

    asyncio.run(main())


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, b"x"])
def test_what_json_cannot_hold_is_refused_and_stored_nowhere(tmp_path: Path, value: Any) -> None:  # BLB-02
    with pytest.raises(SchemaError, match=r"data\.value"):
        asyncio.run(claim(Event(type="x", data={"value": value}), FileBlobStore(tmp_path), 0))
    assert files(tmp_path) == []


def test_the_completion_event_is_never_claimed(blobs: BlobStore) -> None:  # BLB-02
    event = Event(type="aaa.run.completed", data={"kind": "success", "value": "x" * 100_000})
    assert asyncio.run(claim(event, blobs, 10)) is event


def test_the_stub_keeps_what_accounting_and_routing_need(blobs: BlobStore) -> None:  # BLB-03
    kept = {
        "usage": {"total_tokens": 12, "prompt_tokens": 5},
        "cost": 0.25,
        "tag": "main",
        "call_id": "c-1",
        "name": "search",
        "state_id": "s-1",
    }
    claimed = asyncio.run(claim(Event(type="x", data=BIG | kept | {"other": 1}), blobs, 10))
    assert claimed.data == kept | {CLAIM: claimed.blobs[0].sha256}


@pytest.mark.parametrize(
    "kept",
    [
        {"algo": "loop", "parent": None, "run_tag": "t", "budget": {"max_steps": 5, "max_cost": None}},
        {"child_run_id": "r-2", "tag": "t", "ledger": {"steps": 1, "tokens": 2, "cost": 0.5}},
        {"kind": "deadline"},
    ],
)
def test_the_stub_keeps_what_a_run_is_folded_from(blobs: BlobStore, kept: dict[str, Any]) -> None:
    # BLB-03, ENG-04: an engine that adopts a run reads the log, not the blobs
    claimed = asyncio.run(claim(Event(type="x", data=kept | {"input": "x" * 1000}), blobs, 10))
    assert claimed.data == kept | {CLAIM: claimed.blobs[0].sha256}


def test_a_stub_stays_small_and_still_counts(blobs: BlobStore) -> None:  # BLB-03
    usage = {"total_tokens": 7, "details": "x" * 5000, "prompt_tokens": 3}
    data = {"usage": usage, "name": "n" * 5000, "tag": ["t"] * 5000, "cost": 0.5}
    claimed = asyncio.run(claim(Event(type="x", data=data), blobs, 10))
    assert claimed.data == {
        CLAIM: claimed.blobs[0].sha256,
        "usage": {"total_tokens": 7, "prompt_tokens": 3},
        "cost": 0.5,
    }


def test_claiming_again_changes_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:  # BLB-02
    async def main() -> None:
        blobs, event = FileBlobStore(tmp_path), Event(type="x", stream="run", data=BIG)
        claimed = await claim(event, blobs, 10)
        assert await claim(claimed, blobs, 0) is claimed
        assert await claim(event, blobs, 10) == claimed  # a repeated attempt
        assert len(files(tmp_path)) == 1

    asyncio.run(main())


def test_an_event_s_own_blobs_stay(blobs: BlobStore) -> None:  # BLB-02
    async def main() -> None:
        own = await blobs.put(b"picture", "image/png")
        event = Event(type="x", stream="run", data=BIG, blobs=[own])
        claimed = await claim(event, blobs, 10)
        assert claimed.blobs[0] == own
        assert (await hydrate(claimed, blobs)).blobs == (own,)
        plain = Event(type="x", data={"small": 1}, blobs=[own])
        assert await hydrate(plain, blobs) is plain

    asyncio.run(main())


def test_a_payload_that_merely_looks_like_a_stub_is_left_alone(blobs: BlobStore) -> None:  # BLB-02
    async def main() -> None:
        other = await blobs.put(salted("run", b"{}"))
        for data in ({CLAIM: "0" * 64}, {CLAIM: other.sha256}, {CLAIM: ["x"]}, {CLAIM: None}):
            event = Event(type="x", stream="run", data=data)
            assert await hydrate(event, blobs) is event
        looks = Event(type="x", stream="run", data={CLAIM: "mine", "text": "x" * 100})
        assert await hydrate(await claim(looks, blobs, 10), blobs) == looks

    asyncio.run(main())


def test_another_stream_s_payload_cannot_be_read_through_an_event(blobs: BlobStore) -> None:  # BLB-04
    async def main() -> None:
        theirs = await claim(Event(type="x", stream="acme/r", data=BIG), blobs, 10)
        thief = Event(type="x", stream="evil/r", data=theirs.data, blobs=theirs.blobs)
        with pytest.raises(BlobIntegrityError, match="not bound"):
            await hydrate(thief, blobs)

    asyncio.run(main())


def test_a_payload_that_is_gone_is_a_file_not_found_error(blobs: BlobStore) -> None:  # BLB-01
    async def main() -> None:
        claimed = await claim(Event(type="x", data=BIG), blobs, 10)
        await blobs.delete(claimed.blobs[0])
        with pytest.raises(FileNotFoundError):
            await hydrate(claimed, blobs)

    asyncio.run(main())


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff"])
def test_a_blob_that_holds_no_payload_is_an_integrity_error(blobs: BlobStore, content: bytes) -> None:  # BLB-01
    async def main() -> None:
        ref = await blobs.put(salted("run", content))
        event = Event(type="x", stream="run", data={CLAIM: ref.sha256}, blobs=[ref])
        with pytest.raises(BlobIntegrityError, match="no payload"):
            await hydrate(event, blobs)

    asyncio.run(main())
