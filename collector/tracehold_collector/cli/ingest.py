"""`tracehold ingest`: puts trace files and recorded sessions into a running collector."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import show
from tracehold_collector.client import DEFAULT_URL, Client
from tracehold_collector.load import FileResult, find_files, load_files
from tracehold_collector.load.files import READ, UNKNOWN
from tracehold_collector.load.resume import Progress as Resume
from tracehold_collector.sessions import Form


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(ingest)


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files, or folders to search for them.", metavar="FILES...")],
    form: Annotated[
        Form,
        typer.Option(
            "--from",
            help="Whose recorded sessions the files are; auto recognises them, and what was recorded as traces.",
        ),
    ] = Form.AUTO,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin at the start of files that were begun before.")
    ] = False,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Load trace files (JSON lines, OTLP as JSON or protobuf) and sessions that other programs recorded; also gzipped.

    Safe to repeat: what is stored already adds nothing. After Ctrl-C the same command goes on where it stopped. Exits 1
    when a file could not be read to its end; the others are loaded all the same.
    """
    files = find_files(paths, form)
    with Client(url) as client:
        client.get("/readyz")
        results = _load(client, files, form, None if restart else Resume(client.url))
    show([_row(result) for result in results], as_json=as_json, empty="no trace files found")
    if not as_json and any(UNKNOWN in (result.error or "") for result in results):
        typer.echo(f"\nread are: {READ}")
    if any(result.error for result in results):
        raise typer.Exit(1)


def _load(client: Client, files: list[Path], form: Form, resume: Resume | None) -> list[FileResult]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    sizes = {path: path.stat().st_size for path in files}
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("loading", total=sum(sizes.values()))
        done = 0
        results: list[FileResult] = []
        for path in files:

            def step(_path: Path, offset: int, before: int = done, size: int = sizes[path]) -> None:
                # A gzipped file's offsets run beyond its size on disk.
                bar.update(task, completed=before + min(offset, size))

            bar.update(task, description=path.name[:40])
            results += load_files(client, [path], form=form, progress=resume, on_bytes=step)
            done += sizes[path]
            bar.update(task, completed=done)
    return results


def _row(result: FileResult) -> dict[str, object]:
    error = (result.error or "").removeprefix(f"{result.path} is ").partition("; read are: ")[0]
    trouble = [error] if error else result.reasons[:1]
    return {
        "file": str(result.path),
        "state": "fault" if result.error else "loaded",
        "accepted": result.accepted,
        "duplicates": result.duplicates,
        "rejected": result.rejected,
        "why": trouble[0][:300] if trouble else None,
    }
