"""What a constructor is given, looked at where it is given: a wrong one must not fail at the first use."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def require_methods(name: str, value: object, methods: Sequence[str], instead: str) -> None:
    """Refuse what lacks a method, and a class given for its instance; `None` passes.

    Args:
        name: of the argument.
        value: what was given.
        methods: what it must be able to do.
        instead: what to give, as the end of a sentence.

    Raises:
        TypeError: says what was given and what to give instead.
    """
    if value is None:
        return
    if isinstance(value, type):
        raise TypeError(f"{name} cannot be the class {value.__name__}: {instead}")
    if any(not callable(getattr(value, method, None)) for method in methods):
        raise TypeError(f"{name} cannot be {type(value).__name__}: {instead}")


def require_known(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keyword arguments that nobody knows, and say which one was perhaps meant.

    Raises:
        TypeError: names the first of them.
    """
    names = list(known)
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(sorted(names))}"
            raise TypeError(f"{owner} has no argument {name!r}{hint}")
