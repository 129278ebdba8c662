"""Which tests name which clause of the contract.

A test names a clause in a comment. Inside a test function, in its decorators, or on the comment lines directly above
it, the comment speaks for that function; anywhere else it speaks for the file.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1]
CLAUSES: Final = Path(__file__).with_name("clauses")

CHAPTERS: Final = {
    "HAR": "Harness",
    "GRD": "Guardrails",
    "HITL": "Approvals",
    "HOOK": "Hooks",
    "SES": "Sessions",
    "CKPT": "Checkpoints",
    "EXEC": "Runs and governed calls",
    "POL": "Run policy",
    "TRC": "Tracer",
    "EXP": "Exporters",
    "ERR": "Errors",
    "LLM": "Model clients",
    "REG": "Tools and their registry",
    "PERM": "Tool permissions",
    "MSG": "Messages",
    "SCP": "Scopes",
    "CTX": "Context",
    "TRV": "Tool retrieval",
    "IDX": "Index synchronisation",
    "RTV": "Retrieval",
    "EVT": "Event envelope",
    "STO": "Event stores",
    "BUS": "Event bus",
    "SCH": "Schemas of payloads",
    "PRJ": "Projections",
    "BLB": "Payloads outside the log",
    "RTY": "Outages and retries",
    "OUT": "Outcomes",
    "ENG": "Engine",
    "HND": "Run handles",
    "BUD": "Budgets",
    "LED": "Ledger of a run",
    "CTXT": "Context of an event",
    "ALG": "Algorithms",
    "TEN": "Tenants",
    "ERA": "Erasure",
    "RET": "Retention and purge",
    "RED": "Redactors",
    "MEM": "Memory reports",
    "RCV": "Recovery and sweep",
    "DEC": "Decisions where the documents leave a point open",
}
"""Prefix of a clause's id to the name of its chapter, in the order of the contract; decisions come last."""

_CLAUSE: Final = re.compile(r"\b([A-Z]{3,4})-(\d{2})(?: to (?:\1-)?(\d{2})\b)?")


def clause_list(table: str) -> dict[str, str]:
    """A table of the files in `clauses`, put together and in the contract's order: id to words.

    Raises:
        ValueError: two files speak for one clause.
    """
    found: dict[str, str] = {}
    for path in sorted(CLAUSES.glob("*.toml")):
        words = tomllib.loads(path.read_text("utf-8")).get(table, {})
        if twice := found.keys() & words.keys():
            raise ValueError(f"{path.name} repeats {', '.join(sorted(twice))}: another file has it already")
        found |= words
    return {clause: found[clause] for clause in sorted(found, key=contract_order)}


def contract_order(clause: str) -> tuple[float, str, int]:
    """Sort key of an id: its chapter's place (one that is not known: before the decisions), then its number."""
    prefix, _, number = clause.partition("-")
    places = list(CHAPTERS)
    place = places.index(prefix) if prefix in CHAPTERS else len(places) - 1.5
    return place, prefix, int(number)


def named_by_tests(root: Path = TESTS) -> dict[str, list[str]]:
    """Clause id to the tests that name it: `folder/test_file.py::test_function`, or the file alone."""
    found: dict[str, set[str]] = {}
    for path in sorted(root.rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        for clause, function in named_in(path.read_text("utf-8")):
            found.setdefault(clause, set()).add(f"{name}::{function}" if function else name)
    return {clause: sorted(tests) for clause, tests in found.items()}


def named_in(source: str) -> Iterator[tuple[str, str]]:
    """Yield each clause that a comment of `source` names, and the test function it speaks for, or ''."""
    comments = _comments(source)
    owners = _owners(source, comments)
    for line, text in comments.items():
        for clause in ids_in(text):
            yield clause, owners.get(line, "")


def ids_in(text: str) -> Iterator[str]:
    """Yield the ids in `text`, those of a range such as `HAR-10 to HAR-12` or `HAR-10 to 12` each."""
    for prefix, first, last in _CLAUSE.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}-{number:02d}"


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _owners(source: str, comments: dict[int, str]) -> dict[int, str]:
    """The line of each comment that speaks for a test function, and that function's name."""
    whole = {number for number, text in enumerate(source.splitlines(), start=1) if text.lstrip().startswith("#")}
    found: dict[int, str] = {}
    for name, node in _functions(ast.parse(source).body, ""):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        while first - 1 in whole:
            first -= 1
        last = node.end_lineno or node.lineno
        found |= {line: name for line in comments if first <= line <= last}
    return found


def _functions(body: list[ast.stmt], within: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{within}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield within + node.name, node
