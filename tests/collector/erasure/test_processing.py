"""The record of processing activities: what a controller wrote down, and what the collector knows itself."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pypdf
import pytest
from tracehold.core.errors import ConfigurationError
from tracehold_collector.erasure.policies import Policy
from tracehold_collector.erasure.processing import Known, build_record, load_written
from tracehold_collector.erasure.processing_pages import processing_markdown, processing_pdf

NOW = 1_790_000_000_000_000_000
FILE = """
measures = ["disks are encrypted"]

[controller]
name = "Acme GmbH"
contact = "Street 1, Berlin"

[dpo]
name = "D. Officer"
contact = "dpo@acme.example"

[[activity]]
name = "Support agent"
purposes = ["answering tickets"]
subjects = ["customers"]
data = ["names", "what they write"]
recipients = ["the model's provider"]
tenants = ["acme"]

[[activity.transfers]]
to = "a provider in the United States"
safeguards = "standard contractual clauses"
"""
KNOWN = Known(
    policies=(Policy(name="short", tenant="acme", what="content", days=200), Policy(name="long", what="all", days=900)),
    min_retention_days=183,
    strict_erasure=True,
    access_log_days=400,
    audit_log=True,
    tree_head_copies=False,
    tls=False,
    keys=True,
    forwards=("http://jaeger:4318",),
    places=("the engine's log",),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "record.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_the_record_has_every_letter_of_article_30(file: Path) -> None:
    record = build_record(load_written(file), KNOWN, NOW)
    assert record["controller"] == {"name": "Acme GmbH", "contact": "Street 1, Berlin"}
    assert record["dpo"]["name"] == "D. Officer"
    (activity,) = record["activities"]
    assert (activity["purposes"], activity["subjects"]) == (["answering tickets"], ["customers"])
    assert activity["transfers"][0]["safeguards"] == "standard contractual clauses"
    assert any("200 days" in limit for limit in activity["time_limits"])
    assert record["recipients_known"] == ["receiver of forwards: http://jaeger:4318"]
    assert "disks are encrypted" in record["measures"]


def test_only_measures_that_are_at_work_are_told(file: Path) -> None:
    def measures(known: Known) -> str:
        return "\n".join(build_record(load_written(file), known, NOW)["measures"])

    assert "TLS" not in measures(KNOWN)
    assert "TLS" in measures(replace(KNOWN, tls=True))
    assert "second person" not in measures(replace(KNOWN, strict_erasure=False))
    assert "tree heads" not in measures(replace(KNOWN, audit_log=False, tree_head_copies=True))
    assert "roles" not in measures(replace(KNOWN, keys=False))


def test_time_limits_are_those_of_the_activitys_tenants(file: Path) -> None:
    other = replace(KNOWN, policies=(*KNOWN.policies, Policy(name="else", tenant="globex", what="all", days=300)))
    limits = "\n".join(build_record(load_written(file), other, NOW)["activities"][0]["time_limits"])
    assert "200 days" in limits
    assert "900 days" in limits
    assert "globex" not in limits


def test_without_a_file_the_record_says_what_is_missing() -> None:
    record = build_record(None, KNOWN, NOW)
    assert "controller" in record["missing"]
    assert "Nobody wrote down" in processing_markdown(record)
    assert "900 days" in processing_markdown(record)


def test_the_markdown_and_the_pdf_say_the_same(file: Path) -> None:
    record = build_record(load_written(file), KNOWN, NOW)
    pdf = " ".join(
        " ".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(processing_pdf(record))).pages).split()
    )
    markdown = processing_markdown(record)
    for words in ("Acme GmbH", "answering tickets", "standard contractual clauses", "disks are encrypted"):
        assert words in pdf
        assert words in markdown


def test_names_are_never_markdown(file: Path) -> None:
    file.write_text(FILE.replace("Acme GmbH", "Acme <img src=x> [a](b) *c*"), encoding="utf-8")
    markdown = processing_markdown(build_record(load_written(file), KNOWN, NOW))
    assert "<img" not in markdown.replace("\\<", "")
    assert "\\[a\\]" in markdown


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("controller = 1", "controller"),
        ("not toml", "no TOML"),
        (FILE.replace('purposes = ["answering tickets"]', ""), "activity.0.purposes"),
        (FILE + "\n[other]\n", "other"),
    ],
    ids=["wrong type", "no TOML", "no purposes", "unknown table"],
)
def test_a_file_that_cannot_be_used_says_which_entry(file: Path, text: str, says: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=says):
        load_written(file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml"):
        load_written(tmp_path / "nowhere.toml")
