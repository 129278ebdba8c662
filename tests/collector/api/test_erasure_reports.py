"""Reports on erasures over HTTP and by command: for who audits, of their own tenants only."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pypdf
import pytest
from support.keys import bearer, make_key
from support.records import make_record
from tracehold_collector.cli.app import app
from tracehold_collector.serve import CollectorServer
from typer.testing import CliRunner

Serve = Callable[..., CollectorServer]


class Office:
    """A collector with one erasure done and one that waits too long, and the keys of who may look."""

    def __init__(self, serve: Serve, folder: Path) -> None:
        self.keys = {
            "dpo": make_key(folder, "erase", "audit", name="dpo", tenants=("acme",)),
            "counsel": make_key(folder, "erase", name="counsel", tenants=("acme",)),
            "auditor": make_key(folder, "audit", name="auditor", tenants=("acme",)),
            "other": make_key(folder, "audit", name="other", tenants=("globex",)),
            "all": make_key(folder, "audit", name="all", tenants=None),
            "reader": make_key(folder, "read", name="reader", tenants=("acme",)),
        }
        self.server = serve(data_dir=folder, strict_erasure=True)
        self.server.writer.submit([make_record(n, "run-1", tenant="acme") for n in range(3)]).result(30)
        self.late = self.request("2026-01-01T00:00:00Z")
        self.done = self.request("2026-01-02T00:00:00Z")
        self.ask("counsel", f"/api/v1/erasures/{self.done}/approve", {})
        self.server.erasures.wait(self.done, 60)

    def request(self, received_at: str) -> str:
        body = {"scope": "run", "value": "run-1", "mode": "delete", "basis": "gdpr-17-1-a", "received_at": received_at}
        return str(self.ask("dpo", "/api/v1/erasures/request", body).json()["id"])

    def ask(self, key: str, path: str, body: Any = None, **params: str) -> httpx.Response:
        with httpx.Client(
            base_url=self.server.url, trust_env=False, timeout=60, headers=bearer(self.keys[key])
        ) as http:
            return http.get(path, params=params) if body is None else http.post(path, json=body)


@pytest.fixture
def office(serve: Serve, tmp_path: Path) -> Office:
    return Office(serve, tmp_path / "data")


def run(office: Office, monkeypatch: pytest.MonkeyPatch, *arguments: str, key: str = "auditor") -> tuple[int, str]:
    monkeypatch.setenv("TRACEHOLD_API_KEY", office.keys[key])
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 1, str(result.exception)
    return result.exit_code, result.stdout


def test_the_report_the_pdf_and_the_register_are_for_who_audits_those_tenants(office: Office) -> None:
    path = f"/api/v1/erasures/{office.done}/report"
    file = office.ask("auditor", path).json()
    assert file["report"]["erasure"]["status"] == "bytes gone"
    assert file["report"]["request"]["approver"] == "counsel"
    pdf = office.ask("auditor", f"{path}.pdf")
    assert pdf.headers["content-type"] == "application/pdf"
    assert "Erasure report" in pypdf.PdfReader(io.BytesIO(pdf.content)).pages[0].extract_text()
    rows = office.ask("auditor", "/api/v1/erasure-register").json()["erasures"]
    assert [(row["id"], row["overdue"], row["late"]) for row in rows] == [
        (office.late, True, False),
        (office.done, False, True),
    ]
    for refused in (path, f"{path}.pdf", "/api/v1/erasure-register"):
        assert office.ask("reader", refused).status_code == 403
    assert office.ask("other", path).status_code == 404
    assert office.ask("other", f"{path}.pdf").status_code == 404
    assert office.ask("other", "/api/v1/erasure-register").json() == {"erasures": []}


def test_the_record_of_processing_is_for_who_audits_every_tenant(office: Office) -> None:
    path = "/api/v1/records-of-processing"
    assert office.ask("auditor", path).status_code == 403
    record = office.ask("all", path).json()
    assert "an erasure needs a second person" in record["measures"]
    assert office.ask("all", path, form="markdown").text.startswith("# Record of processing activities")
    assert office.ask("all", path, form="pdf").content.startswith(b"%PDF")
    assert office.ask("all", path, form="odt").status_code == 400


def test_a_report_is_fetched_and_then_checked_without_the_collector(
    office: Office, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pdf, file = tmp_path / "report.pdf", tmp_path / "report.json"
    url = office.server.url
    done = run(
        office, monkeypatch, "erasure", "report", office.done, "--pdf", str(pdf), "--json", str(file), "--url", url
    )
    assert done == (0, "")
    told = json.loads(file.read_text())
    assert told["sha256"] in pypdf.PdfReader(pdf).pages[-1].extract_text().replace("\n", "")
    key = tmp_path / "vkey"
    key.write_text(told["report"]["evidence"]["report_key"] + "\n")
    office.server.close()
    code, out = run(office, monkeypatch, "erasure", "verify-report", str(file), "--key", str(key))
    assert (code, "the report is as it was signed" in out) == (0, True)
    told["report"]["request"]["requester"] = "nobody"
    file.write_text(json.dumps(told))
    code, out = run(office, monkeypatch, "erasure", "verify-report", str(file), "--key", str(key))
    assert (code, "not as it was signed" in out) == (1, True)


def test_the_register_lists_the_overdue_first_and_fails_a_job_that_watches(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = office.server.url
    code, out = run(office, monkeypatch, "erasure", "register", "--json", "--url", url)
    assert code == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == [office.late, office.done]
    code, out = run(office, monkeypatch, "erasure", "register", "--overdue", "--json", "--url", url)
    assert (code, [json.loads(line)["id"] for line in out.splitlines()]) == (1, [office.late])


def test_the_record_of_processing_is_written_in_each_form(
    office: Office, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for form, begins in (("markdown", b"# Record"), ("json", b"{"), ("pdf", b"%PDF")):
        target = tmp_path / form
        given = ["records-of-processing", "--format", form, "-o", str(target), "--url", office.server.url]
        assert run(office, monkeypatch, *given, key="all")[0] == 0
        assert target.read_bytes().startswith(begins)
