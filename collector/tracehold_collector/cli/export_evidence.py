"""`tracehold export evidence`: the answer to one question as a zip file that proves itself elsewhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from tracehold_collector.audit.notes import parse_note
from tracehold_collector.audit.tree_heads import parse_tree_head
from tracehold_collector.cli.export import Agent, From, Kind, Run, Tenant, To, WithContent, export, progress
from tracehold_collector.cli.options import UrlOption
from tracehold_collector.cli.output import STDOUT, ForceOption, OutputOption, written
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.evidence.question import QUESTIONS
from tracehold_collector.heads.copies import read_notes

_PATH: Final = "/api/v1/export/evidence"
_MAX_HEADS: Final = 16

Asks = StrEnum("Asks", {name: name for name in QUESTIONS})  # type: ignore[misc] # the members are the catalogue's
DENIALS: Final = Asks("denials")


def add_to(_app: typer.Typer) -> None:
    """Add the form to the verb `export`."""
    export.command("evidence")(evidence)


def evidence(
    question: Annotated[
        Asks, typer.Option(help="; ".join(f"{name}: {asked.partition(';')[0]}" for name, asked in QUESTIONS.items()))
    ] = DENIALS,
    since: From = None,
    until: To = None,
    tenant: Tenant = None,
    run_id: Run = None,
    user_ref: Annotated[str | None, typer.Option("--user", help="Only this user, by the pseudonym.")] = None,
    agent: Agent = None,
    kind: Kind = None,
    rule: Annotated[str | None, typer.Option(help="Only what this rule decided.")] = None,
    decision: Annotated[str | None, typer.Option(help="Only this decision of a gate: denied, rejected ...")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Only so many, drawn by --seed.")] = None,
    seed: Annotated[
        str | None, typer.Option(help="A text of the auditor's own: it decides what is drawn, and anybody can redraw.")
    ] = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Also every other event of the range, to prove that nothing is left out."),
    ] = False,
    tree_head: Annotated[
        list[Path] | None,
        typer.Option("--tree-head", help="A tree head the auditor holds: the bundle will reach back to it. Repeat."),
    ] = None,
    with_content: WithContent = False,
    output: OutputOption = STDOUT,
    force: ForceOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Write evidence that proves itself: the records that answer a question, with proofs, as one zip file.

    Signed tree heads are in it, a page to read, and a verifier that needs no server and no network.

    The auditor checks it with verify_evidence.py (Python 3.9 and one library) or verify_evidence.html (a browser), both
    inside, and with the verifier key that 'tracehold heads keys' shows, given to them by another way.

    Example: tracehold export evidence --question denials --since 2026-07-01 --until 2026-10-01 --tenant acme -o q3.zip
    """
    asked = {
        "question": question.value, "since": since, "until": until, "tenant": tenant, "run_id": run_id,
        "user_ref": user_ref, "agent": agent, "kind": kind, "rule": rule, "decision": decision, "sample": sample,
        "seed": seed, "complete": "true" if complete else None, "with_content": "true" if with_content else None,
        "tree_head": _sizes(tree_head or []),
    }  # fmt: skip
    with (
        Client(url) as client,
        written(output, force=force, binary=True) as file,
        client.stream(_PATH, asked) as (headers, pieces),
    ):
        records, population = int(headers["X-Tracehold-Events"]), int(headers["X-Tracehold-Population"])
        with progress(f"{records:,} records") as advance:
            for piece in pieces:
                file.write(piece)
                advance(len(piece))
    if output != STDOUT:
        typer.echo(f"{output}: {records:,} records, {population:,} events answer the question", err=True)
        typer.echo(
            f"check it with: python verify_evidence.py {output} --key 'the key of tracehold heads keys'", err=True
        )


def _sizes(files: list[Path]) -> list[int]:
    """The sizes of the tree heads in some files, the newest of them when there are many."""
    notes = [note for path in files for note in read_notes(path)]
    sizes = sorted({parse_tree_head(parse_note(note).text).size for note in notes})
    return [size for size in sizes if size][-_MAX_HEADS:]
