"""What both wire formats need: plain dictionaries in, sendable text out, credible counts."""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any, Protocol

from tracehold.core.errors import LLMConfigError
from tracehold.core.extras import install_hint
from tracehold.llm.protocol import LLMResponse, ToolCall


class Assembler(Protocol):
    """Puts a streamed reply together, event by event."""

    def feed(self, event: dict[str, Any]) -> str:
        """Take one event; return the text that it adds to the reply."""

    def finished(self) -> bool:
        """Whether the provider said that the reply is complete."""

    def response(self) -> LLMResponse:
        """Return what is known of the reply so far."""


def import_sdk(name: str) -> ModuleType:
    """Import an optional SDK.

    Raises:
        LLMConfigError: it is not installed; the message says which extra to install.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise LLMConfigError(f"the package {name!r} is not installed; {install_hint(name)}") from error


def as_dict(answer: object) -> dict[str, Any] | None:
    """Return an SDK's object as plain dictionaries, or `None` when it is none (a proxy's HTML page, a bare list)."""
    if isinstance(answer, dict):
        return answer
    dump = getattr(answer, "model_dump", None)
    if dump is None:
        return None
    # The SDKs do not validate answers, so that a field may hold anything: pydantic's warnings would quote it.
    dumped = dump(exclude_unset=True, warnings=False)
    return dumped if isinstance(dumped, dict) else None


def sendable(value: Any) -> Any:
    """Return a copy in which lone surrogates are "?": UTF-8 has none, and a tool's result may hold them."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {sendable(key): sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    return value


def with_extra_body(arguments: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Move what the SDK's method does not know into `extra_body`, which it sends along as it is.

    Servers understand parameters of their own (`top_k` of vLLM), and SDK versions differ in what they name.
    """
    unknown = {name: value for name, value in arguments.items() if name not in known}
    if not unknown:
        return arguments
    rest = {name: value for name, value in arguments.items() if name in known}
    return rest | {"extra_body": unknown | (rest.get("extra_body") or {})}


def count(value: object) -> int | None:
    """Return a credible token count, else `None`: unknown is never 0 (DEC-13)."""
    return value if type(value) is int and value >= 0 else None


def text(value: object) -> str:
    """Return `value` when it is a text, the texts of a list of parts joined, else an empty text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(text(part.get("text")) for part in value if isinstance(part, dict))
    return ""


def tool_call(call_id: str, name: str, arguments: object) -> ToolCall:
    """Return a call in the function-calling shape; arguments that came parsed are written as JSON again (LLM-04)."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}
