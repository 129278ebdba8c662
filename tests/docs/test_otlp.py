"""The page of OTLP's rules names tests that exist, and leaves no section of the specification out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")

SECTIONS = {
    "Protocol Details", "OTLP/gRPC", "OTLP/gRPC Request", "OTLP/gRPC Concurrent Requests", "Full Success",
    "Partial Success", "Failures", "OTLP/gRPC Throttling", "OTLP/gRPC Default Port", "OTLP/HTTP",
    "Binary Protobuf Encoding", "JSON Protobuf Encoding", "OTLP/HTTP Request", "OTLP/HTTP Response",
    "Retryable Response Codes", "Bad Data", "OTLP/HTTP Throttling", "All Other Responses", "OTLP/HTTP Connection",
    "OTLP/HTTP Concurrent Requests", "OTLP/HTTP Default Port", "Empty Telemetry Envelopes", "Duplicate Data",
    "Future Versions and Interoperability",
}  # fmt: skip
"""Those of the specification that say something of a server; "OTLP/gRPC Response" has its rules in the three below."""


@pytest.fixture
def rules(pages: dict[str, str]) -> list[list[str]]:
    rows = [line for line in pages["docs/otlp.md"].splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [row for row in cells if row[0] not in {"section", "---"}]


def functions(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_rule_names_a_test_that_exists(rules: list[list[str]]) -> None:
    assert len(rules) > 40
    for section, rule, _, tests in rules:
        named = NAMED.findall(tests)
        assert named or tests == "the same", (section, rule)
        for file, name in named:
            assert name in functions(file), f"{section}: {rule}: there is no {file}::{name}"


def test_every_section_of_the_specification_that_binds_a_server_is_there(rules: list[list[str]]) -> None:
    assert {section for section, *_ in rules} == SECTIONS


def test_every_note_is_explained(pages: dict[str, str], rules: list[list[str]]) -> None:
    used = {number for row in rules for cell in row for number in re.findall(r"\((\d)\)", cell)}
    notes = pages["docs/otlp.md"].partition("## Notes")[2]
    assert used == set(re.findall(r"^(\d)\. ", notes, flags=re.MULTILINE))
