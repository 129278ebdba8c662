"""The tools an agent has, and the checks a call passes before one of them runs (REG-05 to REG-12)."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from tracehold.core.control import steering_signal
from tracehold.core.errors import ConfigurationError, ToolError, ToolRegistrationError
from tracehold.tools.base import Tool
from tracehold.tools.confirmation import Confirm, NoAnswerError, aask, ask, needs_confirmation, refuse_async
from tracehold.tools.describing import catalog_line, description_of, function_schema
from tracehold.tools.functions import DictFunction, FunctionTool
from tracehold.tools.parameters import Parameters, ToolParameter
from tracehold.tools.response import ToolResponse, excerpt
from tracehold.tools.running import arun_tool, run_tool
from tracehold.tools.schema import problem_with, schema_text, shown

Conflict: TypeAlias = Literal["error", "skip", "overwrite"]

DEFAULT_PROMPTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tool_unknown": "Tool {tool} does not exist.",
        "tool_invalid_args": "Tool {tool} was not called, its parameters do not fit: {reason}.",
        "tool_unconfirmed": "Tool {tool} was not called: it needs confirmation, and {reason}.",
    }
)
"""The texts of refusals, as the model reads them; `{tool}` and `{reason}` are filled in."""

_log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_NAME_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call does not reach its tool.

    Attributes:
        decision: DEC-01's word for it.
        text: for the model.
    """

    decision: Literal["unknown_tool", "invalid_args", "unconfirmed"]
    text: str

    def response(self) -> ToolResponse:
        """Return the error response for the model (HAR-41)."""
        return ToolResponse.error(self.text)


@dataclass(slots=True)
class _Entry:
    name: str
    tool: Any
    schema: bytes | None = field(default=None, repr=False)
    """The schema as last shown; what a call is checked against (REG-10)."""

    def read_schema(self) -> bytes:
        self.schema = schema_text(self.tool, self.name)
        return self.schema


