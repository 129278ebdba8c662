"""OTLP log records as coding agents write them, and requests of them."""

from __future__ import annotations

import json
from typing import Any

START = 1_780_000_000_000_000_000
PROMPT = "11111111-2222-3333-4444-555555555555"
SESSION = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
CLAUDE_SCOPE = "com.anthropic.claude_code.events"


def pairs(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Attributes in OTLP/JSON."""
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def any_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def log(attributes: dict[str, Any] | None = None, body: str | None = None, **fields: Any) -> dict[str, Any]:
    """One log record in OTLP/JSON; `fields` under their OTLP/JSON names."""
    record: dict[str, Any] = {"timeUnixNano": str(START), "attributes": pairs(attributes or {})}
    if body is not None:
        record["body"] = {"stringValue": body}
    return record | fields


def claude(name: str, **attributes: Any) -> dict[str, Any]:
    """An event as Claude Code writes it; `prompt_id` and `session_id` may be None to leave them out."""
    common = {"session.id": SESSION, "prompt.id": PROMPT, "user.id": "a1b2c3", "event.name": name}
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    said = {key: value for key, value in (common | given).items() if value is not None}
    return log(said, f"claude_code.{name}")


def codex(name: str, **attributes: Any) -> dict[str, Any]:
    """An event as Codex writes it: numbers as text, the place in its code where the event's name should be."""
    common = {"event.name": f"codex.{name}", "conversation.id": "conv-1", "model": "gpt-5", "user.account_id": "acc-1"}
    given = {key.replace("__", "."): value for key, value in attributes.items()}
    return log(common | given, None, eventName="event session_telemetry.rs:123")


def request(*records: dict[str, Any], scope: str = "s", **resource: Any) -> bytes:
    """An ExportLogsServiceRequest in OTLP/JSON; `resource` are attributes, a dot written as two underscores."""
    attributes = {key.replace("__", "."): value for key, value in resource.items()}
    groups = [{"scope": {"name": scope}, "logRecords": list(records)}]
    document = {"resourceLogs": [{"resource": {"attributes": pairs(attributes)}, "scopeLogs": groups}]}
    return json.dumps(document).encode()
