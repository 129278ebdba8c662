"""The record of processing activities as Markdown and PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tracehold_collector.core.times import parse_moment_ns
from tracehold_collector.erasure.paper import Paper

TITLE: Final = "Record of processing activities (GDPR Art. 30)"

_PARTIES: Final = {
    "controller": "Controller",
    "joint_controller": "Joint controller",
    "representative": "Representative",
    "dpo": "Data protection officer",
}
_PARTS: Final = {
    "purposes": "Purposes",
    "subjects": "Categories of data subjects",
    "data": "Categories of personal data",
    "recipients": "Categories of recipients",
    "transfers": "Transfers to third countries",
    "time_limits": "Time limits for erasure",
}
_UNWRITTEN: Final = (
    "Nobody wrote down who the controller is, and why whose data is processed: set 'processing_record' to a file."
)


def processing_markdown(record: Mapping[str, Any]) -> str:
    """Return the record as Markdown."""
    lines = [f"# {TITLE}", "", f"As of {record['as_of']}.", ""]
    lines += [f"- **{name}**: {_line(value)}" for name, value in _parties(record)]
    if record["missing"]:
        lines += [_UNWRITTEN]
    for heading, parts in _activities(record):
        lines += ["", f"## {_line(heading)}"]
        for name, values in parts:
            lines += ["", f"**{name}**", "", *(f"- {_line(value)}" for value in values)]
    lines += ["", "## Recipients the collector knows", ""]
    lines += [f"- {_line(value)}" for value in record["recipients_known"]] or ["None."]
    lines += ["", "## Security measures", "", *(f"- {_line(value)}" for value in record["measures"]), ""]
    return "\n".join(lines)


def processing_pdf(record: Mapping[str, Any]) -> bytes:
    """Return the record as a PDF."""
    paper = Paper(TITLE, str(record["made_by"]), parse_moment_ns(record["as_of"]) or 0)
    paper.text(f"As of {record['as_of']}.", small=True)
    paper.facts(dict(_parties(record)))
    if record["missing"]:
        paper.text(_UNWRITTEN)
    for heading, parts in _activities(record):
        paper.heading(heading)
        for name, values in parts:
            paper.facts({name: "; ".join(values)})
    paper.heading("Recipients the collector knows")
    paper.items(record["recipients_known"], "None.")
    paper.heading("Security measures")
    paper.items(record["measures"], "None.")
    return paper.done()


def _parties(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (name, f"{record[key]['name']}, {record[key]['contact']}")
        for key, name in _PARTIES.items()
        if record[key] is not None
    ]


def _activities(record: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, Sequence[str]]]]]:
    if not record["activities"]:
        return [("All processing", [(_PARTS["time_limits"], record["time_limits"])])]
    return [(activity["name"], _parts(activity)) for activity in record["activities"]]


def _parts(activity: Mapping[str, Any]) -> list[tuple[str, Sequence[str]]]:
    parts: list[tuple[str, Sequence[str]]] = []
    for key, name in _PARTS.items():
        values = activity[key]
        if key == "transfers":
            values = [f"{transfer['to']}: {transfer['safeguards']}" for transfer in values]
        parts.append((name, values or ["none"]))
    if activity["legal_basis"]:
        parts.insert(1, ("Legal basis", [activity["legal_basis"]]))
    return parts


def _line(text: str) -> str:
    """On one line, with nothing that Markdown takes for its own."""
    plain = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|" else char for char in plain)
