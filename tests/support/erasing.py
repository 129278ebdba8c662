"""A store with the runs of some people, and who may erase them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracehold_collector.access.principal import Principal
from tracehold_collector.core.pseudonyms import Pseudonyms
from tracehold_collector.core.record import Record
from tracehold_collector.erasure.engine import Parts
from tracehold_collector.erasure.service import Erasures, Rules
from tracehold_collector.sealing.sqlite_keys import SqliteKeyStore
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.opened import Bounds, OpenedChunks
from tracehold_collector.store.writer import Writer

from support.records import make_record

PSEUDONYMS = Pseudonyms(b"k" * 32, "default")
ADMIN = Principal("k1", "dpo", frozenset({"admin", "erase"}), None, "default")
OTHER = Principal("k2", "counsel", frozenset({"admin", "erase"}), None, "default")
SECRET = "what alice said"


class Store:
    """An open store and its erasures; everything is real, files and keys included."""

    def __init__(self, folder: Path, rules: Rules | None = None, parts: Parts | None = None) -> None:
        self.folder = folder
        self.database = Database(
            folder / FILE_NAME, keys=lambda may_create: SqliteKeyStore.open_in(folder, may_create=may_create)
        )
        self.writer = Writer(self.database, run_digest=lambda tenant, run: PSEUDONYMS.of(tenant).run(run))
        self.erasures = Erasures(self.database, self.writer, PSEUDONYMS, rules, parts)

    def add(self, *records: Record) -> Any:
        return self.writer.submit(records).result(30)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.database.cursor() as cursor:
            return cursor.execute(sql, list(values)).fetchall()

    def count(self, table: str, condition: str = "true") -> int:
        return int(self.rows(f"SELECT count(*) FROM {table} WHERE {condition}")[0][0])  # noqa: S608

    def said(self) -> dict[int, Any]:
        """What can still be read, by the number of the event."""
        with self.database.cursor() as cursor:
            rows = cursor.execute(
                "SELECT event_id, content_chunk, content_pos, received_at FROM events WHERE source <> 'collector'"
            ).fetchall()
            if not rows:
                return {}
            times = [row[3] for row in rows]
            opened = OpenedChunks(self.database.vault, 1 << 30).contents(
                cursor, [(row[1], row[2]) for row in rows if row[1]], Bounds(min(times), max(times))
            )
        found = {row[0].int: opened.get((row[1], row[2])) for row in rows}
        return {number: content for number, content in found.items() if content}

    def erase(self, **body: Any) -> Any:
        """Ask for an erasure and carry it out."""
        record = self.erasures.request(body, ADMIN)
        return self.erasures.engine.finish(record.id)

    def close(self) -> None:
        self.erasures.close()
        self.writer.close()
        self.database.close()


@contextmanager
def opened(folder: Path, rules: Rules | None = None, parts: Parts | None = None) -> Iterator[Store]:
    store = Store(folder, rules, parts)
    try:
        yield store
    finally:
        store.close()


def fill(store: Store) -> None:
    """Alice's two runs, Bob's one, one of both and of nobody, all with content; numbers are the events' ids."""
    alice, bob = PSEUDONYMS.user("alice"), PSEUDONYMS.user("bob")
    store.add(*(make_record(n, "alice-1", user_ref=alice, content={"text": f"{SECRET} {n}"}) for n in range(3)))
    store.add(*(make_record(n, "alice-2", user_ref=alice, content={"text": f"{SECRET} {n}"}) for n in range(10, 13)))
    store.add(*(make_record(n, "bob-1", user_ref=bob, content={"text": f"bob {n}"}) for n in range(20, 23)))
    shared = [
        make_record(30, "both", user_ref=alice, content={"text": f"{SECRET} 30"}),
        make_record(31, "both", user_ref=bob, content={"text": "bob 31"}),
        make_record(32, "both", content={"text": "nobody 32"}),
    ]
    store.add(*shared)
    store.add(make_record(33, "both", user_ref=alice, content={"text": f"{SECRET} 33"}))
    store.add(make_record(34, "both", user_ref=bob, content={"text": "bob 34"}))


ALICE = {0, 1, 2, 10, 11, 12, 30, 33}
OTHERS = {20, 21, 22, 31, 32, 34}
