"""What every event store does: one suite for all of them (STO, ERA-04)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.event_stores import STORES, completed, fact, facts, ids, on, run, seqs, started, take
from tracehold.core.errors import ConcurrencyError, SchemaError, StoreError
from tracehold.events import BlobRef, Event, EventStore, RunInfo, StoredSnapshot
from tracehold.events.memory_store import InMemoryEventStore

ERASED = {"$erased": True}


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> EventStore:
    """An empty store of each kind; `on` closes it."""
    made: EventStore = STORES[request.param](tmp_path)
    return made


# --- appending ---


# STO-01
def test_an_append_numbers_its_events_from_zero_in_each_stream(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        assert seqs(await store.append("a", facts("1", "2"))) == [0, 1]
        assert seqs(await store.append("b", facts("1"))) == [0]
        assert seqs(await store.append("a", facts("3"))) == [2]
        assert [(event.stream, event.seq, event.id) for event in await store.read("a")] == [
            ("a", 0, "1"),
            ("a", 1, "2"),
            ("a", 2, "3"),
        ]

    on(store, act)


# STO-01
def test_an_append_with_one_bad_event_stores_none(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        with pytest.raises(SchemaError):
            await store.append("a", [fact("1"), fact("2", {"x": float("nan")}), fact("3")])
        assert await store.read("a") == []
        assert await store.last_seq("a") == -1

    on(store, act)


# STO-01
def test_one_failing_append_does_not_fail_those_beside_it(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("s", facts("0"))
        calls = [store.append("s", facts(f"x{n}"), 700 if n % 3 else -2) for n in range(30)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(result, ConcurrencyError) for result in results] == [bool(n % 3) for n in range(30)]
        assert ids(await store.read("s")) == ["0"] + [f"x{n}" for n in range(0, 30, 3)]

    on(store, act)


# STO-02
def test_a_wrong_expected_seq_stores_nothing(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("1", "2"), -1)
        for wrong in (-1, 0, 2):
            with pytest.raises(ConcurrencyError, match="ends with event 1"):
                await store.append("a", facts("3"), wrong)
        with pytest.raises(ConcurrencyError):
            await store.append("new", facts("1"), 0)
        assert ids(await store.read("a")) == ["1", "2"]
        assert await store.read("new") == []
        await store.append("a", facts("3"), 1)

    on(store, act)


# STO-02
def test_of_racing_writers_exactly_one_wins(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        for round_ in range(10):
            calls = [store.append("a", facts(f"{round_}-{n}"), round_ - 1) for n in range(8)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sorted(isinstance(result, ConcurrencyError) for result in results) == [False] + [True] * 7
        assert seqs(await store.read("a")) == list(range(10))

    on(store, act)


# STO-02
def test_writers_of_several_threads_race_and_exactly_one_wins(store: EventStore) -> None:
    won: list[str] = []
    barrier = threading.Barrier(4)

    def write(name: str) -> None:
        async def main() -> None:
            for n in range(20):
                barrier.wait()
                try:
                    await store.append("a", facts(f"{name}-{n}"), n - 1)
                    won.append(f"{name}-{n}")
                except ConcurrencyError:
                    pass
                barrier.wait()

        asyncio.run(main())

    threads = [threading.Thread(target=write, args=(str(name),)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = on(store, lambda store: store.read("a"))
    assert ids(stored) == won
    assert seqs(stored) == list(range(20))


# STO-03, EVT-04
def test_an_id_that_is_there_comes_back_as_stored_and_the_rest_is_stored(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        first = fact("1", {"v": "first"}, meta={"m": 1}, subject="s")
        await store.append("a", [first])
        returned = await store.append("a", [fact("2"), fact("1", {"v": "second"}), fact("3")])
        assert [(event.id, event.seq, event.dup) for event in returned] == [
            ("2", 1, False),
            ("1", 0, True),
            ("3", 2, False),
        ]
        assert returned[1] == first.with_(stream="a", seq=0, dup=True)
        assert [(event.id, event.dup) for event in await store.read("a")] == [("1", False), ("2", False), ("3", False)]

    on(store, act)


# STO-03
def test_an_id_twice_in_one_append_is_stored_once(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        returned = await store.append("a", [fact("1", {"v": 1}), fact("1", {"v": 2}), fact("2")])
        assert [(event.seq, event.dup, event.data.get("v")) for event in returned] == [
            (0, False, 1),
            (0, True, 1),
            (1, False, None),
        ]

    on(store, act)


# STO-03
def test_an_append_of_nothing_but_known_ids_stores_nothing(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("1", "2"))
        assert [event.dup for event in await store.append("a", facts("2", "1"))] == [True, True]
        assert await store.last_seq("a") == 1

    on(store, act)


# STO-03
def test_concurrent_appends_of_one_id_store_it_once(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        returned = await asyncio.gather(*(store.append("a", [fact("1", {"n": n})]) for n in range(20)))
        assert sorted(event.dup for (event,) in returned) == [False] + [True] * 19
        assert len({event.data["n"] for (event,) in returned}) <= 2  # the winner's own, and what is stored: the same
        assert len(await store.read("a")) == 1

    on(store, act)


# STO-03
def test_one_id_in_two_streams_is_two_events(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("1"))
        assert [event.dup for event in await store.append("b", facts("1"))] == [False]

    on(store, act)


# STO-01
def test_an_append_of_no_events_makes_no_stream(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        assert await store.append("a", []) == []
        with pytest.raises(ConcurrencyError):
            await store.append("a", [], 3)
        assert await store.last_seq("a") == -1

    on(store, act)


# EVT-04
def test_the_dup_flag_is_never_stored(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        (returned,) = await store.append("a", [fact("1", dup=True)])
        assert not returned.dup
        assert not (await store.read("a"))[0].dup

    on(store, act)


# EVT-01
def test_changing_a_dict_afterwards_does_not_change_the_log(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        data: dict[str, Any] = {"deep": {"list": [1]}}
        meta: dict[str, Any] = {"user": "ann"}
        (returned,) = await store.append("a", [fact("1", data, meta=meta)])
        data["deep"]["list"].append(2)
        returned.data["more"] = True
        meta["user"] = "bob"
        (read,) = await store.read("a")
        read.data["deep"]["list"].append(3)
        (dup,) = await store.append("a", facts("1"))
        dup.data["deep"]["list"].append(4)
        (again,) = await store.read("a")
        assert again.data == {"deep": {"list": [1]}}
        assert again.meta == {"user": "ann"}

    on(store, act)


# --- reading ---


# STO-04
def test_reading_begins_and_ends_where_told(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts(*"01234"))
        assert ids(await store.read("a", 3)) == ["3", "4"]
        assert ids(await store.read("a", 1, 2)) == ["1", "2"]
        assert ids(await store.read("a", limit=0)) == []
        assert ids(await store.read("a", -5, 1)) == ["0"]
        assert await store.read("a", 5) == []
        assert await store.read("a", 2**70, 2**70) == []
        with pytest.raises(ValueError, match="limit"):
            await store.read("a", limit=-1)

    on(store, act)


# STO-04, STO-06
def test_an_unknown_stream_reads_as_empty(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        assert await store.read("nobody") == []
        assert await store.last_seq("nobody") == -1
        assert not await store.has("nobody", "1")

    on(store, act)


# STO-06
def test_last_seq_and_has_are_exact_and_per_stream(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("One", "x%"))
        await store.append("b", facts("two"))
        assert (await store.last_seq("a"), await store.last_seq("b")) == (1, 0)
        asked = [
            ("a", "One"),
            ("a", "one"),
            ("a", "x"),
            ("a", "x%"),
            ("a", "two"),
            ("b", "two"),
            ("b", "One"),
            ("a", ""),
        ]
        assert [await store.has(*one) for one in asked] == [True, False, False, True, False, True, False, False]

    on(store, act)


# STO-07
def test_the_run_index_lists_runs_with_their_ends(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("open", [started("open"), fact("x")])
        await store.append("no-run", [fact("x"), completed("no-run")])
        await store.append("done", [fact("before"), started("done")])
        await store.append("done", [completed("done"), fact("late")])
        index = {info.stream: info for info in await store.run_index()}
        assert set(index) == {"open", "done"}
        assert index["open"] == RunInfo("open", (await store.read("open"))[0], None)
        assert index["done"] == RunInfo("done", *(await store.read("done"))[1:3])
        assert [info.stream for info in await store.run_index(open_only=True)] == ["open"]

    on(store, act)


# STO-07
def test_the_run_index_keeps_up_with_scrubs_and_deletions(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        for name in ("a", "b"):
            await store.append(name, [started(name), completed(name)])
        await store.scrub("a")
        await store.delete_stream("b")
        await store.append("b", [started("b")])
        index = {info.stream: info for info in await store.run_index()}
        assert index["a"].completed is not None
        assert index["a"].completed.data == ERASED | {"kind": "success"}
        assert index["b"].completed is None

    on(store, act)


# --- following ---


# STO-05
def test_a_subscription_replays_and_then_follows(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("0", "1", "2"))
        following = store.subscribe("a", 1)
        assert ids(await take(following, 2)) == ["1", "2"]
        waiting = asyncio.ensure_future(take(following, 3))
        await store.append("other", facts("x"))
        await store.append("a", facts("3", "4"))
        await store.append("a", facts("5"))
        assert ids(await waiting) == ["3", "4", "5"]

    on(store, act)


# STO-05
def test_a_subscription_to_a_stream_that_is_not_there_yet_waits_for_it(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        waiting = asyncio.ensure_future(take(store.subscribe("a"), 1))
        await asyncio.sleep(0)
        await store.append("a", facts("0"))
        assert ids(await waiting) == ["0"]

    on(store, act)


# STO-05
def test_many_subscriptions_beside_a_writer_each_see_everything_once(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        async def write() -> None:
            for n in range(300):
                await store.append("a", facts(str(n)))

        expected = [str(n) for n in range(300)]
        *seen, _ = await asyncio.gather(*(take(store.subscribe("a"), 300) for _ in range(5)), write())
        assert all(ids(one) == expected for one in seen)

    on(store, act)


# STO-05
def test_a_subscription_in_another_loop_is_woken(store: EventStore) -> None:
    seen: list[str] = []
    ready = threading.Event()

    def follow() -> None:
        async def main() -> None:
            following = store.subscribe("a")
            await take(following, 1)
            ready.set()
            seen.extend(ids(await take(following, 1)))

        run(main())

    async def act(store: EventStore) -> None:
        await store.append("a", facts("0"))
        thread = threading.Thread(target=follow)
        thread.start()
        await asyncio.to_thread(ready.wait)
        await store.append("a", facts("1"))
        await asyncio.to_thread(thread.join)

    on(store, act)
    assert seen == ["1"]


# STO-05, STO-13
def test_closing_the_store_ends_a_subscription_with_an_error(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", facts("0"))
        following = store.subscribe("a")
        await take(following, 1)
        waiting = asyncio.ensure_future(take(following, 1))
        await asyncio.sleep(0)
        await store.aclose()
        with pytest.raises(StoreError, match="closed"):
            await waiting

    on(store, act)


# --- scrubbing and deleting ---


# STO-08, ERA-04
def test_a_scrub_leaves_the_envelope_and_the_skeleton(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        full = {
            "source": "src",
            "subject": "ann@example.org",
            "run_id": "r",
            "tenant": "t",
            "trace_id": "1" * 32,
            "span_id": "2" * 16,
            "causation_id": "c",
            "correlation_id": "d",
            "schema_ref": "x/v1",
            "blobs": (BlobRef("mem:1", "0" * 64, 5),),
            "meta": {"user": "ann"},
        }
        budget = {"max_steps": 3, "max_cost": None}
        begin = started("r", parent="p", run_tag=None, budget=budget).with_(**full)
        middle = fact("m", {"text": "secret"}, **full)
        end = completed("r", reason="secret").with_(**full)
        before = await store.append("r", [begin, middle, end])
        assert await store.scrub("r") == 3
        left = [{"algo": "a", "parent": "p", "run_tag": None, "budget": budget}, {}, {"kind": "success"}]
        assert await store.read("r") == [
            event.with_(data=ERASED | kept, blobs=(), meta={}, subject=None)
            for event, kept in zip(before, left, strict=True)
        ]

    on(store, act)


# STO-08
def test_a_scrub_is_idempotent_and_the_stream_stays_appendable(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", [started("a"), fact("1", {})])
        assert await store.scrub("a") == 2
        once = await store.read("a")
        assert await store.scrub("a") == 2
        assert await store.read("a") == once
        assert seqs(await store.append("a", facts("2"), 1)) == [2]
        assert (await store.append("a", [fact("1", {"again": 1})]))[0] == once[1].with_(dup=True)
        assert (await store.read("a", 2))[0].data == {"n": "2"}
        assert await store.scrub("a") == 3
        assert (await store.read("a", 2))[0].data == ERASED

    on(store, act)


# STO-08
def test_a_scrub_touches_no_other_stream(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        for name in ("a", "b"):
            await store.append(name, facts("1"))
            await store.save_snapshot(StoredSnapshot(name, "p", 0, 1, "{}"))
        await store.scrub("a")
        assert (await store.read("b"))[0].data == {"n": "1"}
        assert await store.load_snapshot("a", "p") is None
        assert await store.load_snapshot("b", "p") is not None
        assert await store.scrub("nobody") == 0

    on(store, act)


# DEC-14: a second erase keeps the first one's reason
def test_a_second_scrub_keeps_the_reason_of_the_first(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        marker = fact("a:erased", {"reason": "asked for", "events": 1, "blobs": 0}, type="aaa.run.erased")
        await store.append("a", [fact("1"), marker])
        await store.scrub("a")
        assert (await store.read("a"))[1].data == {"reason": "asked for", "events": 1, "blobs": 0}

    on(store, act)


# STO-09
def test_a_deleted_stream_leaves_nothing_and_its_id_can_be_used_afresh(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        await store.append("a", [started("a"), fact("1")])
        await store.append("b", facts("1"))
        await store.save_snapshot(StoredSnapshot("a", "p", 0, 1, "{}"))
        assert await store.delete_stream("a") == 2
        assert await store.delete_stream("a") == 0
        assert await store.read("a") == []
        assert await store.last_seq("a") == -1
        assert not await store.has("a", "1")
        assert await store.load_snapshot("a", "p") is None
        assert await store.run_index() == []
        (fresh,) = await store.append("a", facts("1"), -1)
        assert (fresh.seq, fresh.dup) == (0, False)
        assert ids(await store.read("b")) == ["1"]

    on(store, act)


# --- snapshots ---


# STO-10
def test_an_older_snapshot_never_replaces_a_newer_one(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        newer = StoredSnapshot("a", "p", 9, 2, '{"n":9}')
        await store.save_snapshot(newer)
        await store.save_snapshot(replace(newer, seq=8, state="old"))
        assert await store.load_snapshot("a", "p") == newer
        await store.save_snapshot(replace(newer, version=3))
        assert await store.load_snapshot("a", "p") == replace(newer, version=3)
        await store.save_snapshot(replace(newer, name="other", seq=1))
        assert await store.load_snapshot("a", "p") == replace(newer, version=3)
        assert await store.load_snapshot("a", "none") is None

    on(store, act)


# STO-10
def test_of_snapshots_saved_at_once_the_newest_stays(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        order = [3, 17, 5, 19, 0, 12]
        await asyncio.gather(*(store.save_snapshot(StoredSnapshot("a", "p", seq, 1, str(seq))) for seq in order))
        kept = await store.load_snapshot("a", "p")
        assert kept is not None
        assert (kept.seq, kept.state) == (19, "19")

    on(store, act)


# --- what comes back ---

_texts = st.text(st.characters(codec="utf-8")) | st.sampled_from(["\0", "null", "é́", "\U0001f600", "\u202e", " "])
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _texts
_payloads = st.dictionaries(
    _texts, st.recursive(_scalars, lambda inner: st.lists(inner) | st.dictionaries(_texts, inner), max_leaves=20)
)
_meta = st.dictionaries(
    _texts, st.text(st.characters(codec="utf-8")) | st.integers() | st.booleans() | st.floats(-1e300, 1e300)
)


# STO-14
@given(data=_payloads, meta=_meta, subject=st.none() | st.just("é ann"))
def test_payloads_and_meta_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, Any], meta: dict[str, Any], subject: str | None
) -> None:
    for make in STORES.values():
        event = fact("1", data, meta=meta, subject=subject)
        (read,) = on(make(tmp_path_factory.mktemp("s")), lambda store, event=event: _stored(store, event))
        assert read == event.with_(stream="a", seq=0)
        assert repr(read.data) == repr(data)  # 1 is not 1.0, nor True
        assert repr(read.meta) == repr(meta)


async def _stored(store: EventStore, event: Event) -> list[Event]:
    await store.append("a", [event])
    return await store.read("a")


_nest: Callable[[int], Any] = lambda depth: [_nest(depth - 1)] if depth else 1  # noqa: E731


# STO-14
@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**200),
        "\ud800 lone",
        {"\udfff": "key"},
        "x" * 3_000_000,
        _nest(190),
        list(range(100_000)),
        {str(n): None for n in range(5000)},
        -0.0,
        5e-324,
        1.7976931348623157e308,
    ],
    ids=["int65", "bigint", "surrogate", "surrogate-key", "3MB", "deep", "long", "wide", "minus0", "tiny", "huge"],
)
def test_extreme_payloads_come_back_exactly(store: EventStore, value: Any) -> None:
    event = fact("1", {"v": value, "also": {"null": None}})
    (read,) = on(store, lambda store: _stored(store, event))
    assert repr(read.data) == repr(event.data)


# STO-14
@pytest.mark.parametrize(
    "bad",
    [
        {"v": float("nan")},
        {"v": [1, {"x": float("inf")}]},
        {"v": float("-inf"), "big": 2**70},
        {"v": object()},
        {"v": b"bytes"},
        {"v": {1, 2}},
        {"v": datetime.now(UTC)},
        {"v": _nest(400)},
        {"v": {1: "a", "1": "b"}},
        {"v": {(1, 2): 3}},
    ],
    ids=["nan", "inf", "minus-inf", "object", "bytes", "set", "datetime", "too-deep", "two-keys", "tuple-key"],
)
def test_what_json_cannot_hold_is_refused_before_anything_is_stored(store: EventStore, bad: dict[str, Any]) -> None:
    async def act(store: EventStore) -> None:
        for event in (fact("2", bad), fact("3", {}).with_(meta={"m": bad["v"]})):
            with pytest.raises(SchemaError, match="Nothing was stored"):
                await store.append("a", [fact("1"), event])
        assert await store.last_seq("a") == -1

    on(store, act)


# STO-14
def test_a_payload_that_contains_itself_is_refused(store: EventStore) -> None:
    loop: dict[str, Any] = {}
    loop["me"] = loop
    with pytest.raises(SchemaError):
        on(store, lambda store: store.append("a", [fact("1", loop)]))


# STO-14
@pytest.mark.parametrize(
    "fields",
    [
        {"id": "\ud800"},
        {"type": "\udc00"},
        {"tenant": "\ud800"},
        {"id": 7},
        {"source": None},
        {"schema_ref": None},
        {"run_id": 7},
        {"time": datetime(2026, 1, 1)},  # noqa: DTZ001 - what is tested
        {"time": "2026-01-01"},
    ],
    ids=str,
)
def test_a_bad_envelope_is_refused_and_says_which_field(store: EventStore, fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises(SchemaError, match=name):
        on(store, lambda store: store.append("a", [fact("1").with_(**fields)]))


# STO-14
@pytest.mark.parametrize("name", ["", "\ud800", 5])
def test_a_bad_stream_name_is_refused(store: EventStore, name: Any) -> None:
    with pytest.raises(SchemaError, match="stream's name"):
        on(store, lambda store: store.append(name, facts("1")))


# STO-14
def test_odd_names_keep_apart(store: EventStore) -> None:
    names = ["a", "a ", "a b", "A", "é", "é", "a' OR 1=1 --", "%", " a", "x" * 10_000]

    async def act(store: EventStore) -> None:
        for name in names:
            await store.append(name, facts(name, "1.", "1"))
        for name in names:
            assert ids(await store.read(name)) == [name, "1.", "1"]
            assert (await store.read(name))[0].stream == name
            await store.save_snapshot(StoredSnapshot(name, name, 1, 1, name))
        for name in names:
            kept = await store.load_snapshot(name, name)
            assert kept is not None
            assert kept.state == name

    on(store, act)


# STO-10, STO-14
def test_a_snapshot_state_comes_back_exactly(store: EventStore) -> None:
    async def act(store: EventStore) -> None:
        snap = StoredSnapshot("a", "p", 1, 1, '{"x": "\0 \ud800 é \U0001f600"}' + "y" * 1_000_000)
        await store.save_snapshot(snap)
        assert await store.load_snapshot("a", "p") == snap

    on(store, act)


# EVT-01
def test_a_time_of_another_zone_is_kept_as_utc(store: EventStore) -> None:
    there = datetime(2026, 3, 1, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    (read,) = on(store, lambda store: _stored(store, fact("1", time=there)))
    assert read.time == there
    assert read.time.utcoffset() == timedelta(0)


# --- closing ---


# STO-13
def test_a_closed_store_says_so_and_closing_twice_is_no_error(store: EventStore) -> None:
    async def main() -> None:
        await store.append("a", facts("1"))
        await asyncio.gather(store.aclose(), store.aclose())
        await store.aclose()
        snap = StoredSnapshot("a", "p", 0, 1, "{}")
        calls: list[Callable[[], Any]] = [
            lambda: store.append("a", facts("2")),
            lambda: store.read("a"),
            lambda: store.last_seq("a"),
            lambda: store.has("a", "1"),
            store.run_index,
            lambda: store.scrub("a"),
            lambda: store.delete_stream("a"),
            lambda: store.load_snapshot("a", "p"),
            lambda: store.save_snapshot(snap),
            lambda: anext(store.subscribe("a")),
        ]
        for call in calls:
            with pytest.raises(StoreError, match="closed"):
                await call()

    run(main())


# STO-13
def test_a_store_that_was_never_used_can_be_closed(store: EventStore) -> None:
    run(store.aclose())


# STO-11
def test_loops_one_after_another_may_use_one_store(store: EventStore) -> None:
    for n in range(3):
        assert seqs(run(store.append("a", facts(str(n))))) == [n]
        assert len(run(store.read("a"))) == n + 1
    run(store.aclose())


# STO-11
def test_the_memory_store_is_one_of_them() -> None:
    assert isinstance(STORES["memory"](Path()), InMemoryEventStore)
