"""The page "Erasures", run by Streamlit's own test runner against a real collector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from support.records import make_record
from tracehold_collector.core.settings import load_settings
from tracehold_collector.serve import CollectorServer
from tracehold_dashboard import data, launch, links


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CollectorServer]:
    with CollectorServer(load_settings(port=0, grpc=False, data_dir=tmp_path / "data", strict_erasure=True)) as opened:
        monkeypatch.setenv("TRACEHOLD_URL", opened.url)
        yield opened


def ask(server: CollectorServer, run: str, received_at: str) -> str:
    body = {"scope": "run", "value": run, "basis": "gdpr-17-1-b", "received_at": received_at}
    answer = httpx.post(f"{server.url}/api/v1/erasures/request", json=body, trust_env=False, timeout=30)
    return str(answer.json()["id"])


def opened(**params: str) -> AppTest:
    app = AppTest.from_file(str(launch.APP), default_timeout=60)
    app.query_params.update(params)
    app.run()
    app._page_hash = calc_hash(links.ERASURES)
    app.run()
    assert not app.exception, app.exception[0].value
    return app


def cells(app: AppTest) -> str:
    return "\n".join(table.value.to_csv() for table in app.dataframe)


def texts(app: AppTest) -> str:
    kinds: tuple[Any, ...] = (app.info, app.error, app.caption, app.code, app.markdown, app.subheader)
    return "\n".join(element.value for kind in kinds for element in kind)


def test_a_register_without_requests_says_how_to_begin(server: CollectorServer) -> None:
    assert "tracehold erase preview" in texts(opened())


def test_overdue_requests_stand_first_and_are_marked(server: CollectorServer) -> None:
    server.writer.submit([make_record(1, "run-1")]).result(30)
    yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    late, soon = ask(server, "run-1", "2026-01-01T00:00:00Z"), ask(server, "run-1", yesterday)
    app = opened()
    assert [metric.value for metric in app.metric] == ["2", "2", "1", "0"]
    assert "1 request should have been done by now" in texts(app)
    table = app.dataframe[0].value
    assert list(table["id"]) == [late, soon]
    assert "OVERDUE" in table["due"][0]
    assert "OVERDUE" not in table["due"][1]


def test_one_erasure_shows_its_steps_what_stayed_and_the_hash_of_its_report(server: CollectorServer) -> None:
    server.writer.submit([make_record(1, "run-1")]).result(30)
    erasure_id = ask(server, "run-1", "2026-11-29T00:00:00Z")
    httpx.post(f"{server.url}/api/v1/erasures/{erasure_id}/refuse", json={}, trust_env=False, timeout=30)
    app = opened(erasure_id=erasure_id)
    assert "refused" in cells(app)
    assert "withdrawn" in cells(app)
    assert data.erasure_report(erasure_id)["sha256"] in texts(app)
    assert data.erasure_report_pdf(erasure_id).startswith(b"%PDF")


def test_names_in_an_erasure_are_never_markdown_or_html(server: CollectorServer) -> None:
    hostile = "<img src=x onerror=alert(1)> **bold**"
    server.writer.submit([make_record(1, hostile)]).result(30)
    erasure_id = ask(server, hostile, "2026-11-29T00:00:00Z")
    app = opened(erasure_id=erasure_id)
    assert hostile in json.dumps(cells(app))
    assert all(
        "onerror" not in str(element.value) for kind in (app.markdown, app.caption, app.info) for element in kind
    )


def test_an_erasure_nobody_knows_says_so(server: CollectorServer) -> None:
    ask(server, "run-1", "2026-11-29T00:00:00Z")
    assert "Not found" in texts(opened(erasure_id="0" * 32))
