"""What the notes beside the recorded traces say a right reader finds: the counts of their tables, as numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Counts = dict[str, int | float]

_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"(\d+) spans, \d+ trace", ("stored",)),
    (r"(\d+) events in \d+ run", ("stored",)),
    (r"LLM calls (\d+), tool calls (\d+)", ("llm_calls", "tool_calls")),
    (r"tokens in (\d+), out (\d+)", ("input_tokens", "output_tokens")),
    (r"reasoning (\d+)", ("reasoning_tokens",)),
    (r"cost ([\d.]+) USD", ("cost_usd",)),
    (r"ERROR spans (\d+)", ("errors",)),
    (r"tool uses (\d+), tool errors (\d+)", ("tool_calls", "errors")),
    (r"events: [^;]*\bmodel (\d+)", ("llm_calls",)),
    (r"steps, tool calls (\d+)", ("tool_calls",)),
)


def stated(path: Path) -> dict[str, Counts]:
    """The counts of a SOURCE.md by file name; only what it states."""
    rows = {}
    for line in path.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) >= 3:
            rows[cells[0]] = counts(" | ".join(cells[2:]))
    return rows


def counts(text: str) -> Counts:
    """The counts that one row states."""
    found: Counts = {}
    for pattern, names in _WORDS:
        match = re.search(pattern, text)
        if match is not None:
            for name, number in zip(names, match.groups(), strict=True):
                found[name] = float(number) if name == "cost_usd" else int(number)
    if "run.started" in text:
        for name, own in (("llm_calls", "llm"), ("tool_calls", "tool")):
            found[name] = sum(map(int, re.findall(rf"\b{own}\.(?:completed|failed) (\d+)", text)))
    return found | _of_objects(text)


def _of_objects(text: str) -> Counts:
    """Counts that a row quotes from the file itself."""
    usage = _json_after(text, "model_usage ")
    if usage is not None:
        return _sums(list(usage.values()), input_tokens="input_tokens", output_tokens="output_tokens")
    stats = _json_after(text, "model_stats ")
    if stats is not None:
        return _sums(
            [stats],
            api_calls="llm_calls",
            tokens_sent="input_tokens",
            tokens_received="output_tokens",
            instance_cost="cost_usd",
        )
    totals = _json_after(text, "final_metrics ")
    if totals is not None:
        return _sums(
            totals,
            total_prompt_tokens="input_tokens",
            total_completion_tokens="output_tokens",
            total_cost_usd="cost_usd",
        )
    return {}


def _json_after(text: str, word: str) -> Any:
    _, found, rest = text.partition(word)
    return json.JSONDecoder().raw_decode(rest)[0] if found else None


def _sums(parts: list[dict[str, Any]], **names: str) -> Counts:
    return {
        ours: sum(part[theirs] for part in parts if theirs in part)
        for theirs, ours in names.items()
        if any(theirs in part for part in parts)
    }
