"""Makes a bundle of evidence: reads one snapshot of the store, and yields the zip file as it goes."""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

import duckdb
import orjson
import pyarrow as pa
from tracehold import __version__

from tracehold_collector.audit.merkle import HASH_BYTES, consistency_proof
from tracehold_collector.audit.notes import VerifierKey
from tracehold_collector.core.errors import QueryError, StoreError
from tracehold_collector.core.times import iso_utc
from tracehold_collector.evidence import sample
from tracehold_collector.evidence.contents import read_contents
from tracehold_collector.evidence.log_reader import LogReader
from tracehold_collector.evidence.proofs import NodeSet
from tracehold_collector.evidence.question import Question
from tracehold_collector.evidence.readable import MAX_ROWS, README, index_page
from tracehold_collector.evidence.records import content_line, erased_line, population_lines, read_rows, record_line
from tracehold_collector.evidence.zipped import ZipStream
from tracehold_collector.store.database import Database
from tracehold_collector.store.log_rows import read_erased
from tracehold_collector.store.time_stamps import StoredStamp, first_stamp_covering
from tracehold_collector.store.tree_heads import StoredHead

FORMAT: Final = "tracehold-evidence"
VERSION: Final = 1
MAX_POPULATION: Final = 500_000
"""Events that one bundle may be about: more are several bundles."""
MAX_LEAVES: Final = 2_000_000
"""Leaf hashes that one bundle lists, 64 MB; of a longer range it proves its records, and not that there is no gap."""
MAX_HEADS: Final = 16
"""Tree heads that an asker may want proofs from."""

_VERIFIERS: Final = ("verify_evidence.py", "verify_evidence.html")
_OFFLINE: Final = resources.files("tracehold_collector.evidence.offline")
_LEAVES_A_PIECE: Final = 65_536
_TAKEN: Final = """
SELECT leaf_index, event_id::VARCHAR, min(erasure_id)
FROM erased_events
WHERE tenant = $1
  AND leaf_index >= $2
  AND leaf_index < $3
  AND NOT EXISTS (
      SELECT 1 FROM events WHERE events.tenant = erased_events.tenant AND events.leaf_index = erased_events.leaf_index
  )
GROUP BY leaf_index, event_id
ORDER BY leaf_index
"""
"""Leaves whose records are gone; of a record whose content alone is gone, the content says so."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a bundle is to hold.

    Attributes:
        question: what it answers.
        sample: seed and size, when the records are to be a sample of those that answer.
        with_content: whether it holds what the events said; only for who may see it.
        complete: whether it holds every other event of the range too, so that nothing can have been left out.
        sizes: of tree heads that the asker holds: it proves that the log only grew since.
        asked_by: who asked, for the manifest.
        asked_at: when, UTC nanoseconds.
    """

    question: Question
    sample: tuple[str, int] | None = None
    with_content: bool = False
    complete: bool = False
    sizes: tuple[int, ...] = ()
    asked_by: str = ""
    asked_at: int = 0


