"""A store whose logs have several tiles, bundles of evidence made from it, and ways to tamper with them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tracehold_collector.audit.signing import Signer
from tracehold_collector.core.record import Record
from tracehold_collector.evidence.bundle import Asked, EvidenceBundle
from tracehold_collector.evidence.question import parse_question
from tracehold_collector.store.database import FILE_NAME, Database
from tracehold_collector.store.tree_heads import StoredHead, write_tree_heads
from tracehold_collector.store.writer import Writer

from support.records import START, make_record

OFFLINE = Path(__file__).resolve().parents[2] / "collector" / "tracehold_collector" / "evidence" / "offline"
NOW = START + 3_600_000_000_000

Edit = Callable[[bytes], bytes | None]


def an_event(n: int, **fields: Any) -> Record:
    """Every 20th is a denial; every third says nothing."""
    given: dict[str, Any] = {"run": f"run-{n % 7}", "user_ref": f"u_{n % 5:016x}", "content": {"said": f"word {n}"}}
    if n % 20 == 0:
        given |= {"kind": "gate", "type": "tool_call", "name": "delete \u00fc", "status": "blocked"}
        given |= {"decision": "denied", "decided_by": "policy", "rule": "no-deletes", "cost_usd": None}
        given |= {"attributes": {"tracehold.policy_digest": "sha256:00"}}
    elif n % 3 == 0:
        given["content"] = None
    return make_record(n, **(given | fields))


@dataclass
class World:
    """A store, who signs for it, and the tree heads so far."""

    database: Database
    writer: Writer
    signer: Signer
    heads: list[StoredHead]

    def add(self, records: list[Record]) -> None:
        self.writer.submit(records).result(30)

    def sign(self, tenant: str = "default", at: int = NOW) -> StoredHead:
        size, root = self.writer.log.head(tenant)
        head = StoredHead(tenant, size, root, at, self.signer.sign_head(tenant, size, root, at))
        write_tree_heads(self.database, [head])
        self.heads.append(head)
        return head

    def key(self, tenant: str = "default") -> str:
        return str(self.signer.verifier_keys(tenant)[0])

    def bundle(
        self, path: Path, question: str = "denials", tenant: str = "default", *, given: Any = None, **asked: Any
    ) -> Path:
        """Write a bundle to `path`."""
        wanted = Asked(parse_question(question, tenant, given or {}), asked_by="an auditor", asked_at=NOW, **asked)
        made = EvidenceBundle(self.database, wanted, self.signer.verifier_keys(tenant))
        try:
            with path.open("wb") as file:
                file.writelines(made.pieces())
        finally:
            made.close()
        return path


def filled_world(folder: Path) -> World:
    """700 events of one tenant in several commits, some of another between them, three tree heads."""
    folder.mkdir(parents=True, exist_ok=True)
    database = Database(folder / FILE_NAME)
    world = World(database, Writer(database), Signer(folder, START, name="log.example"), [])
    for low in range(0, 700, 50):
        world.add([an_event(n) for n in range(low, low + 50)] + [an_event(5_000 + low, tenant="another")])
        if low in {100, 300}:
            world.sign(at=NOW - 60_000_000_000 * (7 - low // 100))
    world.sign()
    world.sign("another")
    return world


def other_python() -> str:
    """Return an interpreter that has aics-tlog: the one TRACEHOLD_TLOG_PYTHON names, or this one; skips without."""
    for python in (os.environ.get("TRACEHOLD_TLOG_PYTHON"), sys.executable):
        if python:
            tried = subprocess.run([python, "-c", "import aics_tlog"], capture_output=True, check=False)
            if tried.returncode == 0:
                return python
    pytest.skip(
        "no aics-tlog, which takes Python 3.12: install it there and name the interpreter in TRACEHOLD_TLOG_PYTHON"
    )


@dataclass
class Outcome:
    """What the verifier said: its exit code, and what it printed as JSON."""

    code: int
    said: dict[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        return {state: count for state, count in self.said["counts"].items() if count}

    def why(self, state: str) -> set[str]:
        return {record["why"] for record in self.said["records"] if record["state"] == state}


@cache
def _verifier() -> ModuleType:
    """The verifier as an auditor has it: one file, loaded by its path."""
    spec = importlib.util.spec_from_file_location("verify_evidence_alone", OFFLINE / "verify_evidence.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_bundle(path: Path, *arguments: str) -> Outcome:
    """Run the verifier in this process on a bundle, with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _verifier().main([str(path), "--json", *arguments])
    return Outcome(code, json.loads(out.getvalue()) if out.getvalue() else {"error": err.getvalue()})


