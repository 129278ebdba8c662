"""Every error this package raises on purpose.

QueryPackageError (RuntimeError)
├── QueryFileError         a .sql file breaks the rules of its header; names file and line
├── UnknownQueryError      no query has that name (also a KeyError)
└── QueryParameterError    a parameter is unknown, missing, or of a value it does not take (also a ValueError)
"""

from __future__ import annotations

from collections.abc import Iterable


class QueryPackageError(RuntimeError):
    """Root of this package's errors. The text says what happened, to what, and what to do next."""


class QueryFileError(QueryPackageError):
    """A `.sql` file breaks the rules of its header.

    Attributes:
        file: the file's name.
        line: 1-based line of the fault.
    """

    def __init__(self, file: str, line: int, message: str) -> None:
        """Put the place in front of `message`."""
        super().__init__(f"{file}:{line}: {message}")
        self.file = file
        self.line = line


class UnknownQueryError(QueryPackageError, KeyError):
    """No query has that name.

    Attributes:
        name: what was asked for.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        """List what exists beside the name that does not."""
        super().__init__(f"there is no query {name!r}; these exist: {', '.join(sorted(known))}")
        self.name = name

    def __str__(self) -> str:
        """Give the sentence itself; `KeyError` would quote it."""
        return str(self.args[0])


class QueryParameterError(QueryPackageError, ValueError):
    """One or more parameters cannot be used. All faults of one call are in one message.

    Attributes:
        query: the query's name.
        faults: one sentence a fault, without the query's name.
    """

    def __init__(self, query: str, faults: Iterable[str]) -> None:
        """Join the faults into one message."""
        self.query = query
        self.faults = tuple(faults)
        super().__init__(f"query {query!r}: {'; '.join(self.faults)}")
