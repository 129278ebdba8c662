"""Payload schemas with versions, and the steps that lift old payloads to the newest one (SCH)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import jsonschema_rs

from tracehold.core.copying import copy_json
from tracehold.core.errors import SchemaError
from tracehold.events.event import Event

Upcaster: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Takes a payload of one version and returns it as the next version has it."""

_REF: Final = re.compile(r"(.+)/v([1-9][0-9]{0,8})", re.DOTALL)
_PROBLEMS: Final = 5
_NAME_CHARS: Final = 64


class SchemaRegistry:
    """Knows what payloads look like (SCH-01).

    A model is a pydantic model, anything else with `model_validate` whose result has `model_dump`, or a JSON Schema as
    a dict. Events without a `schema_ref`, and those of a name that is not registered, pass unseen.
    """

    def __init__(self) -> None:
        self._models: dict[str, dict[int, _Model]] = {}
        self._registered: dict[tuple[str, int], object] = {}
        self._upcasters: dict[tuple[str, int], Upcaster] = {}

    def register(self, ref: str, model: Any) -> None:
        """Say what a version of a payload looks like.

        Args:
            ref: a name and a version from 1, such as "order/v2".
            model: a class with `model_validate`, or a JSON Schema.

        Raises:
            ValueError: another form of `ref`, another model under it already, an invalid JSON Schema.
            TypeError: something else than a model.
        """
        parsed = _parse(ref)
        if parsed is None:
            raise ValueError(f'a schema ref is a name and a version from 1, such as "order/v2", not {ref!r}')
        name, version = parsed
        known = self._registered.get(parsed)
        if known is not None:
            if known is not model and known != model:
                raise ValueError(f"{ref} is registered with another model; a changed payload is a new version")
            return
        self._models.setdefault(name, {})[version] = _model(ref, model)
        self._registered[parsed] = model

    def upcaster(self, name: str, from_version: int, fn: Upcaster) -> None:
        """Say how a payload of `from_version` becomes one of the next version.

        Args:
            name: the part of the ref before "/v".
            from_version: from 1.
            fn: gets a copy of the payload and returns the new one; depends on nothing else.

        Raises:
            ValueError: a version below 1, another function for that step already.
            TypeError: `fn` cannot be called.
        """
        if type(from_version) is not int or from_version < 1:
            raise ValueError(f"from_version must be an integer of at least 1, not {from_version!r}")
        if not callable(fn):
            raise TypeError(f"an upcaster must be callable, not {type(fn).__name__}")
        if self._upcasters.setdefault((name, from_version), fn) is not fn:
            raise ValueError(f"{name}/v{from_version} has another upcaster; a log must be read in one way only")

    def validate(self, event: Event) -> Event:
        """Return the event with a payload that fits the newest version of its schema (SCH-02).

        No ref, or an unknown name, passes unchanged. An older version is lifted step by step. The payload becomes what
        the model makes of it: defaults filled in, types coerced, and fields left out that the model ignores. (A
        pydantic model keeps them with `extra="allow"` and refuses them with "forbid".) A JSON Schema changes nothing.

        Raises:
            SchemaError: the payload is invalid, a step is missing or fails, or the version is newer than all known.
        """
        ref = event.schema_ref
        if not ref:
            return event
        parsed = _parse(ref)
        models = self._models.get(parsed[0]) if parsed else None
        if parsed is None or not models:
            return event
        name, version = parsed
        newest = max(models)
        if version > newest:
            raise SchemaError(f"{ref} is newer than {name}/v{newest}, the newest known here; update this program")
        data = self._lift(name, event.data, version, newest)
        checked = models[newest].checked(f"{name}/v{newest}", data)
        if version == newest and checked is event.data:
            return event
        return event.with_(data=checked, schema_ref=f"{name}/v{newest}")

    def _lift(self, name: str, data: dict[str, Any], version: int, newest: int) -> dict[str, Any]:
        for step in range(version, newest):
            fn = self._upcasters.get((name, step))
            if fn is None:
                raise SchemaError(
                    f"no way leads from {name}/v{step} to v{step + 1}; register one with upcaster({name!r}, {step}, fn)"
                )
            try:
                lifted = fn(copy_json(data))
                data = _dump(lifted) if not isinstance(lifted, Mapping) else dict(lifted)
            except Exception as error:  # noqa: BLE001 - the user's function
                # Not chained: the error's text may quote the payload.
                raise SchemaError(
                    f"the upcaster of {name}/v{step} failed with {type(error).__name__} at {_place(error)}"
                ) from None
        return data


def _parse(ref: object) -> tuple[str, int] | None:
    found = _REF.fullmatch(ref) if isinstance(ref, str) else None
    return (found[1], int(found[2])) if found else None


class _Model:
    """A class with `model_validate`."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def checked(self, ref: str, data: dict[str, Any]) -> dict[str, Any]:
        """Return the payload as the model has it."""
        try:
            return _dump(self._model.model_validate(data))
        except Exception as error:  # noqa: BLE001 - pydantic's own error, or that of a validator
            raise SchemaError(f"a payload does not fit {ref}: {_problems(error)}") from None


class _JsonSchema:
    """A JSON Schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._validator = jsonschema_rs.validator_for(dict(schema))

    def checked(self, ref: str, data: dict[str, Any]) -> dict[str, Any]:
        """Return the payload unchanged."""
        try:
            errors = list(self._validator.iter_errors(data))
        except ValueError:  # something that JSON cannot hold
            raise SchemaError(f"a payload does not fit {ref}: it is no JSON") from None
        if errors:
            places = "; ".join(f"{_path(error.instance_path)}: {_keyword(error)}" for error in errors[:_PROBLEMS])
            raise SchemaError(f"a payload does not fit {ref}: {places}")
        return data


def _model(ref: str, model: Any) -> Any:
    if isinstance(model, Mapping):
        try:
            return _JsonSchema(model)
        except ValueError as error:
            raise ValueError(f"the JSON Schema of {ref} is invalid: {str(error).splitlines()[0]}") from error
    if not callable(getattr(model, "model_validate", None)):
        raise TypeError(
            f"the model of {ref} must be a pydantic model, something else with model_validate, or a JSON Schema, "
            f"not {type(model).__name__}"
        )
    return _Model(model)


def _dump(made: Any) -> dict[str, Any]:
    if isinstance(made, Mapping):
        return dict(made)
    if hasattr(type(made), "model_fields"):  # pydantic: names and values as JSON has them
        return dict(made.model_dump(mode="json", by_alias=True))
    return dict(made.model_dump())


def _problems(error: Exception) -> str:
    """Say where a payload does not fit and why, without a value of it."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return f"{type(error).__name__} at {_place(error)}"
    try:
        found = errors(include_url=False, include_context=False, include_input=False)
        return "; ".join(f"{_path(one['loc'])}: {one['type']}" for one in found[:_PROBLEMS])
    except (TypeError, KeyError):
        return type(error).__name__


def _path(location: Any) -> str:
    # A key may be content; only what looks like a field's name is repeated.
    steps = [
        str(step) if isinstance(step, int) or (step.isidentifier() and len(step) <= _NAME_CHARS) else "..."
        for step in location
    ]
    return ".".join(steps) or "data"


def _keyword(error: Any) -> str:
    path = list(error.schema_path)
    return str(path[-1]) if path and isinstance(path[-1], str) else "does not match"


def _place(error: BaseException) -> str:
    """Return file and line where an error was raised: what a developer needs in place of its text."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return "an unknown place"
    return f"{last.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{last.tb_lineno}"
