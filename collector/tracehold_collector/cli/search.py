"""`tracehold search`: finds events by their names, and with `--content` by what they said."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Final

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from tracehold_collector.cli.ask import Limit, Since, Until
from tracehold_collector.cli.options import JsonOption, UrlOption
from tracehold_collector.cli.render import cell, show
from tracehold_collector.client import DEFAULT_URL, AskError, Client

_PATH: Final = "/api/v1/search/content"
_MAX_HITS: Final = 1_000
_COLUMNS: Final = ("at", "run_id", "kind", "name", "status", "error_type", "rule", "agent", "model")


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(search)


def search(
    text: Annotated[str, typer.Argument(help="What to look for, anywhere in a word, without case; or a run's id.")],
    content: Annotated[
        bool, typer.Option("--content", help="Look in what was said: prompts, replies, arguments, results, reasons.")
    ] = False,
    since: Since = None,
    until: Until = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only events of this run.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only events of this kind: llm, tool, gate ...")] = None,
    name: Annotated[str | None, typer.Option(help="Only events of this name, such as a tool's.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only events of this agent.")] = None,
    model: Annotated[str | None, typer.Option(help="Only calls of this model.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only events of this tenant.")] = None,
    seconds: Annotated[
        int, typer.Option(min=1, max=600, help="With --content: how long to look before the rest is left.")
    ] = 60,
    cursor: Annotated[
        str | None, typer.Option(help="With --content: go on where an earlier search was stopped by a limit.")
    ] = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Find events by name, type, error, rule, agent, model or service; with --content by what they said.

    With --content the newest events are opened first, hits are printed as they are found, and Ctrl-C ends it. It needs
    a key with the role content; who looked, and where, is noted in the access log, the words are not.

    Examples: tracehold search Timeout --since 2026-11-29; tracehold search --content "invoice 4711" --kind tool
    """
    filters = {"run_id": run_id, "kind": kind, "name": name, "agent": agent, "model": model, "tenant": tenant}
    asked = {"text": text, "since": since, "until": until, "limit": limit, **filters}
    with Client(url) as client:
        if content:
            _in_content(client, asked | {"limit": min(limit, _MAX_HITS), "seconds": seconds, "cursor": cursor}, as_json)
            return
        rows = client.query("search", asked)
    show(rows, as_json=as_json, columns=_COLUMNS, empty=f"no event carries {text!r}")


def _in_content(client: Client, asked: dict[str, Any], as_json: bool) -> None:
    said = Console(stderr=True)
    out = Console(width=None if sys.stdout.isatty() else 240, highlight=False)
    end: dict[str, Any] = {}
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), console=said, transient=True,
        disable=not said.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("looking", total=None)
        for line in client.found(_PATH, asked):
            told = orjson.loads(line)
            if hit := told.get("hit"):
                _print_hit(out, hit, as_json=as_json)
            elif progress := told.get("progress"):
                bar.update(task, total=progress["of"], completed=progress["events"], description=_far(progress))
            elif "error" in told:
                raise AskError(told["error"])
            end = told.get("done", end)
    if not end:
        raise AskError("the collector broke off; what was found so far is above. Ask again, it may have been stopped")
    said.print(Text(_summary(end)), soft_wrap=True)


def _print_hit(out: Console, hit: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(hit, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        return
    head = " ".join(cell(name, hit[name]) for name in ("at", "run_id", "kind", "name") if hit[name] is not None)
    excerpt, start, end = hit["excerpt"], hit["match_start"], hit["match_start"] + hit["match_length"]
    more = hit["more_places"]
    # Text, not markup, and no control characters: what an agent said may not steer a terminal.
    line = Text(f"{head}  {hit['event_id']}\n", style="bold")
    line.append_text(Text(f"    {_plain(hit['path'])}: {_plain(excerpt[:start])}", style="not bold"))
    line.append(_plain(excerpt[start:end]), style="reverse not bold")
    line.append(_plain(excerpt[end:]) + (f"  (and in {more} more)" if more else ""), style="not bold")
    out.print(line, soft_wrap=True)


def _plain(text: str) -> str:
    """One line, each character at its place: line breaks and tabs are spaces."""
    return "".join(" " if letter.isspace() else cell("", letter) for letter in text)


def _far(progress: dict[str, Any]) -> str:
    reached = (progress["reached"] or "")[:19].replace("T", " ")
    return f"{progress['hits']:,} found, {progress['events']:,} of {progress['of']:,} events, back to {reached}"


def _summary(end: dict[str, Any]) -> str:
    text = f"{end['hits']:,} found in {end['events']:,} of {end['of']:,} events"
    if end["unread"]:
        text += f"; {end['unread']:,} have no content that can be read, such as erased ones"
    if not end["complete"]:
        why = "the collector stops" if end["stopped_by"] == "stop" else f"stopped by the limit of {end['stopped_by']}"
        text += f"; {why}. Go on with --cursor {end['cursor']}"
    return text
