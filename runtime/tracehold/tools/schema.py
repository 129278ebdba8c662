"""The schema a tool shows to the model, and the check of a call against that very schema (REG-10).

A schema is kept as JSON text: what is shown is parsed from it and what is checked is compiled from it, so that the two
cannot differ and nobody can change one of them by accident.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs
import orjson

from tracehold.core.errors import ToolError
from tracehold.tools.parameters import Parameters, object_schema
from tracehold.tools.response import describe, excerpt
from tracehold.tools.schema_cost import Estimate
from tracehold.tools.schema_graph import SchemaTooComplexError, read_graph
from tracehold.tools.schema_limits import LIMITS

_PROBLEMS_TOLD: Final = 5
_MAX_PATH_CHARS: Final = 80
_MAX_ERROR_CHARS: Final = 200
_BACKTRACKS: Final = 100_000
"""Steps a pattern with look-around or back-references may take; all others run in linear time."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    validator: jsonschema_rs.Validator
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class _Size:
    """How many values parameters hold, themselves included, and how many levels below themselves."""

    values: int
    levels: int


def schema_text(tool: Any, name: str) -> bytes:
    """Return the JSON Schema that `tool`, registered as `name`, shows, as JSON.

    Raises:
        ToolError: the tool does not tell one, or it is no JSON.
    """
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
    unless the schema forbids them (REG-10). A schema that cannot be used is a problem too, and so is one that could
    keep the validator busy beyond `LIMITS`: a stranger's server may have written it (REG-11).
    """
    schema = _compiled(text)
    if isinstance(schema, str):
        return f"the tool's own schema cannot be used: {schema}"
    try:
        size = _measured(parameters)
        too_much = _too_much(schema.estimate, size)
        if too_much is not None:
            return too_much
        if schema.validator.is_valid(parameters):
            return None
        return _told(schema, parameters, size)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return f"they cannot be checked: {_first_line(error)}"


@functools.lru_cache(maxsize=256)
def _compiled(text: bytes) -> _Compiled | str:
    """Return what checks calls, or why the schema cannot be used; that is found out once, too (REG-11)."""
    try:
        estimate = Estimate(read_graph(text))
        validator = jsonschema_rs.validator_for(
            text.decode(),
            retriever=_refuse_to_fetch,
            mask="the value",
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
        )
    except SchemaTooComplexError as error:
        return f"it is too complex ({error})"
    except Exception as error:  # noqa: BLE001 - whatever breaks the validator is told, not raised (REG-11)
        return _first_line(error)
    return _Compiled(validator, estimate)


def _refuse_to_fetch(uri: str) -> Any:
    # A tool's schema may come from a stranger's server; it must not make this process open URLs or files.
    raise LookupError(f"references outside the schema are not followed ({excerpt(uri, _MAX_PATH_CHARS)})")


def _too_much(estimate: Estimate, size: _Size) -> str | None:
    """Return why parameters of this size are not even looked at: the validator could not be stopped (REG-11)."""
    if estimate.visits(size.values, size.levels) > LIMITS.visits:
        return "the tool's schema is too complex for so many values: send fewer of them"
    if _stack(estimate, size) > LIMITS.stack:
        return "the tool's schema is too complex for values nested so deeply: send flatter ones"
    return None


def _stack(estimate: Estimate, size: _Size) -> int:
    return (estimate.chain + 1) * (size.levels + 1)


def _measured(parameters: Parameters) -> _Size:
    """Count values and levels, level by level.

    Raises:
        ValueError: too many, or too deeply nested; so also a container that contains itself.
    """
    seen, level = 1, [parameters]
    for depth in range(1, LIMITS.value_levels + 1):
        deeper: list[Any] = []
        for container in level:
            seen += len(container)
            if seen > LIMITS.values:
                raise ValueError(f"more than {LIMITS.values} values")
            values = container.values() if isinstance(container, dict) else container
            deeper += [value for value in values if isinstance(value, dict | list | tuple)]
        if not deeper:
            return _Size(seen, depth)
        level = deeper
    raise ValueError(f"nested deeper than {LIMITS.value_levels} levels")


def _told(schema: _Compiled, parameters: Parameters, size: _Size) -> str:
    """Return what does not fit, as far as it costs little to find out.

    The validator makes an object for each problem, and for each of those in all the alternatives of an `anyOf`, one
    inside the other; while it looks for the verdict alone it makes none.
    """
    estimate, validator = schema.estimate, schema.validator
    visits = estimate.gathering_visits(size.values, size.levels)
    if visits <= LIMITS.listed_visits:
        errors = validator.iter_errors(parameters)
    elif visits <= (LIMITS.told_visits if estimate.alternatives else LIMITS.visits):
        errors = _first_error(lambda: validator.validate(parameters))
    else:
        return "they do not fit its schema"
    listed = [_sentence(error) for error in itertools.islice(errors, _PROBLEMS_TOLD + 1)]
    more = ["and more"] if len(listed) > _PROBLEMS_TOLD else []
    return "; ".join(listed[:_PROBLEMS_TOLD] + more) or "they do not fit its schema"


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
