"""`tracehold review` and `tracehold policy`, as a reviewer types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.keys import make_key
from support.records import make_record
from tracehold_collector.cli.app import app
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner, Result

ID = "00000000-0000-0000-0000-000000000001"
POLICY = 'version = 1\nname = "desk"\n[[rules]]\nid = "search"\neffect = "allow"\ntools = ["search"]\n'


@pytest.fixture
def tracehold(
    serve: Callable[..., CollectorServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """The command of whoever is named, against a collector with one denial and a later try."""
    folder = tmp_path / "data"
    roles = ("ingest", "read", "audit", "content")
    keys = {name: make_key(folder, *roles, name=name) for name in ("ann", "ben")}
    server = serve(data_dir=folder)
    monkeypatch.setenv("TRACEHOLD_URL", server.url)
    gate: dict[str, Any] = {"kind": "gate", "type": "tool_call", "name": "send_mail", "model": None}
    gate |= {"status": "blocked", "decision": "denied", "rule": "no-mail", "agent": "support", "cost_usd": None}
    server.writer.submit(
        [
            make_record(1, **gate, content={"reason": "mail is not allowed", "params": {"subject": "the whole list"}}),
            make_record(2, agent="support"),
            make_record(3, kind="tool", type="tool_call", name="shell", content={"params": {"c": "the whole list"}}),
        ]
    ).result(10)

    def run(who: str, *arguments: str, status: int = 0) -> Result:
        monkeypatch.setenv("TRACEHOLD_API_KEY", keys[who])
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == status, result.output + repr(result.exception)
        return result

    return run


def rows_of(told: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_an_incident_goes_from_the_queue_to_its_second_sign_off(tracehold: Callable[..., Result]) -> None:
    (row,) = rows_of(tracehold("ann", "review", "list", "--state", "open", "--json"))
    assert (row["event_id"], row["state"], row["retries"]) == (ID, "open", 0)
    assert tracehold("ann", "review", "assign", ID).stdout == f"{ID}: assigned, with ann (revision 1)\n"
    told = tracehold("ann", "review", "verdict", ID, "incident", "-m", "see INC-7")
    assert told.stdout == f"{ID}: awaiting sign off, with ann, incident by ann (revision 2)\n"
    refused = tracehold("ann", "review", "sign-off", ID, status=1)
    assert "another login" in str(refused.exception)
    assert "closed" in tracehold("ben", "review", "sign-off", ID).stdout
    assert rows_of(tracehold("ann", "review", "list", "--state", "open", "--json")) == []


def test_one_denial_is_shown_with_its_reason_what_came_next_and_who_did_what(tracehold: Callable[..., Result]) -> None:
    tracehold("ann", "review", "verdict", ID, "justified", "-m", "the desk sends mail")
    shown = tracehold("ben", "review", "show", ID).stdout
    for word in ("mail is not allowed", "same_target", "shell", "subject", "the desk sends mail"):
        assert word in shown
    (seen,) = rows_of(tracehold("ben", "review", "show", ID, "--json"))
    assert [act["by"] for act in seen["acts"]] == ["ann"]


def test_a_revision_that_was_seen_long_ago_is_refused(tracehold: Callable[..., Result]) -> None:
    tracehold("ann", "review", "assign", ID)
    refused = tracehold("ben", "review", "verdict", ID, "justified", "--revision", "0", status=1)
    assert "somebody acted" in str(refused.exception)


def test_reopening_wants_a_reason(tracehold: Callable[..., Result]) -> None:
    tracehold("ann", "review", "verdict", ID, "false_alarm")
    tracehold("ann", "review", "reopen", ID, status=2)
    assert "open (revision 2)" in tracehold("ann", "review", "reopen", ID, "-m", "new evidence").stdout


def test_a_day_is_signed_and_one_with_open_denials_only_when_that_is_said(
    tracehold: Callable[..., Result], tmp_path: Path
) -> None:
    (row,) = rows_of(tracehold("ann", "review", "day", "--json"))
    assert (row["denials"], row["unreviewed"], row["signed_by"]) == (1, 1, None)
    refused = tracehold("ann", "review", "day", row["day"], "--sign", status=1)
    assert "--with-open" in str(refused.exception)
    not_over = tracehold("ann", "review", "day", row["day"], "--sign", "--with-open", status=1)
    assert "is not over" in str(not_over.exception)
    (signed,) = rows_of(tracehold("ann", "review", "day", "2026-01-02", "--sign", "--json"))
    assert (signed["denials"], signed["signed_by"]) == (0, "ann")


def test_a_policy_is_recorded_shown_and_compared_by_digest(tracehold: Callable[..., Result], tmp_path: Path) -> None:
    file, wider = tmp_path / "policy.toml", tmp_path / "wider.toml"
    file.write_text(POLICY)
    wider.write_text(POLICY.replace('["search"]', '["search", "lookup_*"]'))
    (told,) = rows_of(tracehold("ann", "policy", "record", str(file), "--agent", "support", "--json"))
    digest = told["policy_digest"]
    assert "already" in tracehold("ben", "policy", "record", str(file), "--agent", "support").stdout
    shown = tracehold("ben", "policy", "show", digest[:20])
    assert json.loads(shown.stdout)["name"] == "desk"
    assert "matches its digest" in shown.stderr
    compared = tracehold("ben", "policy", "diff", digest, str(wider)).stdout
    assert compared == '~ rule search, tools: ["search"] -> ["search", "lookup_*"]\n'
    assert tracehold("ben", "policy", "diff", digest, digest).stdout == "the two allow the same\n"
    (row,) = rows_of(tracehold("ben", "policy", "on", "--json"))
    assert (row["agent"], row["policy_digest"], row["author"]) == ("support", digest, "ann")
    (row,) = rows_of(tracehold("ben", "policy", "list", "--json"))
    assert (row["author"], row["author_is"]) == ("ann", "login")
    missing = tracehold("ben", "policy", "show", "0" * 10, status=1)
    assert "no recorded policy begins with" in str(missing.exception)
    assert "is no digest" in str(tracehold("ben", "policy", "show", "desk", status=1).exception)
