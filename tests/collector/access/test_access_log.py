"""The access log as a file: it only grows, never blocks for long, and says what is missing."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.processes import wait_for
from tracehold.core.errors import ConfigurationError
from tracehold_collector.access import journal, trimming
from tracehold_collector.access.file import open_file
from tracehold_collector.access.journal import AccessLog, Entry
from tracehold_collector.access.reading import Asked, read_log
from tracehold_collector.access.tokens import new_token
from tracehold_collector.core.accessfile import FILE_NAME
from tracehold_collector.core.settings import load_settings
from tracehold_collector.core.times import iso_utc


@pytest.fixture
def log(tmp_path: Path) -> Iterator[AccessLog]:
    opened = AccessLog(tmp_path)
    yield opened
    opened.close()


def entry(**fields: Any) -> Entry:
    return Entry(**{"action": "read", "what": "/x", "key_id": "k", "who": "ann", "tenants": ("a",)} | fields)


def test_a_line_is_there_when_its_future_says_so(log: AccessLog, tmp_path: Path) -> None:
    assert log.add(entry(parameters={"run_id": "r1"}, rows=3, status=200)).result(10)
    (line,) = read_log(tmp_path, Asked(), None)
    told = {name: line[name] for name in ("who", "what", "parameters", "tenants", "rows", "status", "repeated")}
    assert told == {
        "who": "ann", "what": "/x", "parameters": {"run_id": "r1"}, "tenants": ["a"], "rows": 3, "status": 200,
        "repeated": 1,
    }  # fmt: skip


def test_a_line_is_neither_changed_nor_removed(log: AccessLog, tmp_path: Path) -> None:
    log.add(entry()).result(10)
    with closing(open_file(tmp_path)) as connection:
        for statement in ("UPDATE access_log SET who = 'bob'", "DELETE FROM access_log"):
            with pytest.raises(sqlite3.IntegrityError, match="only grows"):
                connection.execute(statement)


def test_a_stranger_who_knocks_without_end_fills_no_disk(log: AccessLog, tmp_path: Path) -> None:
    for _ in range(1_000):
        log.refused(entry(action="denied", tenants=(), key_id=None), "strangers")
    log.refused(entry(action="denied", who="bob"), "bob")
    log.close()
    lines = read_log(tmp_path, Asked(), None)
    assert len(lines) == 12
    assert sum(line["repeated"] for line in lines) == 1_001


def test_refusals_of_the_minute_before_are_counted_in_the_next_line(
    log: AccessLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(journal.time, "monotonic", lambda: now[0])
    for _ in range(15):
        log.refused(entry(action="denied"), "ann")
    now[0] += 61
    log.refused(entry(action="denied"), "ann")
    log.close()
    assert [line["repeated"] for line in read_log(tmp_path, Asked(), None)] == [6, *[1] * 10]


def test_lines_that_could_not_be_written_are_counted_when_they_can_again(log: AccessLog, tmp_path: Path) -> None:
    with closing(open_file(tmp_path)) as blocker:
        log._connection.execute("PRAGMA busy_timeout = 1")
        blocker.execute("BEGIN IMMEDIATE")
        assert log.add(entry()).result(10) is False
        blocker.execute("ROLLBACK")
    assert log.add(entry()).result(10)
    newest, gap = read_log(tmp_path, Asked(), None)
    assert newest["action"] == "read"
    assert (gap["action"], gap["repeated"]) == ("lost", 1)


def test_a_full_queue_never_blocks_whoever_asks(
    log: AccessLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    real = log._write
    monkeypatch.setattr(log, "_write", lambda entries: held.wait(30) and real(entries))
    monkeypatch.setattr(log._waiting, "maxsize", 5)
    futures = [log.add(entry()) for _ in range(50)]
    assert sum(future.done() for future in futures) > 30
    held.set()
    log.close()
    lines = read_log(tmp_path, Asked(), None)
    assert sum(line["repeated"] for line in lines if line["action"] == "read") < 20


@given(texts=st.lists(st.text(max_size=50), max_size=5), number=st.integers(-(2**70), 2**70))
def test_any_value_fits_a_line(tmp_path_factory: pytest.TempPathFactory, texts: list[str], number: int) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = AccessLog(folder)
    said = {"x": texts, "\0": number, "y" * 5000: {"z": "\ud800" * 3}}
    assert log.add(entry(parameters=said, who="\ud800", what="a" * 5000)).result(10)
    log.close()
    (line,) = read_log(folder, Asked(), None)
    assert len(line["what"]) <= 200


def test_no_line_holds_a_key(log: AccessLog, tmp_path: Path) -> None:
    token = new_token()
    shown = "x" * 180 + token.reveal()
    log.add(entry(parameters={"run_id": shown, token.reveal(): [shown]}, who=shown, what=shown)).result(10)
    log.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.secret[:5].encode() not in kept


def test_an_auditor_of_one_tenant_sees_that_others_read_it_and_nothing_of_other_tenants(
    log: AccessLog, tmp_path: Path
) -> None:
    log.add(entry(tenants=("a",), parameters={"run_id": "of a"}, rows=1))
    log.add(entry(tenants=("b",), parameters={"run_id": "of b"}, rows=2))
    log.add(entry(tenants=("a", "b"), parameters={"run_id": "of b"}, rows=3))
    log.add(entry(tenants=None, parameters={"run_id": "of b"}, rows=4))
    log.add(entry(tenants=(), action="denied", who="a stranger")).result(10)
    lines = read_log(tmp_path, Asked(), ("a",))
    seen = [(line["tenants"], line["parameters"], line["rows"]) for line in lines]
    assert seen == [(["a"], None, None), (["a"], None, None), (["a"], {"run_id": "of a"}, 1)]
    assert len(read_log(tmp_path, Asked(), None)) == 5


def test_lines_are_found_by_key_action_time_and_page(log: AccessLog, tmp_path: Path) -> None:
    for number in range(5):
        log.add(entry(at=number, key_id=f"k{number % 2}", action="export" if number == 4 else "read"))
    log.close()
    assert len(read_log(tmp_path, Asked(key="k1"), None)) == 2
    assert len(read_log(tmp_path, Asked(key="ann"), None)) == 5
    assert len(read_log(tmp_path, Asked(action="export"), None)) == 1
    assert [line["at"] for line in read_log(tmp_path, Asked(since=1, until=3), None)] == [2, 1]
    newest = read_log(tmp_path, Asked(limit=2), None)
    assert [line["at"] for line in newest] == [4, 3]
    assert [line["at"] for line in read_log(tmp_path, Asked(before=newest[-1]["number"]), None)] == [2, 1, 0]


DAY = 86_400 * 10**9
NOW = 1_796_000_000 * 10**9


def fill(folder: Path, ages_days: list[int]) -> None:
    with closing(open_file(folder)) as connection:
        journal.write_entries(connection, [entry(at=NOW - age * DAY, who=f"{age} days") for age in ages_days])


@pytest.fixture
def at_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "now_ns", lambda: NOW)


def trimmed(folder: Path, days: int | None) -> list[dict[str, Any]]:
    AccessLog(folder, days).close()
    return read_log(folder, Asked(limit=10_000), None)


@pytest.mark.usefixtures("at_now")
def test_lines_are_removed_when_they_were_kept_long_enough_and_a_line_says_so(tmp_path: Path) -> None:
    fill(tmp_path, [500, 401, 399, 0])
    said, *kept = trimmed(tmp_path, 400)
    assert [line["who"] for line in kept] == ["0 days", "399 days"]
    assert (said["action"], said["what"], said["who"]) == ("admin", "access log trim", "the collector")
    assert said["parameters"] == {"until": iso_utc(NOW - 400 * DAY), "lines": 2}
    assert said["number"] > kept[0]["number"] > 2  # numbers go on: that lines are gone shows in them too
    assert len(trimmed(tmp_path, 400)) == 3  # nothing to do, nothing said


@pytest.mark.usefixtures("at_now")
def test_without_a_retention_everything_is_kept(tmp_path: Path) -> None:
    fill(tmp_path, [5_000, 1])
    assert len(trimmed(tmp_path, None)) == 2


@pytest.mark.usefixtures("at_now")
def test_a_long_log_is_trimmed_whole_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "_BATCH", 10)
    fill(tmp_path, [900] * 35 + [1] * 5)
    log = AccessLog(tmp_path, 400)
    wait_for(lambda: len([1 for line in read_log(tmp_path, Asked(), None) if line["who"] == "900 days"]) == 0)
    assert log.add(entry()).result(10)
    log.close()
    lines = read_log(tmp_path, Asked(), None)
    assert sum(line["parameters"].get("lines", 0) for line in lines) == 35
    assert len([line for line in lines if line["who"] in {"1 days", "ann"}]) == 6


@pytest.mark.usefixtures("at_now")
def test_nothing_younger_than_six_months_can_be_removed_and_no_removal_hidden(tmp_path: Path) -> None:
    fill(tmp_path, [200, 100])
    with closing(open_file(tmp_path)) as connection:
        note = "INSERT INTO access_log_trims VALUES (?, ?, 1)"
        with pytest.raises(sqlite3.IntegrityError, match="six months"):
            connection.execute(note, (NOW, NOW - 182 * DAY))
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            connection.execute("DELETE FROM access_log")
        connection.execute(note, (NOW, NOW - 183 * DAY))
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            connection.execute("DELETE FROM access_log")
        connection.execute("DELETE FROM access_log WHERE number = 1")
        for statement in ("DELETE FROM access_log_trims", "UPDATE access_log_trims SET lines = 0"):
            with pytest.raises(sqlite3.IntegrityError, match="stays told"):
                connection.execute(statement)


@pytest.mark.usefixtures("at_now")
def test_a_file_of_the_version_before_is_trimmed_too(tmp_path: Path) -> None:
    fill(tmp_path, [500, 1])
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as connection:
        connection.executescript(
            "DROP TRIGGER access_log_no_delete; DROP TABLE access_log_trims; PRAGMA user_version = 1;"
            "CREATE TRIGGER access_log_no_delete BEFORE DELETE ON access_log "
            "BEGIN SELECT RAISE(ABORT, 'the access log only grows'); END;"
        )
    assert [line["who"] for line in trimmed(tmp_path, 400)] == ["the collector", "1 days"]


@pytest.mark.parametrize("days", ["182", "0", "-1", "36501"])
def test_a_retention_that_audits_could_not_do_with_is_refused(days: str) -> None:
    with pytest.raises(ConfigurationError, match="access_log_days"):
        load_settings(access_log_days=days)
    assert load_settings().access_log_days == 400
