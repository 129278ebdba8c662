"""Holds leaves against events, and the tree against its heads, a window at a time.

Three things have to agree: the event, the leaf hash that the store keeps, and the signed root. Where two agree against
the third, that one was altered; so a single altered row is told from an altered hash.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracehold_collector.audit.leaves import EVENT, HASH_BYTES, event_digests, leaf_hashes
from tracehold_collector.audit.merkle import Frontier, root_of
from tracehold_collector.store.chunks import Entry, commitment_of
from tracehold_collector.verify.findings import Finding, Report
from tracehold_collector.verify.window import LogState, Window

COMPLETED: Final = "tracehold.erasure.completed"
STARTED: Final = "tracehold.erasure.started"
_ERASURE_ACTS: Final = pa.array([STARTED, COMPLETED])
_NS: Final = 1_000_000_000
_ID_BYTES: Final = 16
_WELL: Final = frozenset({"none", "intact", "unchecked"})
"""States of a content that are no reason for an alarm."""


_Times = Sequence[int] | npt.NDArray[np.int64]


class KnownHead(NamedTuple):
    """A tree head whose signature was checked.

    Attributes:
        size: leaves.
        root: over them.
        signed_at: seconds since the epoch, UTC; `None` when it has no signed time.
    """

    size: int
    root: bytes
    signed_at: int | None


class _Row(NamedTuple):
    event_id: bytes
    received_at: int
    leaf: bytes
    content_state: str


class Checker:
    """Checks one log from leaf `first` on.

    Args:
        state: what there is of the log.
        heads: of it, the smallest first, each of another size.
        frontier: the tree over the leaves before `first`.
    """

    def __init__(self, state: LogState, heads: Sequence[KnownHead], frontier: Frontier) -> None:
        self.report = Report(state.tenant, frontier.size, frontier.size, before=state.before)
        self._state = state
        self._heads = [head for head in heads if head.size > frontier.size]
        self._kept = frontier  # the tree by the hashes that the store keeps
        self._told: Frontier | None = None  # the tree by what the events say, from where the two differ on
        self._differs: list[int] = []  # leaves where the two disagree, since the last head that fitted
        self._good = frontier.size
        self._erased_leaves: dict[str, list[bytes]] = {}
        self._logged: dict[str, str | None] = {}
        self._begun: dict[str, int] = {}
        self._full: dict[tuple[int, int], bytes] = {}
        self._latest = 0
        self._names: dict[int, str] = {}

    def take(self, window: Window) -> None:
        """Check the next window."""
        rows = _Rows(window)
        self._note_acts(window.rows)
        if rows.are_as_kept(self._latest):
            self._take_as_kept(window, rows)
        else:
            self._take_apart(window, rows)

    def _take_as_kept(self, window: Window, rows: _Rows) -> None:
        """All is well with every leaf: nearly always, and then it need not be looked at one by one."""
        self.report.counts["verified"] += rows.count
        self.report.unchecked += rows.states.count("unchecked")
        self._grow(window.first, window.hashes, None, rows.received)
        self._latest = int(rows.received[-1]) if rows.count else self._latest
        self.report.end = window.first + rows.count

    def _take_apart(self, window: Window, found: _Rows) -> None:
        rows = found.by_leaf()
        kept = [window.hashes[at : at + HASH_BYTES] for at in range(0, len(window.hashes), HASH_BYTES)]
        told = kept.copy()
        for index, row in rows.items():
            place = index - window.first
            if 0 <= place < len(told):
                told[place] = row.leaf
        latest: list[int] = []
        for place, leaf in enumerate(kept):
            self._judge(window.first + place, leaf, rows.get(window.first + place), window.erased)
            latest.append(self._latest)
        self._grow(window.first, b"".join(kept), b"".join(told), latest)
        self.report.end = window.first + len(kept)

    def finish(self, *, whole: bool) -> Report:
        """Return what was found.

        Args:
            whole: whether the log was read from its first leaf to its last.
        """
        report = self.report
        for index in self._differs:
            self._alarm_row(index, "the event is not what its leaf in the log says")
        if whole:
            self._check_around()
            self._check_erasures()
        return report

    def _judge(self, index: int, kept: bytes, row: _Row | None, erased: Mapping[int, Sequence[str]]) -> None:
        report = self.report
        erasures = erased.get(index, ())
        for erasure_id in erasures:
            self._erased_leaves.setdefault(erasure_id, []).append(kept)
        if row is None:
            if not erasures:
                report.counts["missing"] += 1
                report.alarm(Finding("missing", index, None, "its event is gone, and no erasure took it"))
            else:
                self._count_erased(erasures)
            return
        self._check_time(index, row)
        if row.leaf != kept:
            self._differs.append(index)
            self._names[index] = str(uuid.UUID(bytes=row.event_id))
        elif row.content_state in _WELL:
            report.counts["verified"] += 1
            report.unchecked += row.content_state == "unchecked"
        elif erasures:
            self._count_erased(erasures)
        else:
            self._alarm_content(index, row)

    def _alarm_content(self, index: int, row: _Row) -> None:
        altered = row.content_state == "altered"
        state, what = (
            ("altered", "what it said is not what was committed to")
            if altered
            else ("missing", "what it said is gone, and no erasure took it")
        )
        self.report.counts[state] += 1  # type: ignore[index]
        self.report.alarm(Finding(state, index, str(uuid.UUID(bytes=row.event_id)), what))  # type: ignore[arg-type]

    def _alarm_row(self, index: int, what: str) -> None:
        self.report.counts["altered"] += 1
        self.report.alarm(Finding("altered", index, self._names.pop(index, None), what))

    def _count_erased(self, erasures: Sequence[str]) -> None:
        known = [self._state.erasures.get(erasure_id) for erasure_id in erasures]
        expired = all(erasure is not None and erasure.expired for erasure in known)
        self.report.counts["expired" if expired else "erased"] += 1

    def _check_time(self, index: int, row: _Row) -> None:
        """Commits have growing times: an event that was put in later under an earlier time is out of order."""
        if row.received_at < self._latest:
            event_id = str(uuid.UUID(bytes=row.event_id))
            self.report.alarm(Finding("altered", index, event_id, "it claims to have come before the events before it"))
        self._latest = max(self._latest, row.received_at)

    def _grow(self, first: int, kept: bytes, told: bytes | None, latest: _Times) -> None:
        """Let the trees grow from head to head; `told` is `None` where the events say what is kept."""
        if told is not None and told != kept and self._told is None:
            self._told = self._kept.copy()
        at = first
        end = first + len(kept) // HASH_BYTES
        while at < end:
            upto = min(end, self._heads[0].size) if self._heads else end
            part = slice((at - first) * HASH_BYTES, (upto - first) * HASH_BYTES)
            for level, index, hashes in self._kept.extend(kept[part]):
                for place in range(len(hashes) // HASH_BYTES):
                    self._full[level, index + place] = hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            if self._told is not None:
                self._told.extend((kept if told is None else told)[part])
            at = upto
            while self._heads and self._heads[0].size == at:
                self._hold(self._heads.pop(0), int(latest[at - first - 1]))

    def _hold(self, head: KnownHead, latest: int) -> None:
        """Hold both trees against a signed head; `latest` is when the last event that it covers came."""
        report = self.report
        if head.signed_at is not None and latest >= _NS * (head.signed_at + 1):
            what = "a tree head that covers it was signed before it came, by its time"
            report.alarm(Finding("altered", head.size - 1, None, what))
        fits = True
        if self._kept.root() == head.root:
            what = "the event is not what was recorded: its leaf in the signed log is another"
        elif self._told is not None and self._told.root() == head.root:
            what = "the event stands; the hash that the store keeps of its leaf was altered"
            self._kept = self._told
        else:
            fits = False
            what = "the event is not what its leaf in the log says"
            report.alarm(Finding("altered", self._good, None, _bracket(self._good, head.size)))
        for index in self._differs:
            self._alarm_row(index, what)
        self._differs.clear()
        self._good = head.size
        if fits:
            self._told = None
            report.heads += 1
            report.covered = head.size

    def _check_around(self) -> None:
        """What concerns the log as a whole: what was cut off, what stands beside it."""
        report, state = self.report, self._state
        for head in self._heads:
            what = f"a tree head of {head.size} leaves was signed, the log has {report.end}: its end was cut off"
            report.alarm(Finding("missing", report.end, None, what))
        if report.end < state.size:
            what = f"the log claims {state.size} leaves; their hashes end here"
            report.alarm(Finding("missing", report.end, None, what))
        for event_id in state.added:
            report.alarm(Finding("altered", None, event_id, "it stands beside the log: no leaf is of it"))
        for index in state.repeated:
            report.alarm(Finding("altered", index, None, "more than one event claims this leaf"))
        for index in state.misdated:
            report.alarm(Finding("altered", index, None, "the hash of this leaf has another time than its event"))
        self._check_subtrees()
        for run_id in state.disagreeing:
            what = f"the sums of run {run_id} are not those of its events"
            report.alarm(Finding("altered", None, None, what))

    def _check_subtrees(self) -> None:
        """The roots of full subtrees, which proofs are made from, have to be those of the leaves."""
        kept = {
            (level, first + place): hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]
            for level, first, hashes in self._state.full
            for place in range(-(-len(hashes) // HASH_BYTES))
        }
        for (level, index), root in self._full.items():
            if kept.pop((level, index), None) != root:
                width = 256**level
                what = f"the kept root over leaves {index * width} to {(index + 1) * width - 1} is not theirs"
                self.report.alarm(Finding("altered", index * width, None, what))
        for level, index in kept:
            what = f"a root of level {level} at {index} is kept that the log does not have"
            self.report.alarm(Finding("altered", None, None, what))

    def _check_erasures(self) -> None:
        """An erasure is one only if the log says so, with the root over exactly these leaves."""
        for erasure_id, leaves in self._erased_leaves.items():
            if erasure_id not in self._logged and len(leaves) <= self._begun.get(erasure_id, 0):
                self.report.notes.append(f"erasure {erasure_id} is under way: {len(leaves)} leaves")
            elif self._logged.get(erasure_id) != root_of(b"".join(leaves)).hex():
                what = (
                    f"erasure {erasure_id} claims {len(leaves)} leaves that the log does not say it took: they were "
                    "taken out by other hands"
                )
                self.report.alarm(Finding("missing", None, None, what))

    def _note_acts(self, rows: pa.Table) -> None:
        ours = pc.and_(pc.is_in(rows["type"], _ERASURE_ACTS), pc.equal(rows["source"], "collector"))
        acts = rows.filter(ours).select(["type", "run_id", "attributes"])
        for kind, run_id, text in zip(*(column.to_pylist() for column in acts.columns), strict=True):
            said = orjson.loads(text or "{}")
            erasure_id = run_id.removeprefix("erasure:")
            if kind == COMPLETED:
                self._logged.setdefault(erasure_id, said.get("tracehold.erasure.root"))
            else:
                self._begun.setdefault(erasure_id, int(said.get("tracehold.erasure.events") or 0))


def _bracket(first: int, end: int) -> str:
    return (
        f"leaves {first} to {end - 1} are not those that the tree head of size {end} was signed over: one or more of "
        "them were altered together with their hashes, added or taken out"
    )


class _Rows:
    """The events of a window, and the leaves that they should have."""

    def __init__(self, window: Window) -> None:
        rows = window.rows.combine_chunks()
        self._window = window
        self.count = rows.num_rows
        self.states: list[str] = rows.column("content_state").to_pylist()
        self.received: npt.NDArray[np.int64] = rows.column("received_at").to_numpy()
        self._ids = _joined(rows.column("event_id"), _ID_BYTES)
        self._indexes: npt.NDArray[np.int64] = rows.column("leaf_index").to_numpy()
        said = np.array([state != "none" for state in self.states], dtype=np.bool_)
        digests = event_digests(rows, _joined(rows.column("commitment"), HASH_BYTES), said)
        self._leaves = leaf_hashes(EVENT, self.received, self._ids, b"".join(digests))
        if "content" in rows.column_names:
            self.states = _checked_here(rows, self.states)

    def are_as_kept(self, latest: int) -> bool:
        """Whether each leaf has its event, which says what was committed to and came in its turn."""
        first = self._window.first
        return bool(
            not self._window.erased
            and set(self.states) <= _WELL
            and self.count * HASH_BYTES == len(self._window.hashes)
            and (self._indexes == np.arange(first, first + self.count)).all()
            and (not self.count or self.received[0] >= latest)
            and (np.diff(self.received) >= 0).all()
            and b"".join(self._leaves) == self._window.hashes
        )

    def by_leaf(self) -> dict[int, _Row]:
        """Return each event by the index it claims."""
        ids = [self._ids[at : at + _ID_BYTES] for at in range(0, len(self._ids), _ID_BYTES)]
        rows = map(_Row, ids, self.received.tolist(), self._leaves, self.states)
        return dict(zip(self._indexes.tolist(), rows, strict=True))


def _joined(column: pa.ChunkedArray, width: int) -> bytes:
    """Values of `width` bytes one behind the other; one of another length is as wrong as any, and moves no other."""
    whole = column.combine_chunks()
    if not whole.null_count and len(whole):
        sizes = pc.unique(pc.binary_length(whole)).to_pylist()
        if sizes == [width]:
            start = np.frombuffer(whole.buffers()[1], dtype=np.int32)[whole.offset]
            return bytes(whole.buffers()[2][int(start) : int(start) + width * len(whole)])
    values = whole.to_pylist()
    return b"".join([value if value is not None and len(value) == width else bytes(width) for value in values])


def _checked_here(rows: pa.Table, states: list[str]) -> list[str]:
    """Contents that came along are not believed either."""
    columns = (rows.column(name).to_pylist() for name in ("salt", "content", "commitment"))
    checked = []
    for state, salt, content, commitment in zip(states, *columns, strict=True):
        whole = state != "intact" or (content is not None and commitment_of(Entry(salt or b"", content)) == commitment)
        checked.append(state if whole else "altered")
    return checked
