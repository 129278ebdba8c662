"""The erasure report for people: the same facts as its JSON, whose SHA-256 it names, on one to three pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracehold_collector.core.times import parse_moment_ns
from tracehold_collector.erasure.paper import Paper
from tracehold_collector.erasure.report import report_digest

_MODES: Final = {"scrub": "scrub: what was said, not that it was", "delete": "delete: what was said, and that it was"}
_REFUSED: Final = {
    "hold": "a legal hold keeps it",
    "rejected": "the second person rejected it",
    "withdrawn": "who asked for it withdrew it",
}
_PLACES: Final = {
    "place": "Place",
    "found": "Found",
    "removed": "Removed",
    "emptied": "Emptied",
    "resealed": "Sealed again",
    "error": "Not reached",
}


def report_pdf(file: Mapping[str, Any]) -> bytes:
    """Return the PDF of a report.

    Args:
        file: as `sign_report` returns it.
    """
    report = file["report"]
    erasure, digest = report["erasure"], report_digest(report)
    paper = Paper("Erasure report", f"Erasure {erasure['id']}", parse_moment_ns(report["as_of"]) or 0)
    paper.text(_summary(report))
    _request(paper, report)
    _done(paper, report)
    paper.heading("What stayed, and why")
    paper.items([_stayed(each) for each in report["stayed"]], "Nothing.")
    paper.heading("Who may have a copy, and is to be told (GDPR Art. 19)")
    paper.items([_recipient(each) for each in report["recipients"]], "Nobody that this collector knows of.")
    paper.heading("Backups")
    paper.items([_recipient(each) for each in report["backups"]], "None that this collector knows of.")
    for limit in report["limits"]:
        paper.text(limit, small=True)
    _proof(paper, file, digest)
    return paper.done()


def _summary(report: Mapping[str, Any]) -> str:
    erasure, done, manifest = report["erasure"], report["done"], report["manifest"]
    what = f"{manifest['events']:,} events of {manifest['runs']:,} runs"
    if report["request"]["refused_at"] is not None:
        return f"This request was refused: {_REFUSED.get(report['request']['refused_why'], 'no reason is known')}."
    if done["bytes_gone_since"] is not None:
        return (
            f"{what} were erased ({erasure['mode']}). Their content is unreadable since "
            f"{_time(done['unreadable_since'])} and gone from the database's file since "
            f"{_time(done['bytes_gone_since'])}."
        )
    if done["completed_at"] is not None:
        return f"{what} were erased ({erasure['mode']}); the database's file is still to be written anew without them."
    return f"This erasure is not done: {erasure['status']}."


def _request(paper: Paper, report: Mapping[str, Any]) -> None:
    erasure, request = report["erasure"], report["request"]
    scope = erasure["scope"] if erasure["scope_value"] is None else f"{erasure['scope']} {erasure['scope_value']}"
    paper.heading("The request")
    paper.facts(
        {
            "Erasure": erasure["id"],
            "Tenant": erasure["tenant"],
            "Scope": scope,
            "Mode": _MODES[erasure["mode"]],
            "Legal basis": request["basis_text"],
            "Retention policy": request["policy"],
            "Received": _time(request["received_at"]),
            "Due (GDPR Art. 12(3))": _time(request["due_at"]),
            "Asked for by": f"{request['requester']}, {_time(request['requested_at'])}",
            "Approved by": _approved(request),
        }
    )


def _approved(request: Mapping[str, Any]) -> str | None:
    if request["approved_at"] is not None:
        return f"{request['approver']}, {_time(request['approved_at'])}"
    return None if request["strict"] else "no second person was needed"


def _done(paper: Paper, report: Mapping[str, Any]) -> None:
    done, manifest, remains = report["done"], report["manifest"], report["remains"]
    paper.heading("What was done")
    paper.facts(
        {
            "Status": report["erasure"]["status"],
            "Begun": _time(done["started_at"]),
            "Unreadable since": _time(done["unreadable_since"]),
            "Completed": f"{_time(done['completed_at'])}{' (late)' if done['late'] else ''}"
            if done["completed_at"]
            else None,
            "Bytes gone since": _time(done["bytes_gone_since"]),
            "Found": f"{manifest['runs']:,} runs ({manifest['whole_runs']:,} of them whole), {manifest['events']:,} "
            f"events, {manifest['content_bytes']:,} bytes of content under {manifest['keys']:,} keys",
            "Search for remains": None
            if remains is None
            else f"{sum(remains['found'].values()):,} of {remains['sealed'] + remains['plain']:,} pieces found again "
            f"in {remains['files']:,} files ({remains['bytes_read']:,} bytes)",
        }
    )
    if report["places"]:
        paper.text("Counts per place:")
        paper.table(_PLACES, report["places"], (30, 12, 12, 12, 14, 34))


def _proof(paper: Paper, file: Mapping[str, Any], digest: str) -> None:
    evidence = file["report"]["evidence"]
    head = evidence["tree_head"]
    paper.heading("How to verify")
    paper.text(
        "The JSON of this report is signed with the key of the audit log. Check it offline with a verifier key that "
        "you got by other means; then check the log, in which the leaves of this erasure show as erased:"
    )
    for command in evidence["how_to_verify"]:
        paper.text(command, mono=True)
    paper.facts(
        {
            "SHA-256 of the JSON": digest,
            "Log": evidence["log"],
            "Erased leaves": f"{evidence['erased_leaves']:,}",
            "Root over them": evidence["erased_leaves_root"],
            "Tree head": None if head is None else f"{head['size']:,} leaves, root {head['root']}",
            "Made by": file["report"]["made_by"],
            "As of": _time(file["report"]["as_of"]),
        }
    )
    paper.text("The signed note (c2sp.org/signed-note):")
    for line in file["note"].splitlines():
        paper.text(line or " ", mono=True)


def _stayed(stayed: Mapping[str, Any]) -> str:
    until = "" if stayed["until"] is None else f" Until {_time(stayed['until'])}."
    return f"{stayed['what']}: {stayed['why']}.{until}"


def _recipient(recipient: Mapping[str, Any]) -> str:
    span = [f"since {_time(recipient['since'])}" if recipient["since"] else ""]
    span.append(f"until {_time(recipient['until'])}" if recipient["until"] else "")
    when = " ".join(part for part in span if part)
    return f"{recipient['kind']} {recipient['name']}{f', {when}' if when else ''}: {recipient['note']}"


def _time(moment: str | None) -> str | None:
    """To the second: more would only be harder to read."""
    return None if moment is None else f"{moment[:10]} {moment[11:19]} UTC"
