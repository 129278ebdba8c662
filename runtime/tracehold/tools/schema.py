"""The schema a tool shows to the model, and the check of a call against that very schema (REG-10).

A schema is kept as JSON text: what is shown is parsed from it and what is checked is compiled from it, so that the two
cannot differ and nobody can change one of them by accident.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import jsonschema_rs
import orjson

from tracehold.core.errors import ToolError
from tracehold.tools.parameters import Parameters, object_schema
from tracehold.tools.response import describe, excerpt

MAX_DEPTH: Final = 64
"""Levels of nesting that parameters may have. The validator recurses on the machine's stack, which it can exhaust."""

MAX_VALUES: Final = 1_000_000
"""Values that parameters may hold, all levels counted; also what ends the walk through shared containers."""

_ERRORS_SHOWN: Final = 5
_FEW_VALUES: Final = 1_000
"""Up to here all errors are looked for; beyond, only the first: the validator makes an object for each."""

_MAX_PATH_CHARS: Final = 80
_MAX_ERROR_CHARS: Final = 200
_BACKTRACKS: Final = 100_000
"""Steps a pattern with look-around or back-references may take; all others run in linear time."""


def schema_text(tool: Any) -> bytes:
    """Return the JSON Schema that `tool` shows, as JSON.

    Raises:
        ToolError: the tool does not tell one, or it is no JSON.
    """
    name = getattr(tool, "name", type(tool).__name__)
    try:
        whole = getattr(tool, "get_input_schema", None)
        schema = whole() if whole is not None else None
        if schema is None:
            schema = object_schema(tool.get_parameters())
    except Exception as error:
        raise ToolError(f"tool {name} does not tell its parameters: {describe(error)}") from error
    if not isinstance(schema, dict):
        raise ToolError(f"the schema of tool {name} must be a dict, not {type(schema).__name__}")
    try:
        # Providers refuse a schema that does not say it is an object.
        return orjson.dumps({"type": "object"} | schema)
    except (TypeError, RecursionError) as error:
        raise ToolError(f"the schema of tool {name} is no JSON: {describe(error)}") from error


def shown(text: bytes) -> dict[str, Any]:
    """Return a schema as a dict of the caller's own."""
    schema: dict[str, Any] = orjson.loads(text)
    return schema


def problem_with(text: bytes, parameters: Parameters) -> str | None:
    """Return what is wrong with `parameters` under the schema `text`, for the model; `None` when they fit.

    Values are never repeated: they may be long or secret, and the model knows what it sent. Extra keys are tolerated
    unless the schema forbids them (REG-10). A schema that cannot be used is a problem too (REG-11).
    """
    try:
        validator = _compiled(text)
    except Exception as error:  # noqa: BLE001 - whatever breaks the validator is told, not raised (REG-11)
        return f"the tool's own schema cannot be used: {_first_line(error)}"
    try:
        values = _count(parameters)
        if validator.is_valid(parameters):
            return None
        return _told(validator, parameters, every=values <= _FEW_VALUES)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return f"they cannot be checked: {_first_line(error)}"


@functools.lru_cache(maxsize=1_024)
def _compiled(text: bytes) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        text.decode(),
        retriever=_refuse_to_fetch,
        mask="the value",
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
    )


def _refuse_to_fetch(uri: str) -> Any:
    # A tool's schema may come from a stranger's server; it must not make this process open URLs or files.
    raise LookupError(f"references outside the schema are not followed ({excerpt(uri, _MAX_PATH_CHARS)})")


def _count(parameters: Parameters) -> int:
    """Return how many values there are, level by level.

    Raises:
        ValueError: too many, or too deeply nested; so also a container that contains itself.
    """
    seen, level = 0, [parameters]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for container in level:
            seen += len(container)
            if seen > MAX_VALUES:
                raise ValueError(f"more than {MAX_VALUES} values")
            values = container.values() if isinstance(container, dict) else container
            deeper += [value for value in values if isinstance(value, dict | list | tuple)]
        if not deeper:
            return seen
        level = deeper
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _told(validator: jsonschema_rs.Validator, parameters: Parameters, *, every: bool) -> str:
    errors = validator.iter_errors(parameters) if every else _first_error(lambda: validator.validate(parameters))
    listed = [_sentence(error) for error in itertools.islice(errors, _ERRORS_SHOWN + 1)]
    more = ["and more"] if len(listed) > _ERRORS_SHOWN else []
    return "; ".join(listed[:_ERRORS_SHOWN] + more)


def _first_error(validate: Callable[[], None]) -> Iterator[jsonschema_rs.ValidationError]:
    try:
        validate()
    except jsonschema_rs.ValidationError as error:
        yield error


def _sentence(error: jsonschema_rs.ValidationError) -> str:
    path = excerpt(".".join(str(step) for step in error.instance_path), _MAX_PATH_CHARS)
    message = excerpt(error.message, _MAX_ERROR_CHARS)
    return f"{path}: {message}" if path else message


def _first_line(error: BaseException) -> str:
    # The rest repeats the instance.
    return excerpt(str(error).partition("\n")[0] or type(error).__name__, _MAX_ERROR_CHARS)
