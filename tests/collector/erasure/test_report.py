"""The report of an erasure: signed, checked offline, readable as a PDF, and the same each time it is asked for."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pypdf
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from support.erasing import ADMIN, Store
from support.records import make_record
from tracehold.core.clock import now_ns
from tracehold_collector.audit.notes import VerifierKey
from tracehold_collector.audit.signing import Signer
from tracehold_collector.core.errors import BadBodyError, NoteError
from tracehold_collector.erasure.pdf import report_pdf
from tracehold_collector.erasure.record import ErasureRecord, PlaceCount, Recipient, Stayed
from tracehold_collector.erasure.register import in_order, register
from tracehold_collector.erasure.report import HeadSeen, build_report, open_report, report_bytes, sign_report

DAY = 86_400 * 1_000_000_000


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(tmp_path_factory.mktemp("key"), now_ns(), name="log.example.org")


def made(**fields: Any) -> ErasureRecord:
    at = 1_790_000_000_000_000_000
    given: dict[str, Any] = {
        "id": "ab" * 16,
        "tenant": "acme",
        "scope": "subject",
        "scope_value": "u_0123456789abcdef",
        "mode": "delete",
        "basis": "gdpr-17-1-a",
        "requester": "dpo",
        "received_at": at,
        "due_at": at + 30 * DAY,
        "requested_at": at,
        "steps": (("requested", at),),
    }
    return ErasureRecord(**(given | fields))


def finished(**fields: Any) -> ErasureRecord:
    at = 1_790_000_000_000_000_000
    steps = ("requested", "frozen", "unreadable", "emptied", "completed", "bytes_gone", "scanned")
    given: dict[str, Any] = {
        "started_at": at + 1,
        "unreadable_since": at + 2 * 10**9,
        "completed_at": at + 3 * 10**9,
        "bytes_gone_since": at + 9 * 10**9,
        "runs": 3,
        "whole_runs": 2,
        "events": 1234,
        "leaves": 1234,
        "root": b"\x12" * 32,
        "places": (PlaceCount("events", 1234, removed=1230, emptied=4),),
        "stayed": (Stayed("4 events of 1 run", "a legal hold keeps them", 4),),
        "recipients": (
            Recipient("forward", "jaeger.example:4318", since=at, note="tell them"),
            Recipient("key backup", "keys-2026.bak", until=at + 90 * DAY, note="goes by itself"),
        ),
        "steps": tuple((step, at + place * 10**9) for place, step in enumerate(steps)),
    }
    return made(**(given | fields))


def told(record: ErasureRecord, signer: Signer, head: HeadSeen | None = None) -> dict[str, Any]:
    return sign_report(build_report(record, signer, head), signer)


def text_of(pdf: bytes) -> str:
    return " ".join(" ".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf)).pages).split())


def test_a_report_tells_who_asked_what_was_done_what_stayed_and_who_is_to_be_told(signer: Signer) -> None:
    report = told(finished(), signer, HeadSeen(5000, b"\x34" * 32, "a note"))["report"]
    assert report["request"]["basis_text"].startswith("GDPR Art. 17(1)(a)")
    assert (report["done"]["unreadable_since"], report["done"]["late"]) == ("2026-09-21T14:13:22Z", False)
    assert report["places"][0]["removed"] == 1230
    assert "leaf hashes" in report["stayed"][0]["what"]
    assert report["stayed"][-1]["why"] == "a legal hold keeps them"
    assert [each["name"] for each in report["recipients"]] == ["jaeger.example:4318"]
    assert [each["name"] for each in report["backups"]] == ["keys-2026.bak"]
    assert report["evidence"]["erased_leaves_root"] == "12" * 32
    assert report["evidence"]["tree_head"]["size"] == 5000


def test_a_report_is_checked_offline_whatever_became_of_its_spaces(signer: Signer) -> None:
    file = told(finished(), signer)
    key = signer.verifier_keys()[0]
    for data in (json.dumps(file, indent=4), json.dumps(file, ensure_ascii=False, separators=(",", ":"))):
        report, signers = open_report(data.encode(), [key])
        assert report == file["report"]
        assert [str(each) for each in signers] == [str(key)]


def test_the_verifier_key_of_a_tenants_log_checks_a_report_as_well(signer: Signer) -> None:
    data = json.dumps(told(finished(), signer)).encode()
    assert open_report(data, signer.verifier_keys("acme"))[1]


def test_what_is_signed_is_canonical_json_as_another_implementation_writes_it(signer: Signer) -> None:
    report = told(finished(tenant="ac\u20acme \U0001f916"), signer)["report"]
    assert report_bytes(report) == rfc8785.dumps(report)


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file["report"]["request"].update(requester="somebody else"),
        lambda file: file["report"]["done"].update(bytes_gone_since=None),
        lambda file: file["report"]["manifest"].update(events=1235),
        lambda file: file["report"].update(more=1),
        lambda file: file["report"]["places"].pop(),
        lambda file: file.update(note=file["note"].replace("sha256 ", "sha256 0")),
    ],
    ids=["requester", "a time", "a count", "one more field", "a place less", "the note"],
)
def test_an_altered_report_is_not_believed(signer: Signer, change: Any) -> None:
    file = told(finished(), signer)
    change(file)
    with pytest.raises(NoteError, match=r"not as it was signed|not to be believed"):
        open_report(json.dumps(file).encode(), signer.verifier_keys())


def test_a_report_by_another_key_is_not_believed(signer: Signer, tmp_path: Path) -> None:
    other = Signer(tmp_path, now_ns(), name=signer.name)
    with pytest.raises(NoteError, match="no known key"):
        open_report(json.dumps(told(finished(), other)).encode(), signer.verifier_keys())


def test_a_key_of_another_name_is_no_key_of_this_log(signer: Signer) -> None:
    mine = signer.verifier_keys()[0]
    with pytest.raises(NoteError, match="no known key"):
        open_report(
            json.dumps(told(finished(), signer)).encode(), [VerifierKey("other.example", mine.algorithm, mine.public)]
        )


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"report": {}}', b'{"report": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_report_is_refused_as_such(signer: Signer, data: bytes) -> None:
    with pytest.raises(BadBodyError, match="no erasure report"):
        open_report(data, signer.verifier_keys())


def test_the_pdf_is_readable_on_three_pages_at_most_and_names_the_hash_of_the_json(signer: Signer) -> None:
    file = told(finished(), signer, HeadSeen(5000, b"\x34" * 32, "a note"))
    pdf = report_pdf(file)
    text = text_of(pdf)
    assert file["sha256"] in text.replace(" ", "")
    for words in (
        "Erasure report",
        "1,234 events of 3 runs",
        "dpo",
        "GDPR Art. 19",
        "jaeger.example:4318",
        "Tree head",
    ):
        assert words in text
    assert len(pypdf.PdfReader(io.BytesIO(pdf)).pages) <= 3


def test_a_report_and_its_pdf_are_the_same_bytes_until_another_step_is_done(signer: Signer) -> None:
    first, second = told(finished(), signer), told(finished(), signer)
    assert first == second
    assert report_pdf(first) == report_pdf(second)


@pytest.mark.parametrize(
    "text",
    ["\ud83e", "a\0b", "\u202etxt.exe", "\u05d0\u05d1" * 200, "x" * 100_000, "\U0001f916", "\x1b[31m", "\u200b"],
    ids=["half a pair", "NUL", "RTL override", "Hebrew", "one long word", "emoji", "escape", "zero width"],
)
def test_hostile_texts_stand_in_a_report_and_its_pdf(signer: Signer, text: str) -> None:  # FR-15
    record = finished(
        requester=text,
        tenant=text,
        scope_value=text,
        stayed=tuple(Stayed(text, text) for _ in range(3)),
        recipients=tuple(Recipient("download", text, note=text) for _ in range(200)),
        places=(PlaceCount(text, 1, error=text),),
    )
    file = told(record, signer)
    open_report(json.dumps(file).encode(), signer.verifier_keys())
    pages = pypdf.PdfReader(io.BytesIO(report_pdf(file))).pages
    assert "Erasure report" in text_of(report_pdf(file))
    assert len(pages) <= 25


@given(text=st.text(st.characters(exclude_categories=[]), max_size=60))
def test_no_text_breaks_a_report(signer: Signer, text: str) -> None:  # FR-15
    file = told(finished(requester=text, scope_value=text), signer)
    assert open_report(json.dumps(file).encode(), signer.verifier_keys())[0] == file["report"]
    assert report_pdf(file).startswith(b"%PDF")


def test_a_refused_request_and_one_that_is_not_done_say_so(signer: Signer) -> None:
    at = 1_790_000_000_000_000_001
    refused = told(made(refused_at=at, refused_why="hold", steps=(("requested", at), ("refused", at))), signer)
    assert "refused: a legal hold keeps it" in text_of(report_pdf(refused))
    waiting = told(made(strict=True), signer)
    assert "not done: waiting for approval" in text_of(report_pdf(waiting))
    assert waiting["report"]["stayed"] == []


def test_a_real_erasure_is_reported_with_the_tree_head_that_covers_it(store: Store, signer: Signer) -> None:
    store.add(*[make_record(n, "run-1") for n in range(3)])
    record = store.erase(scope="run", value="run-1", mode="delete")
    report = build_report(record, signer, None)
    assert (report["erasure"]["run_id"], report["manifest"]["events"]) == (f"erasure:{record.id}", 3)
    assert report["request"]["requester"] == ADMIN.name
    assert report["evidence"]["erased_leaves"] == 3


def test_the_register_has_the_overdue_first_then_those_due_next_then_what_is_done() -> None:
    now = made().received_at + 40 * DAY
    late = made(id="late")
    soon = made(id="soon", due_at=now + 2 * DAY)
    later = made(id="later", due_at=now + 9 * DAY)
    done = finished(id="done", requested_at=now - DAY)
    missed = replace(finished(id="missed"), completed_at=now - DAY)
    assert [record.id for record in in_order([done, later, missed, soon, late], now)] == [
        "late",
        "soon",
        "later",
        "done",
        "missed",
    ]
    rows = {row["id"]: row for row in register([late, soon, missed], now)}
    assert (rows["late"]["overdue"], rows["late"]["days_left"]) == (True, -10)
    assert (rows["soon"]["overdue"], rows["soon"]["days_left"]) == (False, 2)
    assert (rows["missed"]["overdue"], rows["missed"]["late"], rows["missed"]["days_left"]) == (False, True, None)
