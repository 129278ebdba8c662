"""What a Google-style docstring says about a function and its parameters."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

_SECTION: Final = re.compile(
    r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?|Attributes|Warnings?|See Also):\s*$"
)
_ENTRY: Final = re.compile(r"^\*{0,2}(\w+)(?: ?\([^)]*\))?: ?(.*)$")
_PARAMETERS: Final = {"Args", "Arguments", "Parameters"}


def summary_of(function: Any) -> str:
    """Return a function's docstring up to its first section; `""` without one."""
    lines: list[str] = []
    for line in _lines(function):
        if _SECTION.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def parameters_of(function: Any) -> dict[str, str]:
    """Return the descriptions in the docstring's `Args:` section, by parameter."""
    found: dict[str, str] = {}
    inside, indent, name = False, 0, ""
    for line in _lines(function):
        section = _SECTION.match(line)
        if section or (line and not line[0].isspace()):
            inside, indent, name = bool(section and section[1] in _PARAMETERS), 0, ""
        elif inside and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            entry = _ENTRY.match(line.strip()) if depth == indent else None
            if entry:
                name = entry[1]
                found[name] = entry[2].strip()
            elif name:
                found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _lines(function: Any) -> list[str]:
    return inspect.cleandoc(getattr(function, "__doc__", None) or "").splitlines()
