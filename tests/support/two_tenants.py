"""A store of two tenants, each event marked by whose it is, and statements of two files."""

from __future__ import annotations

from pathlib import Path

from tracehold_collector.core.record import Record

from support.records import make_record

FOLDER = Path(__file__).resolve().parent.parent / "collector" / "sql"

OURS = "acme"
THEIRS = "theirmark"
MARK = "theirmark"
"""Stands in every text of the other tenant, its name among them, and in no other place."""
NUMBER = 66_601_666
"""Every number of the other tenant."""
SAID = "saidmark"
"""Stands in every content, and in no envelope."""


def two_tenants() -> list[Record]:
    """Twenty events a tenant; and the names of ours are numbers."""
    ours = [
        make_record(n, run=f"run-{n % 3}", tenant=OURS, name=str(n), agent="ann", content={"said": SAID})
        for n in range(20)
    ]
    theirs = [
        make_record(
            100 + n, run=f"{MARK}-{n % 3}", tenant=THEIRS, name=MARK, agent=MARK, model=MARK, service=MARK,
            provider=MARK, rule=MARK, error_type=MARK, type=MARK, user_ref=MARK, session_id=MARK, trace_id=MARK,
            span_id=MARK, attributes={"k": MARK}, input_tokens=NUMBER, output_tokens=NUMBER, cost_usd=float(NUMBER),
            content={"said": SAID + MARK},
        )
        for n in range(20)
    ]  # fmt: skip
    return [record for pair in zip(theirs, ours, strict=True) for record in pair]


def statements(name: str) -> list[str]:
    """The statements of a file, one a line, comments left out."""
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    return [line for line in lines if not line.startswith("-- ")]
