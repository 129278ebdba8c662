"""Fills a collector with the demo's runs, with a progress bar."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from tracehold import CollectorExporter, Tracer

from tracehold_collector.client import Client
from tracehold_collector.core.errors import CollectorError
from tracehold_collector.demo.agents import LIVE_RUNS, answer_a_refund_request, research_with_one_tool_too_many
from tracehold_collector.load import FileResult, find_files, load_files

RECORDED: Final = Path(__file__).parent / "recorded"
"""Recorded runs under permissive licences; each folder holds its notice."""


def load(url: str) -> None:
    """Load the recorded runs, make the live ones, and print what the store then holds.

    Args:
        url: a running collector.

    Raises:
        CollectorError: a run could not be stored.
    """
    with Client(url) as client:
        results = _load_recorded(client)
        made = 0 if _has_live_runs(client) else _run_live(url)
        overview = client.query("overview", {})[0]
    faults = [f"{result.path.name}: {result.error}" for result in results if result.error]
    if faults:
        raise CollectorError("the demo's recorded runs could not be loaded: " + "; ".join(faults))
    typer.echo(
        f"loaded {len(results)} recorded files, made {made} live runs; the store holds {overview['runs']} runs, "
        f"{overview['events']:,} events, {overview['denials']} blocked attempts, "
        f"{overview['cost_usd']:.4f} USD spent as far as is known"
    )


def _load_recorded(client: Client) -> list[FileResult]:
    files = find_files([RECORDED])
    columns = (
        TextColumn("loading recorded runs"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[file]}"),
    )
    results = []
    with Progress(*columns, console=Console(file=sys.stdout)) as bar:
        task = bar.add_task("", total=len(files), file="")
        for path in files:
            results += load_files(client, [path])
            bar.update(task, advance=1, file=f"{path.parent.name}/{path.name}"[:60])
    return results


def _has_live_runs(client: Client) -> bool:
    """Say whether an earlier demo made the live runs: a second one adds nothing to the same store."""
    return all(client.query("run", {"run_id": run_id}) for run_id in LIVE_RUNS)


def _run_live(url: str) -> int:
    tracer = Tracer(exporters=[CollectorExporter(url, handle_sigterm=False)], content=True, service="tracehold-demo")
    research_with_one_tool_too_many(tracer)
    answer_a_refund_request(tracer)
    handed_over = tracer.force_flush(timeout_s=10)
    tracer.close()
    if not handed_over:
        raise CollectorError(f"the demo's live runs did not reach the collector at {url} within 10 s")
    return len(LIVE_RUNS)
