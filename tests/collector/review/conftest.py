"""A collector with denials in it, and reviewers with keys of their own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.keys import bearer, make_key
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer

T0 = 1_780_000_000_000_000_000

_NUMBERS = itertools.count(1)

REVIEWER = ("read", "audit", "content")


class Stage:
    """A collector, and who may ask it."""

    def __init__(self, server: CollectorServer, keys: dict[str, str]) -> None:
        self.server = server
        self.keys = keys
        self.http = httpx.Client(base_url=server.url, trust_env=False, timeout=60)

    def send(self, *events: dict[str, Any], key: str = "sender") -> None:
        body = "\n".join(json.dumps(event) for event in events)
        headers = bearer(self.keys[key]) | {"Content-Type": "application/x-ndjson"}
        answer = self.http.post("/v1/events", content=body, headers=headers)
        assert answer.json()["rejected_count"] == 0, answer.text

    def get(self, key: str, path: str, **params: Any) -> httpx.Response:
        return self.http.get(path, params=params, headers=bearer(self.keys[key]))

    def rows(self, key: str, query: str, **params: Any) -> list[dict[str, Any]]:
        answer = self.get(key, f"/api/v1/queries/{query}", **params)
        assert answer.is_success, answer.text
        body = answer.json()
        return [dict(zip(body["columns"], row, strict=True)) for row in body["rows"]]

    def review(self, key: str, denial: str, **params: Any) -> dict[str, Any]:
        answer = self.get(key, f"/api/v1/reviews/{denial}", **params)
        assert answer.is_success, answer.text
        seen: dict[str, Any] = answer.json()
        return seen

    def act(self, key: str, denial: str, act: str, revision: int | None = None, **more: Any) -> httpx.Response:
        """Act as `key`; on what it sees now, unless a revision is given."""
        if revision is None:
            revision = self.review(key, denial)["review"]["revision"]
        body = {"act": act, "revision": revision, **more}
        return self.http.post(f"/api/v1/reviews/{denial}/acts", json=body, headers=bearer(self.keys[key]))

    def sign(self, key: str, day: str, **body: Any) -> httpx.Response:
        return self.http.post(f"/api/v1/review-days/{day}/signatures", json=body, headers=bearer(self.keys[key]))


def denied(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A denied tool call; its event id is `number`."""
    return {
        "type": "tool_call",
        "event_id": f"{number:032x}",
        "run_id": "r",
        "tool": "send_mail",
        "status": "denied",
        "decision": "denied",
        "decided_by": "permissions",
        "rule": "no-mail",
        "agent": "support",
        "params": {"to": "someone@elsewhere.example", "subject": "the whole list"},
        "started_at_ns": T0 + number * 1_000,
    } | fields


def id_of(number: int) -> str:
    """The event id of `denied(number)`, as answers write it."""
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@pytest.fixture(name="id_of")
def id_of_fixture() -> Callable[[int], str]:
    return id_of


@pytest.fixture(name="denied")
def denied_fixture() -> Callable[..., dict[str, Any]]:
    return denied


def staged(folder: Path) -> Stage:
    keys = {
        "sender": make_key(folder, "ingest", name="sender"),
        "ann": make_key(folder, *REVIEWER, name="ann"),
        "ben": make_key(folder, *REVIEWER, name="ben"),
        "reader": make_key(folder, "read", name="reader"),
        "envelope": make_key(folder, "read", "audit", name="envelope"),
        "stranger": make_key(folder, *REVIEWER, name="stranger", tenants=("other",)),
        "both": make_key(folder, "ingest", *REVIEWER, name="both", tenants=("default", "other")),
    }
    server = CollectorServer(load_settings(port=0, grpc=False, data_dir=folder))
    server.start()
    return Stage(server, keys)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One collector for a file's tests; each has denials of its own."""
    made = staged(tmp_path_factory.mktemp("stage") / "data")
    yield made
    made.http.close()
    made.server.close()


@pytest.fixture
def own_stage(tmp_path: Path) -> Iterator[Stage]:
    """A collector for one test, which may do with it what it likes."""
    made = staged(tmp_path / "data")
    yield made
    made.http.close()
    made.server.close()


@pytest.fixture
def number() -> int:
    """A number that no other test has: of a denial, and of whatever must differ."""
    return next(_NUMBERS)


@pytest.fixture
def denial(stage: Stage, number: int) -> str:
    """A denial that was just stored: its event id."""
    stage.send(denied(number))
    return id_of(number)
