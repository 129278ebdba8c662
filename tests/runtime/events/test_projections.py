"""State as a fold: with snapshots or without, it is the same."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Literal, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from tracehold.events.event import Event
from tracehold.events.memory_store import InMemoryEventStore
from tracehold.events.payload_json import decode_payload, encode_payload
from tracehold.events.projections import PAGE, Loaded, Projection
from tracehold.events.state_types import codec_for
from tracehold.events.store import StoredSnapshot


class CountingStore(InMemoryEventStore):
    """Notes what is read and saved."""

    def __init__(self) -> None:
        super().__init__()
        self.read_events = 0
        self.saved: list[StoredSnapshot] = []

    async def read(self, stream: str, from_seq: int = 0, limit: int | None = None) -> list[Event]:
        events = await super().read(stream, from_seq, limit)
        self.read_events += len(events)
        return events

    async def save_snapshot(self, snap: StoredSnapshot) -> None:
        self.saved.append(snap)
        await super().save_snapshot(snap)


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Number(IntEnum):
    ONE = 1


class Totals(BaseModel):
    count: int = 0
    total: float = 0.0
    seen: set[str] = set()
    last: datetime | None = None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    at: datetime
    level: Level


@dataclass
class Tally:
    count: int = 0
    names: dict[str, int] = field(default_factory=dict)
    pairs: list[tuple[str, int]] = field(default_factory=list)
    total: int = field(default=0, init=False)


class Homemade:
    """Anything with `model_validate` and `model_dump`."""

    def __init__(self, count: int) -> None:
        self.count = count

    @classmethod
    def model_validate(cls, data: Any) -> Self:
        return cls(data["count"])

    def model_dump(self) -> dict[str, Any]:
        return {"count": self.count}


def count_all(state: int, _event: Event) -> int:
    return state + 1


def tally(state: Tally, event: Event) -> Tally:
    """A fold that changes its state in place, as many do."""
    state.count += 1
    state.total += event.data["n"]
    state.names[event.type] = state.names.get(event.type, 0) + 1
    state.pairs.append((event.type, event.data["n"]))
    return state


def totals(state: Totals, event: Event) -> Totals:
    number = event.data["n"]
    return Totals(
        count=state.count + 1, total=state.total + number / 3, seen=state.seen | {event.type}, last=event.time
    )


def counter(every: int = 64, **kw: Any) -> Projection[int]:
    return Projection(lambda: 0, count_all, **({"name": "count", "state_type": int, "every": every} | kw))


def events(count: int, first: int = 0) -> list[Event]:
    return [Event(type="ab"[n % 2], stream="s", data={"n": n}) for n in range(first, first + count)]


async def stored(count: int) -> CountingStore:
    store = CountingStore()
    await store.append("s", events(count))
    return store


def test_state_is_the_fold_over_the_stream() -> None:  # PRJ-01
    async def main() -> None:
        store = await stored(5)
        loaded = await Projection(Tally, tally).load(store, "s")
        assert loaded.state.count == 5
        assert loaded.state.pairs == [("a", 0), ("b", 1), ("a", 2), ("b", 3), ("a", 4)]
        assert (loaded.seq, loaded.from_snapshot, loaded.replayed) == (4, -1, 5)

    asyncio.run(main())


def test_an_unknown_stream_has_the_initial_state() -> None:  # PRJ-01
    assert asyncio.run(counter().load(InMemoryEventStore(), "s")) == Loaded(0, -1, -1, 0)


def test_events_in_hand_can_be_replayed_from_any_state() -> None:  # PRJ-01
    projection = counter()
    assert projection.replay(events(3)) == 3
    assert projection.replay(events(3), 10) == 13
    assert Projection(list, lambda state, event: [*state, event.seq]).replay([], []) == []


def test_each_replay_begins_with_a_fresh_initial_state() -> None:  # PRJ-01
    projection = Projection(Tally, tally)
    projection.replay(events(3))
    assert projection.replay(events(3)).count == 3


def test_the_defaults_are_those_documented() -> None:  # PRJ-01
    projection = Projection(lambda: 0, count_all)
    assert (projection.name, projection.version, projection.state_type, projection.every) == ("", 1, None, 64)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"every": 0}, ValueError),
        ({"every": 1.5}, ValueError),
        ({"name": None}, TypeError),
        ({"version": "1"}, TypeError),
        ({"name": "n", "state_type": Counter}, TypeError),
        ({"name": "n", "state_type": list[bytes]}, TypeError),
    ],
)
def test_a_projection_that_cannot_be_meant_is_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Projection(lambda: 0, count_all, **arguments)
    with pytest.raises(TypeError, match="callable"):
        Projection(0, count_all)  # type: ignore[arg-type]


def test_payloads_are_restored_before_they_are_folded() -> None:  # PRJ-01
    async def main() -> None:
        async def restore(event: Event) -> Event:
            return event.with_(data={"n": 100})

        loaded = await Projection(Tally, tally).load(await stored(3), "s", hydrate=restore)
        assert loaded.state.total == 300

    asyncio.run(main())


def test_a_snapshot_is_taken_after_every_so_many_folded_events_and_then_the_tail_is_folded_only() -> None:  # PRJ-02
    async def main() -> None:
        store, projection = await stored(9), counter(every=10)
        await projection.load(store, "s")
        assert store.saved == []
        await store.append("s", events(1, 9))
        assert (await projection.load(store, "s")).replayed == 10
        assert store.saved == [StoredSnapshot("s", "count", 9, 1, "10")]
        await store.append("s", events(3, 10))
        store.read_events = 0
        assert await projection.load(store, "s") == Loaded(13, 12, 9, 3)
        assert store.read_events == 3
        assert len(store.saved) == 1

    asyncio.run(main())


@pytest.mark.parametrize("arguments", [{"name": ""}, {"state_type": None}])
def test_without_name_or_type_there_is_no_snapshot(arguments: dict[str, Any]) -> None:  # PRJ-02
    async def main() -> None:
        store = await stored(10)
        projection = counter(1, **arguments)
        assert (await projection.load(store, "s")).state == 10
        assert (await projection.load(store, "s")).replayed == 10
        assert store.saved == []

    asyncio.run(main())


def test_snapshots_can_be_left_aside() -> None:  # PRJ-02
    async def main() -> None:
        store = await stored(5)
        await store.save_snapshot(StoredSnapshot("s", "count", 2, 1, "1000"))
        assert (await counter(1).load(store, "s", use_snapshots=False)).state == 5
        assert len(store.saved) == 1

    asyncio.run(main())


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), max_size=5), max_size=6),
    st.integers(1, 12),
    st.sampled_from(["dataclass", "pydantic", "plain"]),
)
def test_snapshot_and_tail_equal_a_full_replay_at_any_cadence(
    batches: list[list[tuple[str, int]]], every: int, kind: str
) -> None:  # PRJ-02
    def make(name: str) -> Projection[Any]:
        if kind == "dataclass":
            return Projection(Tally, tally, name=name, state_type=Tally, every=every)
        if kind == "pydantic":
            return Projection(Totals, totals, name=name, state_type=Totals, every=every)
        return Projection(dict, _last_of_type, name=name, state_type=dict[str, list[int]], every=every)

    async def main() -> None:
        store = InMemoryEventStore()
        for batch in batches:
            await store.append("s", [Event(type=name, stream="s", data={"n": n}) for name, n in batch])
            quick = await make("p").load(store, "s")
            full = await make("").load(store, "s")
            assert quick.state == full.state
            assert quick.seq == full.seq
            assert full.replayed == full.seq + 1
            assert quick.replayed == quick.seq - quick.from_snapshot

    asyncio.run(main())


def _last_of_type(state: dict[str, list[int]], event: Event) -> dict[str, list[int]]:
    state.setdefault(event.type, []).append(event.data["n"])
    return state


def test_a_stream_of_many_pages_is_folded_in_order() -> None:  # PRJ-01
    async def main() -> None:
        store = await stored(2 * PAGE)
        loaded = await Projection(list, lambda state, event: [*state[-2:], event.seq]).load(store, "s")
        assert loaded.state == [2 * PAGE - 3, 2 * PAGE - 2, 2 * PAGE - 1]
        assert loaded.replayed == 2 * PAGE

    asyncio.run(main())


@pytest.mark.parametrize(
    "snapshot",
    [
        StoredSnapshot("s", "count", 2, 1, "not json"),
        StoredSnapshot("s", "count", 2, 1, '"text"'),
        StoredSnapshot("s", "count", 2, 1, ""),
        StoredSnapshot("s", "count", 2, 1, "\ud800"),
        StoredSnapshot("s", "count", 2, 1, "[" * 100_000),
        StoredSnapshot("s", "count", 2, 2, "1000"),
        StoredSnapshot("s", "count", 2, 0, "1000"),
        StoredSnapshot("s", "count", 5, 1, "1000"),
        StoredSnapshot("s", "count", -1, 1, "1000"),
    ],
)
def test_a_snapshot_that_is_unreadable_of_another_version_or_ahead_is_ignored(snapshot: StoredSnapshot) -> None:
    # PRJ-03
    async def main() -> None:
        store = await stored(5)
        await store.save_snapshot(snapshot)
        assert await counter().load(store, "s") == Loaded(5, 4, -1, 5)

    asyncio.run(main())


def test_a_snapshot_of_the_last_event_is_not_ahead() -> None:  # PRJ-03
    async def main() -> None:
        store = await stored(5)
        await store.save_snapshot(StoredSnapshot("s", "count", 4, 1, "5"))
        assert await counter().load(store, "s") == Loaded(5, 4, 4, 0)

    asyncio.run(main())


def test_a_new_version_of_the_fold_replays_and_replaces_the_snapshot() -> None:  # PRJ-03
    async def main() -> None:
        store = await stored(5)
        await counter(1).load(store, "s")
        assert (await counter(1, version=2).load(store, "s")).replayed == 5
        assert (await counter(1, version=2).load(store, "s")).replayed == 0

    asyncio.run(main())


def test_a_state_that_is_not_as_declared_takes_no_snapshot_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    # PRJ-02: a load must equal a full replay, and this state would come back without its methods
    async def main() -> None:
        store = await stored(3)

        def fold(state: Counter[str], event: Event) -> Counter[str]:
            state[event.type] += 1
            return state

        projection = Projection(Counter, fold, name="p", state_type=dict[str, int], every=1)
        for _ in range(2):
            assert (await projection.load(store, "s")).state == Counter(a=2, b=1)
        assert store.saved == []

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert len(caplog.records) == 1


def test_a_store_that_cannot_keep_a_snapshot_does_not_fail_the_load(caplog: pytest.LogCaptureFixture) -> None:
    class Full(InMemoryEventStore):
        async def save_snapshot(self, snap: StoredSnapshot) -> None:
            raise OSError("no space left")

    async def main() -> None:
        store = Full()
        await store.append("s", events(3))
        assert (await counter(1).load(store, "s")).state == 3

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "OSError" in caplog.text


def test_a_store_without_snapshots_is_replayed() -> None:
    class Bare:
        def __init__(self, store: InMemoryEventStore) -> None:
            self.read = store.read
            self.last_seq = store.last_seq

    async def main() -> None:
        assert (await counter(1).load(Bare(await stored(3)), "s")).state == 3  # type: ignore[arg-type]  # enough of one

    asyncio.run(main())


@pytest.mark.parametrize(
    ("tp", "value"),
    [
        (int, 1 << 80),
        (float, 1),
        (float, 0.1),
        (str, "\ud800"),
        (bool, True),
        (None, None),
        (Any, {"a": [1, None, "x", {"b": 1.5}]}),
        (dict, {"a": 1}),
        (list, [1, "a"]),
        (dict[int, str], {1: "a", 2: "b"}),
        (dict[tuple[str, int], list[float]], {("a", 1): [1.0]}),
        (tuple[str, int], ("a", 1)),
        (tuple[int, ...], (1, 2)),
        (tuple[()], ()),
        (set[str], {"b", "a"}),
        (frozenset[int], frozenset({3, 1})),
        (int | str | None, "1"),
        (int | str | None, None),
        (Literal["a", "b"], "a"),
        (Level, Level.HIGH),
        (list[Level | Number], [Level.LOW, Number.ONE]),
        (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (date, date(2026, 1, 1)),
        (Decimal, Decimal("1.10")),
        (Totals, Totals(seen={"a"}, last=datetime(2026, 1, 1, tzinfo=UTC))),
        (Strict, Strict(at=datetime(2026, 1, 1, tzinfo=UTC), level=Level.LOW)),
        (list[Totals | Tally], [Tally(1, {"a": 1}, [("a", 1)]), Totals()]),
    ],
)
def test_a_state_comes_back_as_it_was(tp: Any, value: Any) -> None:  # PRJ-02
    codec = codec_for(tp)
    back = codec.load(decode_payload(encode_payload(codec.dump(value))))
    assert back == value
    assert repr(back) == repr(value) or isinstance(value, set | frozenset | BaseModel)


def test_a_model_of_ones_own_is_a_state() -> None:  # PRJ-02
    codec = codec_for(Homemade)
    assert codec.load(codec.dump(Homemade(3))).count == 3


@pytest.mark.parametrize(
    ("tp", "value"),
    [
        (int, True),
        (int, Number.ONE),
        (bool, 1),
        (str, Level.LOW),
        (list, (1,)),
        (dict, Counter(a=1)),
        (dict, {1: "a"}),
        (dict[str, int], {"a": "b"}),
        (tuple[str, int], ("a",)),
        (Any, {1, 2}),
        (int | str, 1.5),
        (Tally, Totals()),
        (Totals, Tally()),
    ],
)
def test_a_value_that_would_come_back_as_another_is_refused(tp: Any, value: Any) -> None:  # PRJ-02
    with pytest.raises((TypeError, ValueError)):
        codec_for(tp).dump(value)
