"""Both stores against a model of a few lines, driven at random (STO-01 to STO-12, ERA-04, DEC-08, DEC-14)."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.event_stores import fact
from tracehold.core.errors import ConcurrencyError
from tracehold.events import Event, EventStore, StoredSnapshot
from tracehold.events.memory_store import InMemoryEventStore
from tracehold.events.scrubbing import scrubbed
from tracehold.events.sqlite_store import SQLiteEventStore
from tracehold.events.store import ANY_SEQ

Result = TypeVar("Result")

STREAMS = st.sampled_from(["a", "b", "c", "d"])
TYPES = st.sampled_from(["test.fact", "aaa.run.started", "aaa.run.completed", "aaa.run.erased"])
SIZES = st.sampled_from([0, 10, 300, 900, 3000, 9000])


class Stores(RuleBasedStateMachine):
    """A dict of lists, and the two stores that must behave like it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="tracehold-model-"))
        self.memory = InMemoryEventStore()
        self.sqlite = SQLiteEventStore(self.folder / "log.db")
        self.streams: dict[str, list[Event]] = {}
        self.snapshots: dict[tuple[str, str], StoredSnapshot] = {}
        self.secrets = 0

    def both(self, name: str, *arguments: Any) -> Any:
        """Return what both stores answer, which must be the same."""
        answers = [self.outcome(getattr(store, name)(*arguments)) for store in (self.memory, self.sqlite)]
        assert answers[0] == answers[1]
        return answers[0]

    def outcome(self, call: Coroutine[Any, Any, Result]) -> Result | type[Exception]:
        """Return a call's answer, or the class of its error."""
        try:
            return self.loop.run(call)
        except ConcurrencyError as error:
            return type(error)

    def secret(self, size: int) -> str:
        """Return a text never used before, found in a file by its number."""
        self.secrets += 1
        return f"<secret{self.secrets:05d}>" * (1 + size // 13)

    @rule(stream=STREAMS, ids=st.lists(st.integers(0, 30), max_size=5), type_=TYPES, size=SIZES, gap=st.integers(-1, 1))
    def append(self, stream: str, ids: list[int], type_: str, size: int, gap: int) -> None:
        log = self.streams.get(stream, [])
        events = [
            fact(str(id_), {"kind": "k", "text": self.secret(size)}, type=type_, subject=self.secret(0)) for id_ in ids
        ]
        expected = ANY_SEQ if gap == 0 else len(log) - 1 if gap == 1 else len(log) + 3
        answer = self.both("append", stream, events, expected)
        if expected not in (ANY_SEQ, len(log) - 1):
            assert answer is ConcurrencyError
            return
        wanted = []
        for event in events:
            known = {stored.id: stored for stored in log}
            if event.id in known:
                wanted.append(known[event.id].with_(dup=True))
            else:
                log = [*log, event.with_(stream=stream, seq=len(log))]
                wanted.append(log[-1])
        assert answer == wanted
        if log:
            self.streams[stream] = log

    @rule(stream=STREAMS)
    def scrub(self, stream: str) -> None:
        log = self.streams.get(stream, [])
        assert self.both("scrub", stream) == len(log)
        if log:
            self.streams[stream] = [scrubbed(event) for event in log]
        self.drop_snapshots(stream)
        self.check_bytes()

    @rule(stream=STREAMS)
    def delete(self, stream: str) -> None:
        assert self.both("delete_stream", stream) == len(self.streams.pop(stream, []))
        self.drop_snapshots(stream)
        self.check_bytes()

    @rule(stream=STREAMS, name=st.sampled_from(["p", "q"]), seq=st.integers(0, 5), size=SIZES)
    def save_snapshot(self, stream: str, name: str, seq: int, size: int) -> None:
        snap = StoredSnapshot(stream, name, seq, 1, self.secret(size))
        self.both("save_snapshot", snap)
        kept = self.snapshots.get((stream, name))
        if kept is None or kept.seq <= seq:
            self.snapshots[stream, name] = replace(snap)

    @rule()
    def reopen(self) -> None:
        self.loop.run(self.sqlite.aclose())
        self.sqlite = SQLiteEventStore(self.folder / "log.db")

    @precondition(lambda self: self.secrets > 5)
    @rule()
    def compact(self) -> None:
        self.loop.run(self.sqlite.compact())
        self.check_bytes()

    @invariant()
    def reads_agree(self) -> None:
        wanted = (
            [(self.streams.get(stream, []), len(self.streams.get(stream, [])) - 1) for stream in "abcd"],
            [self.snapshots.get((stream, name)) for stream in "abcd" for name in "pq"],
            {
                stream: (first, _first(log, "aaa.run.completed"))
                for stream, log in self.streams.items()
                if (first := _first(log, "aaa.run.started"))
            },
        )
        for store in (self.memory, self.sqlite):
            assert self.loop.run(_view(store)) == wanted

    @invariant()
    def the_chain_verifies(self) -> None:
        report = self.loop.run(self.sqlite.verify_chain())
        assert report.problems == ()
        assert (report.streams, report.events) == (len(self.streams), sum(map(len, self.streams.values())))

    def drop_snapshots(self, stream: str) -> None:
        self.snapshots = {key: snap for key, snap in self.snapshots.items() if key[0] != stream}

    def check_bytes(self) -> None:
        """Nothing that was erased stands anywhere in the database or its write-ahead file (DEC-14)."""
        raw = b"".join(path.read_bytes() for path in self.folder.iterdir())
        live = [str((event.data, event.subject)) for log in self.streams.values() for event in log]
        live += [snap.state for snap in self.snapshots.values()]
        assert set(re.findall(r"secret\d{5}", raw.decode("latin-1"))) <= set(re.findall(r"secret\d{5}", str(live)))

    def teardown(self) -> None:
        self.loop.run(self.sqlite.aclose())
        self.loop.close()
        shutil.rmtree(self.folder)


def _first(log: list[Event], type_: str) -> Event | None:
    return next((event for event in log if event.type == type_), None)


async def _view(store: EventStore) -> tuple[Any, ...]:
    """Return everything a store tells."""
    return (
        [(await store.read(stream), await store.last_seq(stream)) for stream in "abcd"],
        [await store.load_snapshot(stream, name) for stream in "abcd" for name in "pq"],
        {info.stream: (info.started, info.completed) for info in await store.run_index()},
    )


TestStores = Stores.TestCase
TestStores.settings = settings(stateful_step_count=25)
