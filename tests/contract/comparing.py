"""Holds an importable package against what is documented (`documented.py`), name by name."""

from __future__ import annotations

import abc
import ast
import builtins
import dataclasses
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import pydantic
from contract.documented import Entry, Parameter

_KINDS: Final = {
    "/": inspect.Parameter.POSITIONAL_ONLY,
    "positional": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "keyword": inspect.Parameter.KEYWORD_ONLY,
    "*": inspect.Parameter.VAR_POSITIONAL,
    "**": inspect.Parameter.VAR_KEYWORD,
}
_CONSTRUCTORS: Final = frozenset({"__init__", "__new__"})


def differences(entry: Entry, ours: ModuleType, meanings: Mapping[str, Any]) -> list[str]:
    """Say where `ours` does not give what `entry` documents; an empty list when it does.

    Args:
        entry: what is documented.
        ours: the package everything is imported from.
        meanings: values of documented defaults that are names, by the source text of the default.
    """
    owner = getattr(ours, entry.owner, None)
    if owner is None:
        return [f"{ours.__name__} has no {entry.owner}"]
    if entry.kind == "class":
        return _class_differences(entry, owner, ours)
    if entry.member and entry.member not in _CONSTRUCTORS and not _defines(owner, entry.member):
        return [f"{entry.owner} has no {entry.member}"]
    if entry.kind == "property":
        held = inspect.getattr_static(owner, entry.member)
        return [] if isinstance(held, property) else [f"{entry.name} is no property"]
    actual = signature(entry, owner)
    return [
        *_mark_differences(entry, owner),
        *_parameter_differences(entry, actual, meanings),
        *_return_differences(entry, actual, meanings),
    ]


def signature(entry: Entry, owner: Any) -> inspect.Signature:
    """Return how a caller calls it: without `self` or `cls`; a constructor is called by way of its class.

    A default that a dataclass makes anew for each object is shown as what makes it, such as `list`.
    """
    if not entry.member or entry.member in _CONSTRUCTORS:
        return _with_factories(inspect.signature(owner), owner)
    found = inspect.signature(getattr(owner, entry.member))
    if not inspect.isfunction(inspect.getattr_static(owner, entry.member)):
        return found  # bound to its class, or static
    return found.replace(parameters=list(found.parameters.values())[1:])


def added(entry: Entry, ours: ModuleType) -> list[inspect.Parameter]:
    """Return the parameters that `ours` takes beside the documented ones; for a dataclass, its further fields."""
    owner = getattr(ours, entry.owner)
    if entry.fields:
        return [field for name, field in inspect.signature(owner).parameters.items() if name not in entry.fields]
    absent = entry.member and entry.member not in _CONSTRUCTORS and not _defines(owner, entry.member)
    if entry.kind in {"class", "property"} or absent:
        return []
    documented = {parameter.name for parameter in entry.parameters}
    found = signature(entry, owner).parameters
    return [parameter for name, parameter in found.items() if name not in documented]


def _with_factories(found: inspect.Signature, owner: Any) -> inspect.Signature:
    fields = dataclasses.fields(owner) if dataclasses.is_dataclass(owner) else ()
    made = {field.name: field.default_factory for field in fields if field.default_factory is not dataclasses.MISSING}

    def show(parameter: inspect.Parameter) -> inspect.Parameter:
        hidden = parameter.name in made and parameter.default is not parameter.empty
        return parameter.replace(default=made[parameter.name]) if hidden else parameter

    return found.replace(parameters=[show(parameter) for parameter in found.parameters.values()])


def _defines(owner: Any, member: str) -> bool:
    """Whether the class, or one it derives from, says what `member` is; `object` says nothing worth documenting."""
    return any(member in vars(base) for base in inspect.getmro(owner) if base is not object)


