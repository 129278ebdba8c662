"""A tool: what a model may ask an agent to do (REG-01 to REG-04)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ToolStatus: TypeAlias = Literal["success", "partial", "error"]
Parameters: TypeAlias = dict[str, Any]


@dataclass
class ToolResponse:
    """What a tool gave back (REG-04).

    Attributes:
        text: what the model reads; `str()` of the response.
        status: "success", "partial" or "error".
        data: whatever the application wants beside the text; the model does not see it.
    """

    text: str
    status: ToolStatus = "success"
    data: Any = None

    @classmethod
    def ok(cls, text: str, data: Any = None) -> ToolResponse:
        """Return a response of status "success"."""
        return cls(text, "success", data)

    @classmethod
    def error(cls, text: str, data: Any = None) -> ToolResponse:
        """Return a response of status "error"."""
        return cls(text, "error", data)

    @classmethod
    def partial(cls, text: str, data: Any = None) -> ToolResponse:
        """Return a response of status "partial"."""
        return cls(text, "partial", data)

    def __str__(self) -> str:
        """Return the text."""
        return self.text


@dataclass
class ToolParameter:
    """One parameter of a tool (REG-03).

    Attributes:
        name: its key in the parameters.
        type: a JSON Schema type, such as "string" or "integer".
        description: for the model.
        required: whether a call without it is refused.
        default: shown to the model; not filled in.
        schema: a whole JSON Schema for the value, instead of `type`.
    """

    name: str
    type: str
    description: str
    required: bool = True
    default: Any = None
    schema: dict[str, Any] | None = None


class Tool(ABC):
    """Something an agent can do when its model asks for it (REG-01, REG-02).

    Args:
        name: letters, digits, `_` and `-`, at most 64.
        description: for the model.
        origin: where the tool comes from, such as "builtin" or the name of an MCP server; permissions judge it.
    """

    requires_confirmation: bool = False
    """Whether a person must say yes before each call."""
    external_content: bool = False
    """Whether its results are text that strangers wrote."""
    supports_parallel: bool = False
    """Whether calls of one turn may run at the same time."""

    def __init__(self, name: str, description: str, *, origin: str = "builtin") -> None:
        self.name = name
        self.description = description
        self.origin = origin

    @abstractmethod
    def get_parameters(self) -> list[ToolParameter]:
        """Return the parameters, in the order the model sees them."""

    def get_input_schema(self) -> dict[str, Any] | None:
        """Return a whole JSON Schema for the parameters, or `None` to derive one from `get_parameters`."""
        return None

    def needs_confirmation(self, parameters: Parameters) -> bool:  # noqa: ARG002 - for overriding
        """Whether this call needs a person's yes; default `requires_confirmation`."""
        return self.requires_confirmation

    def run(self, parameters: Parameters) -> ToolResponse:
        """Do it; override this or `arun`. An exception becomes an error response (HAR-55)."""
        raise NotImplementedError(f"{type(self).__name__} overrides neither run nor arun")

    async def arun(self, parameters: Parameters) -> ToolResponse:
        """Do it without blocking the event loop; default `run` on a worker thread."""
        return await asyncio.to_thread(self.run, parameters)
