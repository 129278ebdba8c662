"""Ids of runs that callers give, and the one error for those that lead nowhere."""

from __future__ import annotations


def check_id(value: object) -> str:
    """Return a run id.

    Raises:
        TypeError: it is no text; a handle has one.
    """
    if not isinstance(value, str):
        hint = ": use handle.run_id" if hasattr(value, "run_id") else ""
        raise TypeError(f"run_id is a text, not {type(value).__name__}{hint}")
    return value


class NoRunError(KeyError):
    """The `KeyError` for a run that no store knows, or that is another tenant's: nobody can tell which (TEN-05)."""

    def __str__(self) -> str:
        """Return a sentence; `args` hold the id alone, as those of any `KeyError`."""
        return f"there is no run {self.args[0]!r} here; was it started in this store, or deleted since?"
