"""Whatever is erased in whatever order: what stays is what a dictionary would hold, and the log verifies."""

from __future__ import annotations

import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.erasing import PSEUDONYMS, Store, opened
from support.profile import SOAK
from support.records import make_record
from tracehold.core.clock import now_ns
from tracehold_collector.audit.signing import Signer
from tracehold_collector.verify.run import verify_log
from tracehold_collector.verify.stored import StoredLog

_RUNS, _USERS = ("r1", "r2", "r3"), ("ann", "bob")

_ADD = st.tuples(st.just("add"), st.integers(0, 11), st.sampled_from(_RUNS), st.sampled_from((*_USERS, None)))
_ERASE = st.tuples(
    st.just("erase"),
    st.one_of(
        st.tuples(st.just("run"), st.sampled_from(_RUNS)),
        st.tuples(st.just("subject"), st.sampled_from(_USERS)),
        st.tuples(st.just("event"), st.integers(0, 11)),
    ),
    st.sampled_from(("scrub", "delete")),
)


@dataclass
class _Model:
    """What is stored: by the number of an event its run, user, and whether it still says something."""

    events: dict[int, tuple[str, str | None, bool]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def add(self, number: int, run: str, user: str | None) -> tuple[int, int, int]:
        """Return how many were accepted, duplicates, and erased."""
        if number in self.deleted or run in self.refused:
            return 0, 0, 1
        if number in self.events:
            return 0, 1, 0
        self.events[number] = (run, user, True)
        return 1, 0, 0

    def erase(self, scope: str, value: Any, mode: str) -> int:
        """Return how many events it was about."""
        chosen = [number for number in self.events if self._meant(number, scope, value)]
        if scope != "event":
            for run in {self.events[number][0] for number in chosen}:
                if all(number in chosen for number, event in self.events.items() if event[0] == run):
                    self.refused.add(run)
        for number in chosen:
            run, user, _ = self.events[number]
            self.events[number] = (run, user, False)
            if mode == "delete":
                del self.events[number]
                self.deleted.add(number)
        return len(chosen)

    def _meant(self, number: int, scope: str, value: Any) -> bool:
        run, user, _ = self.events[number]
        if scope != "subject":
            return bool((run if scope == "run" else number) == value)
        named = {other[1] for other in self.events.values() if other[0] == run} - {None}
        return user == value or (named == {value})


@settings(max_examples=60 if SOAK else 6, deadline=None)
@given(steps=st.lists(st.one_of(_ADD, _ADD, _ERASE), min_size=4, max_size=16))
def test_what_stays_is_what_a_dictionary_would_hold(steps: list[tuple[Any, ...]]) -> None:
    model = _Model()
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as store:
        for step, *told in steps:
            if step == "add":
                _add(store, model, *told)
            else:
                _erase(store, model, *told)
        signer = Signer(Path(folder), now_ns())
        keys = signer.verifier_keys("default")
        report = verify_log(StoredLog(store.database), "default", origin=signer.origin("default"), keys=keys)
        assert report.findings == []


def _add(store: Store, model: _Model, number: int, run: str, user: str | None) -> None:
    ref = None if user is None else PSEUDONYMS.user(user)
    receipt = store.add(make_record(number, run, user_ref=ref, content={"n": number, "by": user}))
    assert (receipt.accepted, receipt.duplicates, receipt.erased) == model.add(number, run, user)


def _erase(store: Store, model: _Model, scope: tuple[str, Any], mode: str) -> None:
    kind, value = scope
    record = store.erase(scope=kind, value=str(uuid.UUID(int=value)) if kind == "event" else value, mode=mode)
    assert record.status == "completed"
    assert record.events == model.erase(kind, value, mode)
    said = {number: {"n": number, "by": user} for number, (_, user, says) in model.events.items() if says}
    assert store.said() == said
    assert store.count("events", "source <> 'collector'") == len(model.events)
    runs = {run for run, _, _ in model.events.values()}
    assert {row[0] for row in store.rows("SELECT run_id FROM runs")} == runs
