"""The SQLite session store against a plain list, over arbitrary sequences of calls."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tracehold.core.message import Message
from tracehold.core.scope import DIMENSIONS, Scope
from tracehold.sessions import ScopeSummary, SqliteSessionStore

# Few and alike, so that scopes meet.
values = st.sampled_from([None, "a", "A", "a\x00"])
scopes = st.none() | st.builds(Scope, user=values, session=values, app=st.sampled_from([None, "p"]))

texts = st.text(st.characters() | st.sampled_from("\x00\ud800\udfff\ud83d\ude00"), max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
zones = st.none() | st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-11))])
# A few moments close together, so that `before` meets equal and neighbouring ones.
moments = st.builds(
    lambda shift, zone: (
        (datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(microseconds=shift))
        .astimezone(zone or UTC)
        .replace(tzinfo=zone)
    ),
    st.integers(-2, 2) | st.integers(-(10**15), 10**15),
    zones,
)
messages = st.builds(
    Message,
    content=texts | st.lists(st.dictionaries(texts, plain, max_size=3), max_size=2),
    role=st.sampled_from(["user", "assistant", "system", "tool"]),
    timestamp=moments,
    metadata=st.dictionaries(texts, plain, max_size=3),
)


def instant(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def stored(message: Message) -> Message:
    return Message(message.content, message.role, instant(message.timestamp), message.metadata)


class SessionsAgainstAList(RuleBasedStateMachine):
    """`self.rows` is what the store must hold: (scope, message) in the order of insertion."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = SqliteSessionStore(self.folder / "sessions.db")
        self.rows: list[tuple[Scope, Message]] = []

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(scope=scopes, message=messages)
    def append(self, scope: Scope | None, message: Message) -> None:
        self.store.append(message, scope=scope)
        self.rows.append((scope or Scope(), stored(message)))

    @rule(scope=scopes, batch=st.lists(messages, max_size=4))
    def append_many(self, scope: Scope | None, batch: list[Message]) -> None:
        self.store.append_many(batch, scope=scope)
        self.rows += [(scope or Scope(), stored(message)) for message in batch]

    @rule(scope=scopes)
    def load(self, scope: Scope | None) -> None:
        expected = [message for held, message in self.rows if held == (scope or Scope())]
        assert self.store.load(scope=scope) == expected

    @rule(scope=scopes, everything=st.sampled_from([False, False, False, True]))
    def clear(self, scope: Scope | None, everything: bool) -> None:
        self.store.clear(scope=scope, all_scopes=everything)
        self.rows = [row for row in self.rows if not (everything or row[0] == (scope or Scope()))]

    @rule(
        scope=scopes,
        everything=st.booleans(),
        conditions=st.tuples(st.none() | st.integers(0, 4), st.none() | moments).filter(
            lambda pair: pair != (None, None)
        ),
    )
    def prune(self, scope: Scope | None, everything: bool, conditions: tuple[int | None, datetime | None]) -> None:
        keep_last, before = conditions
        chosen = [number for number, row in enumerate(self.rows) if everything or row[0] == (scope or Scope())]
        gone = {n for n in chosen if before is not None and self.rows[n][1].timestamp < instant(before)}
        left = [n for n in chosen if n not in gone]
        if keep_last is not None:
            gone |= set(left[: max(0, len(left) - keep_last)])

        deleted = self.store.prune(scope=scope, all_scopes=everything, keep_last=keep_last, before=before)

        assert deleted == len(gone)
        self.rows = [row for number, row in enumerate(self.rows) if number not in gone]

    @rule(scope=scopes, along=st.sampled_from(DIMENSIONS))
    def list_scopes(self, scope: Scope | None, along: str) -> None:
        restrictions = (scope or Scope()).restrictions()
        restrictions.pop(along, None)
        groups: dict[str, list[Any]] = {}
        for held, message in self.rows:
            if all(getattr(held, name) == value for name, value in restrictions.items()):
                groups.setdefault(getattr(held, along) or "", []).append(message.timestamp)

        found = self.store.list_scopes(along=along, scope=scope)

        expected = [ScopeSummary(along, value, len(times), min(times), max(times)) for value, times in groups.items()]
        assert sorted(found, key=lambda summary: summary.value) == sorted(expected, key=lambda summary: summary.value)
        last = [summary.last_at for summary in found if summary.last_at is not None]
        assert last == sorted(last, reverse=True)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteSessionStore(self.folder / "sessions.db")

    @invariant()
    def holds_exactly_the_rows(self) -> None:
        assert self.store.load(all_scopes=True) == [message for _, message in self.rows]


# SES-02, SES-03, SES-08, SES-09, SES-10, SES-12, SES-15, SES-16, SES-19, SES-20, SES-21, SES-22, SES-23
TestSessionsAgainstAList = SessionsAgainstAList.TestCase
