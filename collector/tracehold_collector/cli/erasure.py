"""`tracehold erasure`: reports on erasures and their register; `tracehold records-of-processing`: GDPR Art. 30."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.core.errors import BadBodyError, CollectorError

_FORMS: Final = ("markdown", "json", "pdf")
_MAX_BYTES: Final = 16 * 1024 * 1024

erasure = typer.Typer(
    no_args_is_help=True,
    help="Reports on what was erased, for the data subject, an auditor or an authority: signed, and checked offline. "
    "'tracehold erase' erases. Needs a key with the role audit.",
)

ErasureId = Annotated[str, typer.Argument(help="The erasure's id, as 'tracehold erasure register' shows it.")]


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    app.add_typer(erasure, name="erasure")
    app.command("records-of-processing")(records_of_processing)


@erasure.command()
def report(
    erasure_id: ErasureId,
    pdf: Annotated[Path | None, typer.Option("--pdf", help="Write the PDF here.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the signed JSON here. [default: standard output]")
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Write the report of an erasure: the request, what was done where, what stayed and why, who is to be told.

    The PDF says the same as the JSON and names its SHA-256; the JSON is what is signed. Both tell of the steps that
    are done by now. Example: tracehold erasure report ID --pdf report.pdf --json report.json
    """
    with Client(url) as client:
        signed = client.get(f"/api/v1/erasures/{erasure_id}/report").json()
        if pdf is not None:
            answer = client.get(f"/api/v1/erasures/{erasure_id}/report.pdf", accept="application/pdf")
            _write(pdf, answer.content)
    text = json.dumps(signed, indent=2, ensure_ascii=False) + "\n"
    if json_file is not None:
        _write(json_file, text.encode())
    elif pdf is None:
        typer.echo(text, nl=False)
    if signed["report"]["done"]["bytes_gone_since"] is None and signed["report"]["request"]["refused_at"] is None:
        typer.echo(f"not done yet: this erasure is {signed['report']['erasure']['status']}", err=True)


@erasure.command()
def register(
    overdue: Annotated[bool, typer.Option("--overdue", help="Only those that should have been done by now.")] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """List every request: the overdue ones first, then those due next, then what is done (GDPR Art. 12(3), 5(2)).

    With --overdue, ends with exit status 1 when there are any, for a job that watches.
    """
    with Client(url) as client:
        rows = client.get("/api/v1/erasure-register").json()["erasures"]
    rows = [row for row in rows if row["overdue"] or not overdue]
    columns = ["id", "tenant", "status", "overdue", "days_left", "scope", "scope_value", "mode", "basis", "due_at"]
    show(rows, as_json=as_json, columns=columns, empty="none is overdue" if overdue else "no erasure was asked for")
    if overdue and rows:
        raise typer.Exit(1)


@erasure.command("verify-report")
def verify_report(
    file: Annotated[Path, typer.Argument(help="The report's JSON; - reads standard input.")],
    key: Annotated[
        list[str],
        typer.Option(
            "--key", help="The log's verifier key, got by other means than this file, or a file of it; may be repeated."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Check that a report is as the log's key signed it. Asks nobody: needs the file and a verifier key.

    The key is what 'tracehold heads keys' shows where the collector runs; compare it by another way than the one the
    report came.
    """
    # They load a library for signatures, which no other verb of this group needs.
    from tracehold_collector.audit.notes import parse_verifier_key  # noqa: PLC0415
    from tracehold_collector.erasure.report import open_report, report_digest  # noqa: PLC0415

    data = sys.stdin.buffer.read(_MAX_BYTES + 1) if str(file) == "-" else _read(file)
    told, signers = open_report(data, [parse_verifier_key(_key_text(text)) for text in key])
    facts: dict[str, Any] = {
        "signed_by": ", ".join(str(signer) for signer in signers),
        "sha256": report_digest(told),
        "erasure": told["erasure"]["id"],
        "tenant": told["erasure"]["tenant"],
        "status": told["erasure"]["status"],
        "as_of": told["as_of"],
        "unreadable_since": told["done"]["unreadable_since"],
        "bytes_gone_since": told["done"]["bytes_gone_since"],
        "erased_leaves_root": told["evidence"]["erased_leaves_root"],
    }
    if as_json:
        show([facts], as_json=True)
        return
    typer.echo("the report is as it was signed")
    for name, value in facts.items():
        typer.echo(f"  {name.replace('_', ' ') + ':':20}{value if value is not None else 'not yet'}")


def records_of_processing(
    form: Annotated[str, typer.Option("--format", help=f"{', '.join(_FORMS)}.")] = "markdown",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it here, not to standard output.")
    ] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Write the record of processing activities (GDPR Art. 30) of the running collector.

    Who the controller is, and why whose data is processed, comes from the file of the setting 'processing_record';
    time limits, recipients and security measures are told from what the collector does. Example: tracehold
    records-of-processing --format pdf -o records.pdf
    """
    if form not in _FORMS:
        raise CollectorError(f"--format is one of {', '.join(_FORMS)}")
    if form == "pdf" and output is None and sys.stdout.isatty():
        raise CollectorError("a PDF is no text: name a file with --output")
    with Client(url) as client:
        data = client.get("/api/v1/records-of-processing", {"form": form}, accept="*/*").content
    if form == "json":
        data = json.dumps(json.loads(data), indent=2, ensure_ascii=False).encode() + b"\n"
    if output is not None:
        _write(output, data)
    else:
        sys.stdout.buffer.write(data)


def _key_text(text: str) -> str:
    path = Path(text)
    return _read(path).decode("utf-8", "replace") if "+" not in text and path.is_file() else text


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise BadBodyError(f"cannot read {path}: {error.strerror}") from None
    return data


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise CollectorError(f"cannot write {path}: {error.strerror}") from None