def _class_differences(entry: Entry, owner: Any, ours: ModuleType) -> list[str]:
    if not inspect.isclass(owner):
        return [f"{entry.name} is no class"]
    found = [f"{entry.name} does not derive from {name}" for name in entry.bases if not _derives(owner, name, ours)]
    if "dataclass" in entry.marks:
        held = [field.name for field in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
        found += [] if held else [f"{entry.name} is no dataclass"]
        found += [f"{entry.name} has no field {name}" for name in entry.fields if name not in held]
    return found


def _derives(owner: type, name: str, ours: ModuleType) -> bool:
    if name == "ABC":
        return isinstance(owner, abc.ABCMeta)
    if name == "Protocol":
        return bool(getattr(owner, "_is_protocol", False))  # `typing.is_protocol` is new in Python 3.13
    if name == "BaseModel":
        return issubclass(owner, pydantic.BaseModel)
    return issubclass(owner, getattr(ours, name, None) or getattr(builtins, name))


def _mark_differences(entry: Entry, owner: Any) -> list[str]:
    if entry.member in _CONSTRUCTORS:
        return []
    static = inspect.getattr_static(owner, entry.member) if entry.member else owner
    function = inspect.unwrap(getattr(static, "__func__", static))
    found = []
    generates = inspect.isasyncgenfunction(function)
    if generates != ("generator" in entry.marks):
        found.append(f"{entry.name} {'is' if generates else 'is not'} consumed with `async for`")
    elif not generates and inspect.iscoroutinefunction(function) != ("async" in entry.marks):
        found.append(f"{entry.name} {'must' if 'async' in entry.marks else 'must not'} be awaited")
    if isinstance(static, classmethod) != ("classmethod" in entry.marks):
        found.append(f"{entry.name} is {'no' if 'classmethod' in entry.marks else 'a'} class method")
    if getattr(function, "__isabstractmethod__", False) != ("abstractmethod" in entry.marks):
        found.append(f"{entry.name} is {'not abstract' if 'abstractmethod' in entry.marks else 'abstract'}")
    return found


def _parameter_differences(entry: Entry, ours: inspect.Signature, meanings: Mapping[str, Any]) -> list[str]:
    held = list(ours.parameters.values())
    names = {parameter.name for parameter in entry.parameters}
    extra = [parameter for parameter in held if parameter.name not in names]
    kept = [parameter for parameter in held if parameter.name in names]
    stated = [parameter.name for parameter in entry.parameters]
    if [parameter.name for parameter in kept] != stated:
        return [f"{entry.name} takes {[parameter.name for parameter in held]}, documented is {stated}"]
    found = [
        f"{entry.name} adds {parameter}, which is not keyword-only with a default"
        for parameter in extra
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY or parameter.default is inspect.Parameter.empty
    ]
    for expected, actual in zip(entry.parameters, kept, strict=True):
        if actual.kind is not _KINDS[expected.kind]:
            found.append(f"{entry.name}: {actual.name} is {actual.kind.description}, documented is {expected.kind}")
        if not _same_default(expected, actual.default, meanings):
            default = "required" if expected.default is None else expected.default
            found.append(f"{entry.name}: the default of {actual.name} is {actual.default!r}, documented is {default}")
    return found


def _return_differences(entry: Entry, ours: inspect.Signature, meanings: Mapping[str, Any]) -> list[str]:
    """Compare the texts; what is documented as `Any` may be more exact here."""
    stated = meanings.get(entry.returns, entry.returns)
    narrower = stated.replace("AsyncIterator[", "AsyncGenerator[")
    if stated in {"", "Any", ours.return_annotation} or narrower == ours.return_annotation:
        return []
    return [f"{entry.name} returns {ours.return_annotation}, documented is {entry.returns}"]


def _same_default(expected: Parameter, actual: Any, meanings: Mapping[str, Any]) -> bool:
    if expected.default is None:
        return actual is inspect.Parameter.empty
    if expected.default == "...":
        return actual is not inspect.Parameter.empty
    wanted = meanings[expected.default] if expected.default in meanings else ast.literal_eval(expected.default)
    return bool(actual is wanted or (type(actual) is type(wanted) and actual == wanted))