class ToolRegistry:
    """The tools an agent has, by name, in the order they were registered. Safe across threads.

    A tool is anything with `name`, `description`, `get_parameters()` or `get_input_schema()`, and `run` or `arun`; it
    need not derive from `Tool`. Its schema is read each time it is shown, and calls are checked against what was shown
    last (REG-10). It goes by the name it was registered under: calls of one that has changed its `name` since are
    refused, because gates that judge by `tool.name` would judge another tool.

    Args:
        prompts: texts to use instead of `DEFAULT_PROMPTS`, by name; keys of other packages may stand beside them.

    Raises:
        ConfigurationError: such a text is no text.
    """

    def __init__(self, *, prompts: Mapping[str, str] | None = None) -> None:
        self._prompts = {key: (prompts or {}).get(key, text) for key, text in DEFAULT_PROMPTS.items()}
        for key, text in self._prompts.items():
            if not isinstance(text, str):
                raise ConfigurationError(f"prompts[{key!r}] must be a text, not {type(text).__name__}")
        self._entries: dict[str, _Entry] = {}  # replaced, never changed: readers need no lock
        self._lock = threading.Lock()

    @classmethod
    def from_tools(
        cls, tools: Iterable[Any] | ToolRegistry | None, *, prompts: Mapping[str, str] | None = None
    ) -> ToolRegistry | None:
        """Return a registry of `tools`; `None`, and what shows its tools like a registry (HAR-05), stay as they are."""
        if tools is None or callable(getattr(tools, "to_openai_schema", None)):
            return tools  # type: ignore[return-value]  # judged by its shape
        registry = cls(prompts=prompts)
        registry.register_all(cast("Iterable[Any]", tools))
        return registry

    def register(self, tool: Any, *, overwrite: bool = False) -> None:
        """Add a tool (REG-05).

        Args:
            tool: the tool.
            overwrite: whether it may take the place of another with its name.

        Raises:
            ToolRegistrationError: the name is invalid or taken, or this is no tool.
        """
        self.register_all([tool], on_conflict="overwrite" if overwrite else "error")

    def register_all(self, tools: Iterable[Any], *, on_conflict: Conflict = "error") -> list[str]:
        """Add several tools, all or none, and return the names registered (REG-06).

        Args:
            tools: the tools.
            on_conflict: what happens to a name that is taken: "error", "skip" the newcomer or "overwrite".

        Raises:
            ToolRegistrationError: a name is invalid, or taken under "error", or something is no tool.
            ValueError: another `on_conflict`.
        """
        if on_conflict not in {"error", "skip", "overwrite"}:
            raise ValueError(f"on_conflict is one of error, skip and overwrite, not {on_conflict!r}")
        arriving = [(_checked_name(tool), tool) for tool in tools]
        with self._lock:
            entries = dict(self._entries)
            added: dict[str, None] = {}
            for name, tool in arriving:
                if name in entries and on_conflict == "error":
                    raise ToolRegistrationError(
                        f"a tool named {name} is registered already: give this one another name, or overwrite"
                    )
                if name not in entries or on_conflict == "overwrite":
                    entries[name] = _Entry(name, tool)
                    added[name] = None
            self._entries = entries
        return list(added)

    def register_function(
        self,
        func: DictFunction,
        name: str,
        description: str,
        parameters: list[ToolParameter] | None = None,
        *,
        requires_confirmation: bool = False,
        supports_parallel: bool = False,
        overwrite: bool = False,
        external_content: bool = False,
    ) -> Tool:
        """Add a function that takes its parameters as one dict, sync or async, and return its tool (REG-07).

        Raises:
            ToolRegistrationError: the name is invalid or taken, or `func` is no function.
        """
        made = FunctionTool(
            func,
            name,
            description,
            parameters,
            requires_confirmation=requires_confirmation,
            external_content=external_content,
            supports_parallel=supports_parallel,
        )
        self.register(made, overwrite=overwrite)
        return made

    def register_callable(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        requires_confirmation: bool = False,
        external_content: bool = False,
        supports_parallel: bool = False,
        overwrite: bool = False,
    ) -> Tool:
        """Add an ordinary function by its type hints and docstring, and return its tool; see `Tool.from_callable`.

        Raises:
            ToolRegistrationError: the name is invalid or taken, or a parameter cannot be described.
        """
        made = Tool.from_callable(
            func,
            name=name,
            description=description,
            requires_confirmation=requires_confirmation,
            external_content=external_content,
            supports_parallel=supports_parallel,
        )
        self.register(made, overwrite=overwrite)
        return made

    def get(self, name: str) -> Any | None:
        """Return the tool of that name, or `None`."""
        entry = self._find(name)
        return None if entry is None else entry.tool

    def list_tools(self) -> list[Any]:
        """Return the tools in the order they were registered."""
        return [entry.tool for entry in self._entries.values()]

    def names(self) -> list[str]:
        """Return the names the tools were registered under, in that order."""
        return list(self._entries)

    def to_openai_schema(self, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return the tools in the function-calling shape, each a dict of the caller's own (REG-08).

        Args:
            names: which tools, in which order; unknown ones are skipped, repeats collapse. Default all.

        Raises:
            ToolError: a tool does not tell its parameters, or not as JSON.
        """
        return [function_schema(name, entry.tool, shown(entry.read_schema())) for name, entry in self._selected(names)]

    def last_shown(self) -> list[dict[str, Any]]:
        """Return every tool as it was shown last: to count them must not change what calls are checked by (REG-10)."""
        return [
            function_schema(name, entry.tool, shown(entry.schema or entry.read_schema()))
            for name, entry in self._selected(None)
        ]

    def get_tools_description(self, names: Sequence[str] | None = None) -> str:
        """Return the tools with their parameters as text, for a prompt; `names` as in `to_openai_schema` (REG-08)."""
        return "\n".join(
            description_of(name, entry.tool, shown(entry.read_schema())) for name, entry in self._selected(names)
        )

    def get_catalog(self) -> str:
        """Return a line a tool, its name and the first line of its description: for choosing among many (REG-08)."""
        return "\n".join(catalog_line(name, entry.tool) for name, entry in self._entries.items())

    def check(self, name: str, parameters: Parameters) -> Any | Refusal:
        """Return the tool to run, or why the call cannot be made: unknown, or parameters that do not fit (REG-10).

        Nothing runs and nobody is asked: a harness puts its own gates between this and `run`. They judge the object
        returned here, and `run` runs that object, whatever is registered under its name meanwhile.
        """
        entry = self._find(name)
        if entry is None or not _still_named(entry.tool, name):
            return self._refusal("unknown_tool", "tool_unknown", name)
        if not isinstance(parameters, dict):
            return self._refusal(
                "invalid_args", "tool_invalid_args", name, f"they must be an object, not {type(parameters).__name__}"
            )
        try:
            problem = problem_with(entry.schema or entry.read_schema(), parameters)
        except ToolError as error:
            problem = str(error)  # REG-11
        if problem is None:
            return entry.tool
        return self._refusal("invalid_args", "tool_invalid_args", name, problem)

    async def run(self, tool: Any, parameters: Parameters, *, name: str | None = None) -> ToolResponse:
        """Run a tool that `check` returned; an exception inside it becomes an error response (HAR-55).

        Args:
            tool: the very object that runs; it is not looked up again.
            parameters: what to call it with, as checked.
            name: what texts call it; default the tool's own.

        Raises:
            ControlSignal: the run is to be suspended; also `RunLimitExceeded` and `RunCancelled` (HAR-60).
        """
        return await arun_tool(tool, parameters, name=tool.name if name is None else name)

    def execute_tool(self, name: str, parameters: Parameters, confirm: Confirm | None = None) -> ToolResponse:
        """Check a call, ask where the tool needs it, and run it on this thread (REG-09).

        Args:
            name: the tool.
            parameters: what to call it with.
            confirm: asked when the tool needs confirmation; without it such a call is refused.

        Raises:
            TypeError: an async `confirm` (REG-12).
        """
        return self.execute_tool_checked(name, parameters, confirm)[0]

    async def aexecute_tool(self, name: str, parameters: Parameters, confirm: Confirm | None = None) -> ToolResponse:
        """Do as `execute_tool` without blocking the event loop; `confirm` may be async (REG-09)."""
        return (await self.aexecute_tool_checked(name, parameters, confirm))[0]

    def execute_tool_checked(
        self, name: str, parameters: Parameters, confirm: Confirm | None = None
    ) -> tuple[ToolResponse, bool]:
        """Return `execute_tool`'s response and whether the tool was really entered (REG-09)."""
        refuse_async(confirm)
        tool = self.check(name, parameters)
        if not isinstance(tool, Refusal) and _must_ask(name, tool, parameters):
            try:
                tool = self._judge(name, tool, None if confirm is None else ask(confirm, tool, parameters))
            except NoAnswerError as error:
                tool = self._unanswered(name, error)
        if isinstance(tool, Refusal):
            return tool.response(), False
        return run_tool(tool, parameters, name=name), True

    async def aexecute_tool_checked(
        self, name: str, parameters: Parameters, confirm: Confirm | None = None
    ) -> tuple[ToolResponse, bool]:
        """Return `aexecute_tool`'s response and whether the tool was really entered (REG-09)."""
        tool = self.check(name, parameters)
        if not isinstance(tool, Refusal) and _must_ask(name, tool, parameters):
            try:
                tool = self._judge(name, tool, None if confirm is None else await aask(confirm, tool, parameters))
            except NoAnswerError as error:
                tool = self._unanswered(name, error)
        if isinstance(tool, Refusal):
            return tool.response(), False
        return await self.run(tool, parameters, name=name), True

    def _judge(self, name: str, tool: Any, answer: bool | None) -> Any | Refusal:
        if answer is True:
            return tool
        return self._unconfirmed(name, "there is nobody to ask" if answer is None else "the answer was no")

    def _unanswered(self, name: str, error: NoAnswerError) -> Refusal:
        _log.warning("tool %s was not called: %s", name, error)
        return self._unconfirmed(name, "the answer was neither yes nor no")

    def _unconfirmed(self, name: str, reason: str) -> Refusal:
        return self._refusal("unconfirmed", "tool_unconfirmed", name, reason)

    def _refusal(
        self,
        decision: Literal["unknown_tool", "invalid_args", "unconfirmed"],
        prompt: str,
        name: object,
        reason: str = "",
    ) -> Refusal:
        # Not str.format: a template may hold other braces, and a name or reason must not be read as one.
        parts = {"{tool}": excerpt(str(name), _MAX_NAME_CHARS), "{reason}": reason}
        return Refusal(decision, re.sub(r"\{tool\}|\{reason\}", lambda found: parts[found[0]], self._prompts[prompt]))

    def _find(self, name: object) -> _Entry | None:
        return self._entries.get(name) if isinstance(name, str) else None

    def _selected(self, names: Sequence[str] | None) -> list[tuple[str, _Entry]]:
        entries = self._entries
        if names is None:
            return list(entries.items())
        return [(name, entries[name]) for name in dict.fromkeys(names) if name in entries]


def _still_named(tool: Any, name: str) -> bool:
    try:
        named: object = tool.name
    except Exception:  # noqa: BLE001 - a name that cannot be told is not the registered one
        named = None
    if isinstance(named, str) and str.__str__(named) == name:
        return True
    _log.warning("the tool registered as %s has another name by now: its calls are refused", name)
    return False


def _must_ask(name: str, tool: Any, parameters: Parameters) -> bool:
    try:
        return needs_confirmation(tool, parameters)
    except Exception as error:
        if steering_signal(error) is not None:
            raise
        _log.warning("needs_confirmation of tool %s failed (%s): a person is asked", name, type(error).__name__)
        return True


def _checked_name(tool: Any) -> str:
    if isinstance(tool, type):
        raise ToolRegistrationError(f"{tool.__name__} is a class: register an instance, {tool.__name__}(...)")
    name = getattr(tool, "name", None)
    described = any(callable(getattr(tool, told, None)) for told in ("get_input_schema", "get_parameters"))
    runs = any(callable(getattr(tool, started, None)) for started in ("run", "arun"))
    if name is None or not described or not runs:
        raise ToolRegistrationError(
            f"{type(tool).__name__} is no tool: it needs a name, get_parameters() and run() or arun(). For a plain "
            "function use register_callable, or register_function when it takes one dict"
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ToolRegistrationError(
            f"a tool's name is 1 to {_MAX_NAME_CHARS} letters, digits, _ and -, not {excerpt(repr(name), 100)}"
        )
    return name
