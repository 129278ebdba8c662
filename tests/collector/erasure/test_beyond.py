"""Beyond the database: other stores are erased as well, and who cannot be reached is listed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.erasing import PSEUDONYMS, SECRET, fill, opened
from tracehold.core.errors import ConfigurationError
from tracehold.core.message import Message
from tracehold.core.scope import Scope
from tracehold.engine import Ctx, Engine
from tracehold.events import Event
from tracehold.events.sqlite_store import SQLiteEventStore
from tracehold.execution.checkpoints import SqliteCheckpointStore
from tracehold.observability.exporters.jsonl import JsonlExporter
from tracehold.observability.exporters.sqlite import SqliteExporter
from tracehold.sessions.sqlite import SqliteSessionStore
from tracehold_collector.access.journal import AccessLog, Entry
from tracehold_collector.erasure.beyond import BeyondDatabase
from tracehold_collector.erasure.canaries import CanaryScanner
from tracehold_collector.erasure.engine import Parts
from tracehold_collector.erasure.places_file import Place, load_places
from tracehold_collector.forward.progress import Progress
from tracehold_collector.store.feed import Position

_LINES = [
    {"type": "llm_call", "run_id": "alice-1", "event_id": f"{0:032x}", "prompt": f"{SECRET} in a file"},
    {"type": "llm_call", "run_id": "bob-1", "event_id": f"{20:032x}", "prompt": "bob in a file"},
    {"type": "llm_call", "run_id": "both", "event_id": f"{30:032x}", "prompt": f"{SECRET} in a shared run"},
    {"type": "llm_call", "run_id": "both", "event_id": f"{31:032x}", "prompt": "bob in a shared run"},
    {"type": "llm_call", "run_id": "never-sent", "user": "alice", "prompt": f"{SECRET} and never sent"},
]


def _erase(folder: Path, *places: Place, **body: Any) -> Any:
    with opened(folder / "data") as store:
        store.erasures.engine._parts = Parts(beyond=BeyondDatabase(store.database, folder / "data", PSEUDONYMS, places))
        fill(store)
        return store.erase(**({"scope": "subject", "value": "alice", "mode": "delete"} | body))


def _place(kind: Any, path: Path, **more: Any) -> Place:
    return Place(name=f"the {kind}", kind=kind, path=path, tenant="default", **more)


def _told(record: Any, name: str) -> tuple[int, int, str | None]:
    return next((each.found, each.removed, each.error) for each in record.places if each.place == name)


def _bytes(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def test_lines_of_a_trace_file_go_where_they_stand_and_an_exporter_goes_on_appending(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    exporter = JsonlExporter(path)
    for line in _LINES:
        exporter.export(line)
    record = _erase(tmp_path, _place("jsonl", path))
    exporter.export({"type": "run_end", "run_id": "bob-1"})
    exporter.close()
    assert _told(record, "the jsonl") == (3, 3, None)
    left = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    assert [line.get("prompt") for line in left] == ["bob in a file", "bob in a shared run", None]
    assert SECRET.encode() not in path.read_bytes()


def test_rows_of_a_trace_database_go_with_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    exporter = SqliteExporter(path)
    for line in _LINES:
        exporter.export(line)
    record = _erase(tmp_path, _place("trace-sqlite", path))
    assert _told(record, "the trace-sqlite") == (3, 3, None)
    assert SECRET.encode() not in _bytes(path)
    exporter.export({"type": "run_end", "run_id": "bob-1"})
    exporter.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM traces").fetchone() == (3,)


def test_sessions_and_checkpoints_of_a_person_go_and_those_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    sessions, checkpoints = SqliteSessionStore(path), SqliteCheckpointStore(path)
    for user in ("alice", "bob"):
        for session in ("s1", "s2"):
            scope = Scope(user=user, session=session, agent="mail")
            sessions.append(Message(role="user", content=f"{user} said"), scope=scope)
            checkpoints.save(json.dumps({"of": f"{user} saved"}), scope=scope)
    record = _erase(tmp_path, _place("sessions", path), _place("checkpoints", path))
    assert _told(record, "the sessions") == (2, 2, None)
    assert _told(record, "the checkpoints") == (2, 2, None)
    assert len(sessions.load(all_scopes=True)) == 2
    assert checkpoints.load(scope=Scope(user="bob", session="s1", agent="mail")) is not None
    assert checkpoints.load(scope=Scope(user="alice", session="s1", agent="mail")) is None
    sessions.close()
    checkpoints.close()
    left = _bytes(path)
    assert b"alice said" not in left
    assert b"alice saved" not in left
    assert b"bob said" in left


class _Echo:
    """Ends with what it was given."""

    name = "echo"

    def subscriptions(self) -> list[str]:
        return ["aaa.run.started"]

    async def on_event(self, event: Event, ctx: Ctx, /) -> list[Event]:
        done = {"kind": "success", "value": event.data["input"], "reason": None}
        return [event.caused("aaa.run.completed", done)]


@pytest.mark.parametrize("mode", ["scrub", "delete"])
def test_runs_of_an_engines_log_go_by_the_engines_own_means(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "log.db"

    async def play() -> None:
        async with Engine(store=SQLiteEventStore(path)) as engine:
            for run_id in ("alice-1", "bob-1"):
                handle = await engine.start(_Echo(), {"q": f"{run_id} asked"}, run_id=run_id)
                await handle.result()

    asyncio.run(play())
    record = _erase(tmp_path, _place("engine-sqlite", path), mode=mode)
    assert _told(record, "the engine-sqlite") == (1, 1, None)
    assert b"alice-1 asked" not in _bytes(path)
    assert b"bob-1 asked" in _bytes(path)


def test_a_place_that_cannot_be_reached_is_told_and_hinders_no_other(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(_LINES[0]) + "\n")
    broken = tmp_path / "broken.db"
    broken.write_text("no database")
    gone = Place(name="gone", kind="jsonl", path=tmp_path / "gone", tenant="default")
    record = _erase(tmp_path, gone, _place("trace-sqlite", broken), _place("jsonl", path))
    assert _told(record, "gone") == (0, 0, "there is no such file")
    assert _told(record, "the trace-sqlite") == (0, 0, "DatabaseError")
    assert _told(record, "the jsonl") == (1, 1, None)
    assert sum("could not be reached" in stayed.why for stayed in record.stayed) == 2


def test_a_place_of_another_tenant_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(_LINES[0]) + "\n")
    record = _erase(tmp_path, Place(name="theirs", kind="jsonl", path=path, tenant="globex"))
    assert all(each.place != "theirs" for each in record.places)
    assert SECRET in path.read_text()


def test_recipients_are_forwards_downloads_and_backups_of_the_keys(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as store:
        store.erasures.engine._parts = Parts(beyond=BeyondDatabase(store.database, data, PSEUDONYMS, ()))
        fill(store)
        ((first,),) = store.rows("SELECT min(received_at) FROM events")
        Progress(data / "forward-1.json", "https://jaeger.example:4318", Position(first + 1, None)).save()
        Progress(data / "forward-2.json", "https://never.example:4318", Position(first - 1, None)).save()
        log = AccessLog(data)
        log.add(Entry("export", "/api/v1/export/events", "k9", "bi-team", tenants=("default",)))
        log.add(Entry("export", "/api/v1/export/events", "k9", "globex-team", tenants=("globex",)))
        log.add(Entry("read", "/api/v1/queries/{name}", "k9", "reader", tenants=None))
        log.close()
        keys = store.database.vault.keys
        keys.backup(tmp_path / "old.db", made_at=1, expires_at=2)
        kept = keys.backup(tmp_path / "kept.db", made_at=first, expires_at=first * 2)
        record = store.erase(scope="subject", value="alice", mode="scrub")
    told = {(each.kind, each.name) for each in record.recipients}
    assert told == {
        ("forward", "https://jaeger.example:4318"),
        ("download", "bi-team (/api/v1/export/events)"),
        ("key backup", str(tmp_path / "kept.db")),
    }
    backup = next(each for each in record.recipients if each.kind == "key backup")
    assert backup.until == kept.expires_at
    assert any("backups of the database" in stayed.what for stayed in record.stayed)


def test_canaries_are_found_before_the_file_is_written_anew_and_never_what_stays(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (tmp_path / "agent.log").write_bytes(b"an old line: what alice said 0 in full")

    def written_anew() -> None:
        with store.database.cursor() as cursor:
            cursor.execute("CHECKPOINT")

    with opened(data) as store:
        scanner = CanaryScanner(store.database, data, [tmp_path / "agent.log"])
        store.erasures.engine._parts = Parts(rewrite=written_anew, scanner=scanner)
        fill(store)
        written_anew()
        record = store.erase(scope="subject", value="alice", mode="delete")
        canaries = record.canaries
        assert canaries is not None
        assert (canaries.sealed, canaries.plain > 0, canaries.files > 3) == (2, True, True)
        # DuckDB keeps what was deleted in its file: the search has to see it there (docs/decisions/0035).
        assert canaries.found.get("tracehold.duckdb") == 2
        assert "keys.db" not in canaries.found


_GOOD = '[[places]]\nname = "traces"\nkind = "jsonl"\npath = "trace.jsonl"\ntenant = "acme"\n'


def test_a_file_of_places_is_read_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "places.toml").write_text(_GOOD)
    (place,) = load_places(tmp_path / "places.toml")
    assert place.path == tmp_path / "trace.jsonl"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_GOOD + _GOOD, "two called 'traces'"),
        (_GOOD.replace("jsonl", "tape", 1), "places.0.kind"),
        ("[[places]\n", "is no TOML"),
    ],
)
def test_a_file_of_places_that_cannot_be_used_says_why(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "places.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_places(tmp_path / "places.toml")
