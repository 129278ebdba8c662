"""`tracehold verify` and `tracehold heads`, as an auditor uses them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.records import make_record
from tracehold_collector.cli.app import app
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner

Run = Callable[..., Any]


@pytest.fixture
def server(serve: Callable[..., CollectorServer]) -> CollectorServer:
    made = serve(tree_head_events=1)
    made.writer.submit([make_record(n, run=f"run-{n}") for n in range(20)]).result(10)
    made.heads.look()
    return made


@pytest.fixture
def run(server: CollectorServer) -> Run:
    def called(*arguments: str, url: str | None = None) -> Any:
        result = CliRunner().invoke(app, [*arguments, "--url", url or server.url])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return called


def alter(server: CollectorServer, sql: str) -> None:
    with server.database.cursor() as cursor:
        cursor.execute(sql)


def test_a_log_that_nobody_touched_is_intact(run: Run) -> None:
    done = run("verify")
    assert done.exit_code == 0, done.output
    assert "default: intact" in done.stdout
    assert "20 verified" in done.stdout
    assert "~collector: intact" in done.stdout
    assert "the keys believed are those that the collector named" in done.stdout


def test_an_altered_decision_is_an_alarm_that_names_the_event(run: Run, server: CollectorServer) -> None:
    alter(server, "UPDATE events SET decision = 'allowed' WHERE leaf_index = 7")
    done = run("verify", "--tenant", "default")
    assert done.exit_code == 1
    assert "NOT INTACT: 1 alarm" in done.stdout
    assert f"altered leaf 7 event {uuid.UUID(int=7)}" in done.stdout


@pytest.mark.parametrize("contents", ["none", "check", "raw"])
def test_what_was_said_is_held_against_its_commitment_here_or_there(
    run: Run, server: CollectorServer, contents: str
) -> None:
    alter(
        server, "UPDATE contents SET body = (SELECT body FROM contents WHERE run_id = 'run-1') WHERE run_id = 'run-2'"
    )
    done = json.loads(run("verify", "--tenant", "default", "--contents", contents, "--json").stdout)
    assert done["intact"] == (contents == "none")
    assert done["contents_not_looked_at"] == (20 if contents == "none" else 0)


def test_one_event_and_a_stretch_are_verified_alone(run: Run, server: CollectorServer) -> None:
    alter(server, "UPDATE events SET rule = 'x' WHERE leaf_index = 7")
    good, bad = (str(uuid.UUID(int=n)) for n in (6, 7))
    assert run("verify", "--event", bad).exit_code == 1
    one = run("verify", "--event", good)
    assert f"event {bad}" in one.stdout  # the tree head it stands under covers both
    assert run("verify", "--tenant", "default", "--leaves", "3:9").exit_code == 1
    assert run("verify", "--leaves", "9:3").exit_code == 2


def test_a_key_of_ones_own_is_believed_and_a_strangers_is_not(run: Run) -> None:
    key = next(line for line in run("heads", "keys").stdout.splitlines() if "/default+" in line)
    assert "the keys believed" not in run("verify", "--tenant", "default", "--key", key).stdout
    stranger = key.replace("/default+", "/another+")
    with pytest.raises(CollectorError):
        run("verify", "--tenant", "default", "--key", stranger)


def test_a_head_that_was_kept_gives_away_a_log_that_was_cut(run: Run, server: CollectorServer, tmp_path: Path) -> None:
    file = tmp_path / "head.txt"
    file.write_text(run("heads", "show", "default").stdout, encoding="utf-8")
    assert run("verify", "--tenant", "default", "--tree-heads", str(file)).exit_code == 0
    for table in ("events", "log_hashes", "tree_heads", "run_deltas", "contents"):
        alter(server, f"DELETE FROM {table} WHERE tenant = 'default'")  # noqa: S608
    (server.settings.data_dir / "tree-heads.log").unlink()
    done = run("verify", "--tree-heads", str(file))
    assert done.exit_code == 1
    assert "no such log is here" in done.stdout


def test_heads_are_listed_with_what_they_cover(run: Run) -> None:
    rows = {row["tenant"]: row for row in map(json.loads, run("heads", "list", "--json").stdout.splitlines())}
    assert rows["default"]["covered"] == rows["default"]["leaves"] == 20
    assert rows["default"]["note"].startswith("tracehold.internal/")


def test_after_a_rotation_both_keys_are_believed(run: Run, server: CollectorServer) -> None:
    folder = str(server.settings.data_dir)
    rotated = CliRunner().invoke(app, ["heads", "rotate", "--data-dir", folder])
    assert rotated.exit_code == 0, rotated.output
    server.writer.submit([make_record(90)]).result(10)
    server.heads.look()
    assert len([line for line in run("heads", "keys", "--tenant", "default").stdout.splitlines() if line]) == 2
    done = json.loads(run("verify", "--tenant", "default", "--json").stdout)
    assert (done["intact"], done["tree_heads"]) == (True, 2)


def test_a_folder_is_verified_when_no_collector_runs_and_refused_while_one_does(
    run: Run, server: CollectorServer
) -> None:
    folder = str(server.settings.data_dir)
    server.close()
    done = CliRunner().invoke(app, ["verify", "--data-dir", folder])
    assert done.exit_code == 0, done.output
    assert "20 verified" in done.stdout


def test_a_folder_without_a_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match=str(tmp_path)):
        raise CliRunner().invoke(app, ["verify", "--data-dir", str(tmp_path)]).exception or AssertionError


def test_a_window_is_no_larger_than_memory_allows(run: Run, server: CollectorServer) -> None:
    for contents, most in (("check", 65_536), ("raw", 512)):
        for width, status in ((most, 200), (most + 1, 400)):
            asked = {"tenant": "default", "first": "0", "end": str(width), "contents": contents}
            answer = httpx.get(f"{server.url}/api/v1/log/window", params=asked, trust_env=False)
            assert answer.status_code == status


def test_a_log_of_many_windows_is_verified_with_its_contents(run: Run, server: CollectorServer) -> None:
    server.writer.submit([make_record(n, run=f"run-{n % 9}") for n in range(100, 1300)]).result(20)
    server.heads.look()
    done = json.loads(run("verify", "--tenant", "default", "--contents", "raw", "--json").stdout)
    assert (done["intact"], done["counts"]) == (True, {"verified": 1220})