def tampered(path: Path, edits: dict[str, Edit]) -> Path:
    """Write a copy of a bundle with some files changed, removed (`None`) or added."""
    copy = path.with_name(f"tampered-{path.name}")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        for name in [*names, *(name for name in edits if name not in names)]:
            data: bytes | None = old.read(name) if name in names else b""
            if name in edits and data is not None:
                data = edits[name](data)
            if data is not None:
                new.writestr(name, data)
    return copy


def edit_line(number: int, change: Callable[[dict[str, Any]], object]) -> Edit:
    """Change one line of a JSON lines file."""

    def edit(data: bytes) -> bytes:
        lines = [json.loads(line) for line in data.splitlines()]
        change(lines[number])
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    return edit


def edit_json(change: Callable[[dict[str, Any]], object]) -> Edit:
    """Change a JSON file."""

    def edit(data: bytes) -> bytes:
        item = json.loads(data)
        change(item)
        return json.dumps(item).encode()

    return edit


def forgeries(path: Path) -> dict[str, Path]:
    """Return copies of a bundle of denials with content, a sample or neither, each with one thing wrong, by what."""

    def first_field(**fields: Any) -> Edit:
        return edit_line(0, lambda line: line["envelope"].update(fields))

    def flip(at: int) -> Edit:
        return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    edits: dict[str, dict[str, Edit]] = {
        "decision": {"records.jsonl": first_field(decision="rejected")},
        "time": {"records.jsonl": first_field(started_at="9223372036854775807")},
        "cost": {"records.jsonl": first_field(cost_usd=0)},
        "not a number": {"records.jsonl": first_field(cost_usd="NaN")},
        "rounded time": {"records.jsonl": first_field(started_at=START)},
        "empty text": {"records.jsonl": first_field(error_type="")},
        "unknown field": {"records.jsonl": first_field(mood="bad")},
        "place": {"records.jsonl": edit_line(1, lambda line: line.update(leaf_index=0))},
        "place beyond": {"records.jsonl": edit_line(1, lambda line: line.update(leaf_index=1 << 40))},
        "no place": {"records.jsonl": edit_line(1, lambda line: line.update(leaf_index=None))},
        "commitment": {"records.jsonl": edit_line(1, lambda line: line.update(commitment="AAAA"))},
        "left out": {"records.jsonl": lambda data: data.partition(b"\n")[2]},
        "twice": {"records.jsonl": lambda data: data + data.splitlines(keepends=True)[0]},
        "leaf": {"leaves.bin": flip(45)},
        "leaves cut": {"leaves.bin": lambda data: data[:-32]},
        "content": {"content.jsonl": edit_line(0, lambda line: line.update(content="{}"))},
        "content left out": {"content.jsonl": lambda data: data.partition(b"\n")[2]},
        "content of another": {"content.jsonl": lambda data: data + b'{"event_id": "x"}\n'},
        "content no text": {"content.jsonl": edit_line(0, lambda line: line.update(content=5))},
        "content without salt": {"content.jsonl": edit_line(0, lambda line: line.pop("salt"))},
        "content missing": {"content.jsonl": edit_line(0, lambda line: line.update(state="missing"))},
        "half a pair": {"records.jsonl": first_field(name="\ud83d")},
        "count": {"evidence.json": edit_json(lambda item: item["population"].update(count=7))},
        "question": {
            "evidence.json": edit_json(lambda item: item["question"].update(conditions=[{"field": "rule", "in": []}]))
        },
        "version": {"evidence.json": edit_json(lambda item: item.update(version=2))},
        "no bundle": {"evidence.json": lambda data: b"[]"},
        "no nodes": {"nodes.txt": lambda data: b"x y z\n"},
        "head": {"heads/700.txt": lambda data: data.replace(b"\n700\n", b"\n701\n")},
        "head no note": {"heads/700.txt": lambda data: data[:40]},
        "origin": {"evidence.json": edit_json(lambda item: item["log"].update(origin="log.example/other"))},
        "line": {"records.jsonl": lambda data: data + b"[]\n"},
        "no file": {"records.jsonl": lambda _data: None},
    }
    return {
        name: tampered(path, edit).rename(path.with_name(f"{number}.zip"))
        for number, (name, edit) in enumerate(edits.items())
    }


def erase(world: World, erasure_id: str, run: str, *, delete: bool) -> None:
    """Take what a run said away as an erasure does: its keys are destroyed, and its events listed or gone."""
    connection = world.database.connection
    keys = connection.execute("SELECT DISTINCT key_id FROM contents WHERE run_id = ?", [run]).fetchall()
    connection.execute(
        "INSERT INTO erased_events SELECT ?, tenant, event_id, leaf_index, received_at FROM events WHERE run_id = ?",
        [erasure_id, run],
    )
    world.database.vault.destroy([key for (key,) in keys], erasure_id, NOW)
    if delete:
        connection.execute("DELETE FROM events WHERE run_id = ?", [run])
