"""What a tool gave back, and how anything else a tool returns or raises becomes that (REG-04)."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from tracehold.core.control import steering_signal
from tracehold.core.jsontext import dumps

_log = logging.getLogger(__name__)

ToolStatus: TypeAlias = Literal["success", "partial", "error"]
STATUSES: Final[tuple[ToolStatus, ...]] = get_args(ToolStatus)

MAX_ERROR_CHARS: Final = 2_000
"""Longer texts of exceptions are cut: they go into the model's context."""

_MAX_REPORTED: Final = 1_000
_reported: set[str] = set()
"""Tools whose odd status the log has been told about."""


@dataclass
class ToolResponse:
    """What a tool gave back (REG-04).

    Attributes:
        text: what the model reads; `str()` of the response.
        status: "success", "partial" or "error".
        data: whatever the application wants beside the text; the model does not see it.

    Raises:
        ValueError: another status.
    """

    text: str
    status: ToolStatus = "success"
    data: Any = None

    def __post_init__(self) -> None:
        """Refuse an unknown status."""
        if self.status not in STATUSES:
            raise ValueError(f"a tool response's status is one of {', '.join(STATUSES)}, not {self.status!r}")

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


def as_response(tool_name: str, returned: Any) -> ToolResponse:
    """Return what a tool, or a registry's `run`, returned as a response whose text is a text and whose status is known.

    A text is the text; nothing is an empty text; containers, dataclasses and pydantic models are their JSON, and stay
    in `data`; anything else is its `str()`. An awaitable or a generator is a mistake in the tool: it is closed, and
    the response is an error that says what to change (REG-07). A response may have been changed since it was made: a
    status that is none of `STATUSES` becomes "error", so that a tool cannot pass for a gate (REG-04). What cannot be
    made a text is an error response too.

    Raises:
        ControlSignal: making the text raised what steers the run; also `RunLimitExceeded` and `RunCancelled` (HAR-60).
    """
    try:
        return _response(tool_name, returned)
    except Exception as error:
        if steering_signal(error) is not None:
            raise
        return as_failure(tool_name, error)


def _response(tool_name: str, returned: Any) -> ToolResponse:
    if isinstance(returned, ToolResponse):
        text, status = _text(returned.text), _status(tool_name, returned.status)
        if text is returned.text and status is returned.status:
            return returned
        return ToolResponse(text, status, returned.data)
    if inspect.isawaitable(returned):
        discard(returned)
        return ToolResponse.error(
            f"Tool {tool_name} failed: it returned an awaitable where a result belongs. Write it as `async def`, "
            "or await inside it"
        )
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        return ToolResponse.error(f"Tool {tool_name} failed: it returned a generator. Return one text instead")
    return ToolResponse.ok(_text(returned), None if returned is None or isinstance(returned, str) else returned)


def _status(tool_name: str, status: object) -> ToolStatus:
    plain = _plain(status) if isinstance(status, str) else None
    for known in STATUSES:
        if plain == known:
            return known
    if tool_name not in _reported and len(_reported) < _MAX_REPORTED:
        _reported.add(tool_name)
        _log.warning(
            "tool %s returned a response whose status is none of %s: taken for an error", tool_name, ", ".join(STATUSES)
        )
    return "error"


def as_failure(tool_name: str, error: BaseException) -> ToolResponse:
    """Return the response for an exception a tool raised: its type and message (HAR-55)."""
    return ToolResponse.error(f"Tool {tool_name} failed: {describe(error)}")


def describe(error: BaseException) -> str:
    """Return an exception's type and message, whatever its `__str__` does, cut to `MAX_ERROR_CHARS`."""
    kind = type(error).__name__
    try:
        message = _plain(str(error))
    except BaseException:  # noqa: BLE001 - a foreign __str__ that exits the program must not; the error is still named
        message = ""
    return excerpt(f"{kind}: {message}" if message else kind, MAX_ERROR_CHARS)


def excerpt(text: str, max_chars: int) -> str:
    """Return `text` as valid Unicode of at most `max_chars` characters, with an ellipsis when it was cut."""
    valid = text[: max_chars + 1].encode("utf-8", "replace").decode("utf-8")
    return valid if len(valid) <= max_chars else valid[: max_chars - 1] + "…"


def discard(awaitable: Any) -> None:
    """Let go of an awaitable that nobody will await, without the warning that it never was."""
    for name in ("close", "cancel"):
        stop = getattr(awaitable, name, None)
        if callable(stop):
            stop()
            return


def _text(value: Any) -> str:
    if isinstance(value, str):
        return _plain(value)
    if value is None:
        return ""
    to_json = getattr(value, "model_dump_json", None)
    if callable(to_json):
        return _plain(str(to_json()))
    if isinstance(value, bool | Mapping | list | tuple | set | frozenset) or dataclasses.is_dataclass(value):
        return dumps(dict(value) if isinstance(value, Mapping) else value).decode()
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    return _plain(str(value))


def _plain(text: str) -> str:
    # A subclass may answer to every comparison and method as it likes.
    return str.__str__(text)
