"""Tools as a model reads them (REG-08)."""

from __future__ import annotations

from typing import Any

from tracehold.tools.parameters import Schema


def function_schema(name: str, tool: Any, schema: Schema) -> dict[str, Any]:
    """Return a tool in the function-calling shape."""
    return {"type": "function", "function": {"name": name, "description": _description(tool), "parameters": schema}}


def catalog_line(name: str, tool: Any) -> str:
    """Return a tool's name and the first line of its description."""
    first = _description(tool).strip().partition("\n")[0]
    return f"- {name}: {first}" if first else f"- {name}"


def description_of(name: str, tool: Any, schema: Schema) -> str:
    """Return a tool with its description and a line for each parameter."""
    required = schema.get("required")
    properties = schema.get("properties")
    lines = [f"- {name}: {_description(tool)}".rstrip(": ")]
    for parameter, value in properties.items() if isinstance(properties, dict) else ():
        told = value if isinstance(value, dict) else {}
        need = "required" if isinstance(required, list) and parameter in required else "optional"
        line = f"    {parameter} ({told.get('type', 'any')}, {need}): {told.get('description', '')}"
        lines.append(line.rstrip(": "))
    return "\n".join(lines)


def _description(tool: Any) -> str:
    return str(getattr(tool, "description", None) or "")
