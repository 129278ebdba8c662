"""`tracehold erase`, `holds`, `retention` and `sealing`, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.records import make_record
from tracehold_collector.cli.app import app
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner, Result


@pytest.fixture
def server(serve: Callable[..., CollectorServer], tmp_path: Path) -> CollectorServer:
    policies = tmp_path / "keep.toml"
    policies.write_text('[[policy]]\nname = "words"\ndays = 200\n')
    started = serve(retention=policies)
    alice = started.erasures._pseudonyms.user("alice")
    started.writer.submit([make_record(n, "run-1", user_ref=alice) for n in range(3)]).result(30)
    return started


@pytest.fixture
def tracehold(server: CollectorServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("TRACEHOLD_URL", server.url)
    monkeypatch.setenv("TRACEHOLD_DATA_DIR", str(server.settings.data_dir))
    monkeypatch.setenv("COLUMNS", "240")

    def run(*arguments: str, status: int = 0, typed: str | None = None) -> Result:
        result = CliRunner().invoke(app, arguments, input=typed)
        assert result.exit_code == status, result.output + repr(result.exception)
        return result

    return run


def _row(result: Result) -> dict[str, Any]:
    # The collector runs in this process, and its log goes to the same place.
    told: dict[str, Any] = json.loads([line for line in result.stdout.splitlines() if line.startswith("{")][-1])
    return told


def test_an_erasure_is_previewed_asked_for_and_shown(tracehold: Any) -> None:
    preview = tracehold("erase", "preview", "subject", "alice", "--mode", "delete").stdout
    assert "3 events of 1 runs" in preview
    # The person's id comes from a file, so that no shell keeps it.
    arguments = ("erase", "request", "subject", "-", "--mode", "delete", "--basis", "gdpr-17-1-a")
    assert "nothing was erased" in str(tracehold(*arguments, status=1, typed="alice\n").exception)
    done = tracehold(*arguments, "--yes", "--note", "by mail", typed="alice\n")
    assert "completed" in done.stdout
    assert "events" in done.stdout
    assert "alice" not in done.output
    row = _row(tracehold("erase", "list", "--json"))
    assert row["status"] in {"completed", "bytes gone"}
    assert (row["events"], row["requester"]) == (3, "anyone on this machine")
    shown = tracehold("erase", "show", row["id"]).stdout
    assert "GDPR Art. 17(1)(a)" in shown
    assert "unreadable since" in shown
    assert "none is overdue" in tracehold("erase", "list", "--overdue").stdout


def test_holds_are_placed_and_released(tracehold: Any) -> None:
    hold = _row(tracehold("holds", "place", "run", "run-1", "--reason", "case 1", "--json"))
    assert "stays: 1 run: under legal hold" in tracehold("erase", "preview", "run", "run-1").stdout
    refused = _row(tracehold("erase", "request", "run", "run-1", "--yes", "--json"))
    assert (refused["status"], refused["refused_why"]) == ("refused", "hold")
    assert "case 1" in tracehold("holds", "list").stdout
    tracehold("holds", "release", hold["id"])
    assert "nothing is under a legal hold" in tracehold("holds", "list").stdout


def test_retention_policies_are_listed_and_tried(tracehold: Any, tmp_path: Path) -> None:
    assert "at least 183 days" in tracehold("retention", "list").stdout
    assert _row(tracehold("retention", "preview", "--json"))["events"] == 0
    assert "nothing has had its time" in tracehold("retention", "run").stdout
    assert "none below 183 days" in tracehold("retention", "check", str(tmp_path / "keep.toml")).stdout


def test_backups_of_the_keys_are_made_beside_a_running_collector_and_listed(tracehold: Any, tmp_path: Path) -> None:
    made = tracehold("sealing", "backup", "--to", str(tmp_path / "keys.old"), "--days", "7").stdout
    assert "delete it by" in made
    assert _row(tracehold("sealing", "backups", "--json"))["state"] == "there"
    (tmp_path / "keys.old").unlink()
    assert _row(tracehold("sealing", "backups", "--json"))["state"] == "moved, or deleted"
    # An erasure after it names it, until its time is over.
    record = _row(tracehold("erase", "request", "run", "run-1", "--yes", "--json"))
    assert [each["kind"] for each in record["recipients"]] == ["key backup"]
