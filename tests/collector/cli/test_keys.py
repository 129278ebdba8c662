"""`tracehold keys` and `tracehold access` as processes, before and beside a running collector."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.keys import bearer
from support.processes import COMMAND, clean_environment, collector, free_port, wait_for
from tracehold_collector.access.roles import MAY
from tracehold_collector.access.tokens import parse_token
from tracehold_collector.store.database import FILE_NAME


def tracehold(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def made(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    row: dict[str, Any] = json.loads(line)
    return row


def test_a_key_is_printed_once_to_standard_output_alone(tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path / "data"))
    done = tracehold("keys", "create", "ann", "--role", "read", "--tenant", "acme", "--expires", "90d", *folder)
    assert done.returncode == 0, done.stderr
    token = parse_token(done.stdout.strip())
    assert token is not None
    assert token.secret not in done.stderr
    assert "ann" in done.stderr
    listed = tracehold("keys", "list", *folder)
    row = made(tracehold("keys", "list", "--json", *folder))
    assert token.secret not in listed.stdout + listed.stderr + str(row)
    assert (row["id"], row["name"], row["roles"], row["tenants"], row["state"]) == (
        token.key_id, "ann", ["read"], ["acme"], "active",
    )  # fmt: skip
    assert row["expires_at"].endswith("Z")
    assert not (tmp_path / "data" / FILE_NAME).exists()


def test_keys_are_made_rotated_limited_and_revoked_beside_a_running_collector(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = ("--json", "--data-dir", str(data))
    with collector(data, "--no-grpc") as running:
        assert httpx.get(f"{running.url}/api/v1/queries", trust_env=False).status_code == 200

        def status(key: str | None) -> int:
            headers = bearer(key) if key else {}
            return httpx.get(f"{running.url}/api/v1/queries", headers=headers, trust_env=False).status_code

        key = made(tracehold("keys", "create", "ann", "--role", "admin", "--all-tenants", *folder))["key"]
        wait_for(lambda: status(None) == 401, within_s=2)
        assert status(key) == 200
        second = made(tracehold("keys", "rotate", "ann", "--grace", "1h", *folder))["key"]
        wait_for(lambda: status(second) == 200, within_s=2)
        assert status(key) == 200
        third = made(tracehold("keys", "rotate", "ann", "--grace", "0s", *folder))["key"]
        wait_for(lambda: status(second) == 401, within_s=2)
        limited = made(tracehold("keys", "limit", "ann", "--events-per-day", "5", *folder))
        assert (limited["events_per_day"], limited["requests_per_second"]) == (5, None)

        asked = tracehold("runs", "--url", running.url, TRACEHOLD_API_KEY=third)
        assert asked.returncode == 0, asked.stderr
        lines = tracehold("access", "--json", "--url", running.url, TRACEHOLD_API_KEY=third)
        acts = [json.loads(line) for line in lines.stdout.splitlines()]
        assert {line["what"] for line in acts if line["action"] == "admin"} == {
            "keys create", "keys rotate", "keys limit",
        }  # fmt: skip
        assert any(line["what"] == "/api/v1/queries/{name}" and line["who"] == "ann" for line in acts)
        shown = tracehold("access", "--url", running.url, TRACEHOLD_API_KEY=third)
        assert "name=runs" in shown.stdout

        assert made(tracehold("keys", "revoke", "ann", *folder))["state"] == "revoked"
        wait_for(lambda: status(third) == 401, within_s=2)
        refused = tracehold("runs", "--url", running.url, TRACEHOLD_API_KEY=third)
        assert refused.returncode == 1
        assert "revoked" in refused.stderr
        assert "TRACEHOLD_API_KEY" in refused.stderr
    for shown_key in (key, second, third):
        token = parse_token(shown_key)
        assert token is not None
        kept = running.log().encode() + b"".join(path.read_bytes() for path in data.iterdir())
        assert token.secret.encode() not in kept


def test_a_key_without_the_role_gets_the_roles_name_from_the_command(tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = ("--json", "--data-dir", str(data))
    reader = made(tracehold("keys", "create", "r", "--role", "read", *folder))["key"]
    sender = made(tracehold("keys", "create", "s", "--role", "ingest", *folder))["key"]
    denial = {
        "type": "tool_call",
        "decision": "denied",
        "run_id": "r",
        "tool": "mail",
        "rule": "no-mail",
        "reason": "it is private",
    }
    with collector(data, "--no-grpc") as running:
        assert "only, also on this machine; 2 made" in running.log()
        headers = {**bearer(sender), "Content-Type": "application/json"}
        httpx.post(f"{running.url}/v1/events", json=denial, headers=headers, trust_env=False).raise_for_status()
        denied = tracehold("prices", "apply", "--url", running.url, TRACEHOLD_API_KEY=reader)
        denials = tracehold("denials", "--url", running.url, TRACEHOLD_API_KEY=reader)
    assert denied.returncode == 1
    assert "role admin" in denied.stderr
    assert denials.returncode == 0, denials.stderr
    assert "no-mail" in denials.stdout
    assert "it is private" not in denials.stdout
    assert "role content" in denials.stderr


def test_another_address_without_a_key_says_how_to_make_one_and_takes_it(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    port = ("--port", str(free_port()), "--no-grpc")
    refused = tracehold("collect", "--host", "0.0.0.0", *port, *data)  # noqa: S104
    assert refused.returncode == 1
    assert "tracehold keys create" in refused.stderr
    # Where the host is set for the whole environment, the first key can be made all the same.
    created = tracehold("keys", "create", "ops", "--role", "admin", *data, TRACEHOLD_HOST="0.0.0.0")  # noqa: S104
    assert created.returncode == 0, created.stderr
    doctor = tracehold("doctor", *data, TRACEHOLD_HOST="0.0.0.0")  # noqa: S104
    assert "refusing" not in doctor.stdout
    assert "1 key" in doctor.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "x", "--role", "root"], "no role 'root'"),
        (["create", "x", "--role", "content"], "role read"),
        (["create", "x", "--role", "read", "--expires", "soon"], "--expires takes"),
        (["create", "x", "--role", "read", "--expires", "2020-01-01"], "in the past"),
        (["create", "x", "--role", "read", "--tenant", "a", "--all-tenants"], "either"),
        (["revoke", "nobody"], "tracehold keys list"),
        (["rotate", "nobody", "--grace", "1h"], "tracehold keys list"),
        (["limit", "nobody", "--events-per-day", "0"], "tracehold keys list"),
    ],
)
def test_what_cannot_be_done_is_told_with_what_to_do(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = tracehold("keys", *arguments, "--data-dir", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_the_help_tells_what_each_role_may(tmp_path: Path) -> None:
    told = " ".join(tracehold("keys", "create", "--help", COLUMNS="120").stdout.replace("│", " ").split())
    assert all(f"{role}: {may}" in told for role, may in MAY.items())


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_of_somebody_else_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o500)
    done = tracehold("keys", "list", "--data-dir", str(tmp_path / "theirs"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