class EvidenceBundle:
    """One bundle. `population` events answer the question, `records` of them are in it. Close it.

    Args:
        database: the open store.
        asked: what it is to hold.
        keys: the log's verifier keys.

    Raises:
        QueryError: there is no log of this tenant, or too many events answer.
        StoreError: the store cannot be read.
    """

    def __init__(self, database: Database, asked: Asked, keys: Sequence[VerifierKey]) -> None:
        self._asked = asked
        self._keys = keys
        self._vault = database.vault
        self._stack = contextlib.ExitStack()
        try:
            self._cursor = self._stack.enter_context(database.cursor())
            # Contents and hashes are read beside the running scan, which is the only thing a cursor can do at a time.
            self._beside = self._stack.enter_context(database.cursor())
            self._cursor.begin()
            self._beside.begin()
            self._log = LogReader(self._beside, asked.question.tenant)
            self._look()
        except duckdb.Error as error:
            self.close()
            raise StoreError(f"the store could not answer: {type(error).__name__}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the snapshot; a second call does nothing."""
        self._stack.close()

    def pieces(self) -> Iterator[bytes]:
        """Yield the zip file; it is none before its end, which comes last.

        Raises:
            StoreError: the store cannot be read on.
        """
        try:
            yield from self._pieces()
        except duckdb.Error as error:
            raise StoreError(f"the store could not answer: {type(error).__name__}") from error

    def _look(self) -> None:
        question = self._asked.question
        head = self._log.newest_head()
        if head is None:
            raise QueryError(f"tenant {question.tenant} has no signed tree head yet: nothing of it can be proven")
        self._head: StoredHead = head
        condition, self._bound = question.where()
        self._bound["size"] = head.size
        # What came after the newest tree head is not proven yet; what came before the log began never will be.
        self._where = f"{condition} AND (leaf_index IS NULL OR leaf_index < $size)"
        self._population = self._answering()
        self._leaves = [leaf for leaf, _ in self._population if leaf is not None]
        self._drawn = self._population
        if self._asked.sample is not None:
            seed, size = self._asked.sample
            drawn = sample.draw(seed, size, [event_id.bytes for _, event_id in self._population])
            self._drawn = [self._population[place] for place in drawn]
        self.population, self.records = len(self._population), len(self._drawn)
        self._range = self._leaf_range(self._leaves)
        self._listed = self._listable()
        self._stamps = self._time_stamps()
        erased = read_erased(self._cursor, question.tenant, *self._range)
        self._erased = {leaf: erasures[-1] for leaf, erasures in erased.items()}

    def _answering(self) -> list[tuple[int | None, uuid.UUID]]:
        """The events that answer, by rising place in the log, those without one last."""
        found = self._cursor.execute(
            f"SELECT leaf_index, event_id FROM events WHERE {self._where} ORDER BY leaf_index NULLS LAST, event_id "  # noqa: S608 - conditions of ours
            f"LIMIT {MAX_POPULATION + 1}",
            self._bound,
        ).fetchall()
        if len(found) > MAX_POPULATION:
            raise QueryError(
                f"more than {MAX_POPULATION:,} events answer this; narrow it down, for example by since and until"
            )
        return found

    def _listable(self) -> tuple[int, int]:
        """The leaves whose hashes the bundle lists: all of the range, or none of a range that is too long."""
        leaves = self._range[1] - self._range[0]
        if leaves <= MAX_LEAVES:
            return self._range
        if self._asked.complete:
            raise QueryError(
                f"a complete bundle lists every leaf of its range, at most {MAX_LEAVES:,}; this one has {leaves:,}. "
                "Narrow it down by since, or leave complete out"
            )
        return 0, 0

    def _leaf_range(self, leaves: Sequence[int]) -> tuple[int, int]:
        """The leaves among which everything that answers must be, half open.

        An event cannot be received before it started, and may be received any time after: of a span of time the range
        goes from the first leaf received in it to the newest.
        """
        question, size = self._asked.question, self._head.size
        if not question.is_of_a_span:
            return (leaves[0], leaves[-1] + 1) if leaves else (0, 0)
        first = 0 if question.since_ns is None else self._log.first_leaf_since(question.since_ns)
        begin = min([size if first is None else first, *leaves[:1]])
        return min(begin, size), size

    def _pieces(self) -> Iterator[bytes]:
        zipped = ZipStream()
        nodes = NodeSet(self._head.size, self._listed)
        for leaf in self._leaves:
            nodes.prove(leaf)
        for name, pieces in self._files(nodes):
            yield from zipped.add(name, pieces)
        yield zipped.end()

    def _files(self, nodes: NodeSet) -> Iterator[tuple[str, Iterable[bytes]]]:
        """The files of the zip file, in order: the page to read comes after the records that it lists."""
        shown: list[Mapping[str, Any]] = []
        yield "records.jsonl", self._record_lines(shown)
        if self._asked.with_content:
            yield "content.jsonl", self._content_lines()
        if self._asked.sample is not None:
            yield "population.jsonl", self._population_lines()
        if self._asked.complete:
            yield "others.jsonl", self._other_lines()
        if self._erased:
            yield "erased.jsonl", self._erased_lines()
        if self._listed[0] < self._listed[1]:
            yield "leaves.bin", self._leaf_hashes()
        yield "nodes.txt", (line.encode() for line in nodes.lines(self._log.nodes(self._head.size)))
        heads = self._heads()
        for head in heads:
            yield f"heads/{head.size}.txt", [head.note.encode()]
        for stamp in self._stamps:
            yield f"stamps/{stamp.size}.tsr", [stamp.response]
        yield "verifier_keys.txt", [f"{key}\n".encode() for key in self._keys]
        for name in _VERIFIERS:
            yield name, [_OFFLINE.joinpath(name).read_bytes()]
        title = self._asked.question.text()
        yield "README.txt", [README.format(title=title, name="BUNDLE.zip").encode()]
        yield "index.html", [index_page(title, self._facts(), shown, self.records).encode()]
        yield "evidence.json", [orjson.dumps(self._manifest(heads), option=orjson.OPT_INDENT_2)]

    def _rows(self) -> Iterator[pa.RecordBatch]:
        if self._asked.sample is None:
            yield from read_rows(self._cursor, self._where, self._bound)
        else:
            drawn = {"drawn": [event_id for _, event_id in self._drawn]}
            where = f"{self._where} AND event_id IN (SELECT unnest($drawn::UUID[]))"
            yield from read_rows(self._cursor, where, self._bound | drawn)

    def _record_lines(self, shown: list[Mapping[str, Any]]) -> Iterator[bytes]:
        for batch in self._rows():
            for row in batch.to_pylist():
                if len(shown) < MAX_ROWS:
                    shown.append(row)
                yield record_line(row)

    def _content_lines(self) -> Iterator[bytes]:
        for batch in self._rows():
            for said in read_contents(self._beside, self._vault, batch, self._erased):
                yield content_line(said)

    def _population_lines(self) -> Iterator[bytes]:
        for batch in read_rows(self._cursor, self._where, self._bound):
            yield from population_lines(batch)

    def _other_lines(self) -> Iterator[bytes]:
        condition, bound = self._asked.question.where()
        where = f"tenant = $whose AND leaf_index BETWEEN $first AND $last AND ({condition}) IS NOT TRUE"
        first, end = self._range
        bound |= {"whose": self._asked.question.tenant, "first": first, "last": end - 1}
        for batch in read_rows(self._cursor, where, bound):
            for row in batch.to_pylist():
                yield record_line(row)

    def _erased_lines(self) -> Iterator[bytes]:
        first, end = self._range
        for row in self._cursor.execute(_TAKEN, [self._asked.question.tenant, first, end]).fetchall():
            yield erased_line(*row)

    def _leaf_hashes(self) -> Iterator[bytes]:
        first, end = self._listed
        for low in range(first, end, _LEAVES_A_PIECE):
            yield self._log.hashes(0, low, min(low + _LEAVES_A_PIECE, end))

    def _heads(self) -> list[StoredHead]:
        """The newest tree head, the last from before the range, the first that covers the answer; the asker's own."""
        wanted = [self._log.head_before(self._range[0]), self._log.head_of(self._head.size)]
        wanted.append(self._log.head_covering(self._leaves[-1]) if self._leaves else None)
        wanted += [self._log.head_of(size) for size in self._asked.sizes]
        wanted += [self._log.head_of(stamp.size) for stamp in self._stamps]
        found = {head.size: head for head in wanted if head is not None and head.size}
        return [found[size] for size in sorted(found)] + ([self._head] if self._head.size not in found else [])

    def _time_stamps(self) -> list[StoredStamp]:
        """The first time stamp after which nothing in the answer can have been put in, of the head as it is kept."""
        if not self._leaves:
            return []
        stamp = first_stamp_covering(self._cursor, self._asked.question.tenant, self._leaves[-1])
        head = None if stamp is None else self._log.head_of(stamp.size)
        return [stamp] if stamp is not None and head is not None and head.signed_at == stamp.signed_at else []

    def _consistency(self, heads: Sequence[StoredHead]) -> list[dict[str, Any]]:
        newest = self._head.size
        nodes = self._log.nodes(newest)
        sizes = sorted({*(head.size for head in heads), *self._asked.sizes})
        return [
            {
                "old": size,
                "new": newest,
                "proof": [base64.b64encode(step).decode() for step in consistency_proof(size, newest, nodes)],
            }
            for size in sizes
            if 0 < size < newest
        ]

    def _facts(self) -> dict[str, Any]:
        asked, (first, end) = self._asked, self._range
        return {
            "tenant": asked.question.tenant,
            "question": asked.question.as_json()["where"],
            "population": f"{self.population:,} events",
            "sample": None if asked.sample is None else f"{self.records:,} drawn by the seed {asked.sample[0]!r}",
            "leaves of the log": f"{first:,} to {end - 1:,}" if end > first else "none",
            "tree head": f"{self._head.size:,} leaves, signed {iso_utc(self._head.signed_at)}",
            "asked by": asked.asked_by,
            "made": iso_utc(asked.asked_at),
        }

    def _manifest(self, heads: Sequence[StoredHead]) -> dict[str, Any]:
        asked, (first, end) = self._asked, self._range
        listed = self._listed[0] < self._listed[1]
        return {
            "format": FORMAT,
            "version": VERSION,
            "made_by": f"Tracehold {__version__}",
            "asked_by": asked.asked_by,
            "asked_at": iso_utc(asked.asked_at),
            "question": asked.question.as_json(),
            "log": {"tenant": asked.question.tenant, "origin": self._head.note.partition("\n")[0]},
            "verifier_keys": [str(key) for key in self._keys],
            "heads": [f"heads/{head.size}.txt" for head in heads],
            "consistency": self._consistency(heads),
            "time_stamps": [
                {
                    "head": f"heads/{stamp.size}.txt",
                    "stamp": f"stamps/{stamp.size}.tsr",
                    "authority": stamp.authority,
                    "stamped_at": iso_utc(stamp.stamped_at),
                }
                for stamp in self._stamps
            ],
            "population": {
                "count": self.population,
                "not_in_the_log": self.population - len(self._leaves),
                "counted_by": f"count(*) of events WHERE {asked.question.as_json()['where']}",
                "first_leaf": first if end > first else None,
                "last_leaf": end - 1 if end > first else None,
            },
            "sample": None
            if asked.sample is None
            else {"algorithm": sample.ALGORITHM, "seed": asked.sample[0], "size": asked.sample[1]},
            "records": self.records,
            "content": asked.with_content,
            "leaves": {"first": self._listed[0], "count": self._listed[1] - self._listed[0], "bytes_each": HASH_BYTES}
            if listed
            else None,
        }
