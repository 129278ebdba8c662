"""Public names that are imported on first use, so that importing a package costs milliseconds and no extra."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_getattr(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the module `__getattr__` (PEP 562) of a package.

    Args:
        package: its `__name__`.
        homes: public name to the module that defines it.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 - becomes the package's own
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
