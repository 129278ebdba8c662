"""Recorded sessions of other programs, read as native events: one module a form, nothing sent or stored here."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from tracehold_collector.sessions import atif, claude_code, codex, inspect_ai, openhands, swe_agent
from tracehold_collector.sessions.reading import Event, Reader, read_lines

READERS: Final[dict[str, Reader]] = {
    module.READER.name: module.READER for module in (claude_code, codex, inspect_ai, swe_agent, openhands, atif)
}
"""By the name that `--from` takes."""


class Form(StrEnum):
    """What `--from` takes: `auto`, or one of `READERS`."""

    AUTO = "auto"
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    INSPECT = "inspect"
    SWE_AGENT = "swe-agent"
    OPENHANDS = "openhands"
    ATIF = "atif"


def recognise(value: Any, *, lines: bool) -> Reader | None:
    """Return the reader whose form a parsed line or document surely is of, or `None`.

    Args:
        value: a line of a file of lines, else its document.
        lines: which of the two.
    """
    for reader in READERS.values():
        if reader.lines == lines and reader.looks(value):
            return reader
    return None


__all__ = ["READERS", "Event", "Form", "Reader", "read_lines", "recognise"]
