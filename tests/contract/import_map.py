"""Where a program written for a documented package finds each name in `tracehold`, and what differs."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from contract.comparing import added
from contract.documented import Documented

_FACTS: Final = Path(__file__).with_name("import_map.toml")


class ImportMap:
    """The names of a documented package, held against `ours`.

    Attributes:
        package: the name the documented package is imported by.
        distribution: the name it is installed by.
        version: the version its modules were read from.
        renamed: there, here, why.
    """

    def __init__(self, ours: ModuleType, documented: Documented) -> None:
        self._ours = ours
        self._documented = documented
        self.package = documented.package
        facts: dict[str, Any] = tomllib.loads(_FACTS.read_text("utf-8"))[self.package]
        self._homes: dict[str, str] = {name: module for module, names in facts["modules"].items() for name in names}
        self._elsewhere = {name: module for module, names in facts.get("elsewhere", {}).items() for name in names}
        self.distribution: str = facts["distribution"]
        self.version: str = facts["version"]
        self.renamed: list[list[str]] = facts["renamed"]

    def documented(self) -> Iterator[tuple[str, str, str]]:
        """Yield each documented name: its import there, its import here, and the parameters that ours adds."""
        for entry in self._documented.entries:
            if not entry.member:
                here = f"{self._ours.__name__}.{entry.name}"
                yield self._there(entry.name), here, ", ".join(self._added(entry.name))

    def others(self) -> Iterator[tuple[str, str]]:
        """Yield each further name of that package which ours has too: its import there and here."""
        for name in self._beside():
            if here := self._found(name):
                yield self._there(name), here

    def absent(self) -> dict[str, list[str]]:
        """Module of that package to its public names that ours does not have and no document asks for."""
        found: dict[str, list[str]] = {}
        for name in self._beside():
            if not self._found(name):
                found.setdefault(f"{self.package}.{self._homes[name]}", []).append(name)
        return found

    def _beside(self) -> list[str]:
        told = {entry.owner for entry in self._documented.entries} | {old for old, _, _ in self.renamed}
        return [name for name in self._homes if name not in told]

    def _there(self, name: str) -> str:
        return f"{self.package}.{self._homes[name]}.{name}"

    def _found(self, name: str) -> str | None:
        """Where ours has `name`: at its top, else in a module that is known, else in the package called as its home."""
        if hasattr(self._ours, name):
            return f"{self._ours.__name__}.{name}"
        home = f"{self._ours.__name__}.{self._homes[name].rpartition('.')[2]}"
        package = self._elsewhere.get(name, home)
        try:
            known = hasattr(importlib.import_module(package), name)
        except ModuleNotFoundError:
            return None
        return f"{package}.{name}" if known else None

    def _added(self, owner: str) -> Iterator[str]:
        if not hasattr(self._ours, owner):
            return
        for entry in self._documented.entries:
            parameters = added(entry, self._ours) if entry.owner == owner else []
            if parameters:
                shown = ", ".join(f"{parameter.name}={_shown(parameter.default)}" for parameter in parameters)
                yield f"`{entry.member or owner}(..., {shown})`"


def _shown(default: Any) -> str:
    """The default as a reader may write it; an object without such a form is `...`."""
    if default in (list, dict):  # what makes it anew for each object
        return repr(default())
    if inspect.isfunction(default) or inspect.isclass(default):
        return default.__name__
    text = repr(default)
    return "..." if text.startswith("<") else text
