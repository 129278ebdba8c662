"""The header of a `.sql` file: what it answers, who asks, its parameters and its columns.

Every line before the first line of SQL is a comment of one of these forms. An indented comment line (four
spaces or more after the dashes) continues the one above it; an empty comment line is only for the eye:

    -- question: Which runs were recorded, newest first?
    -- asked by: engineer, auditor
    -- param limit BIGINT {1..1000} = 50: rows a page
    -- param sort VARCHAR {started_at, cost} = started_at: what to sort by
    -- param run_id VARCHAR: the run (no default: it must be given)
    -- column duration_ns BIGINT [ns]: how long it took; NULL when unknown
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from tracehold_queries.errors import QueryFileError
from tracehold_queries.values import TYPES, convert

RESERVED: Final = frozenset({"tenants"})
"""Parameters the server binds from the credential; a user never sets them."""

_PARAM: Final = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*) (?P<type>[A-Z]+(?:\[\])?)"
    r"(?: \{(?P<allowed>[^{}]+)\})?(?: = (?P<default>[^:]*?))?: (?P<meaning>\S.*)"
)
_COLUMN: Final = re.compile(
    r"(?P<name>[a-z][a-z0-9_]*) (?P<type>[A-Z]+(?:\[\])?)(?: \[(?P<unit>[^\]]+)\])?: (?P<meaning>\S.*)"
)
_RANGE: Final = re.compile(r"(?P<low>-?\d*)\.\.(?P<high>-?\d*)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter.

    Attributes:
        name: as in `$name`.
        type: one of `values.TYPES`.
        required: it has no default.
        default: already converted; `None` is SQL's NULL.
        choices: the values it takes, or empty for any.
        minimum, maximum: inclusive bounds of a number, or `None`.
        meaning: for people.
    """

    name: str
    type: str
    required: bool
    default: Any
    choices: tuple[str, ...]
    minimum: int | None
    maximum: int | None
    meaning: str

    def accept(self, value: object) -> Any:
        """Convert `value` and hold it against choices and bounds.

        Raises:
            ValueError: it cannot be used; the text says what can.
        """
        if value is None:
            if self.required:
                raise ValueError("must be given")
            return None
        converted = convert(self.type, value)
        if self.choices and converted not in self.choices:
            raise ValueError(f"takes one of {', '.join(self.choices)}")
        if (self.minimum is not None and converted < self.minimum) or (
            self.maximum is not None and converted > self.maximum
        ):
            raise ValueError(f"takes {_bounds(self.minimum, self.maximum)}")
        return converted


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column of the answer.

    Attributes:
        name: the column's name.
        type: DuckDB's name of its type.
        unit: such as "ns" or "USD"; `None` for things without a unit.
        meaning: for people.
    """

    name: str
    type: str
    unit: str | None
    meaning: str


@dataclass(frozen=True, slots=True)
class Header:
    """A parsed header, and `first_line`, the 1-based line where the SQL begins."""

    question: str
    asked_by: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    first_line: int


def parse_header(file: str, text: str) -> Header:
    """Parse the header of a `.sql` file.

    Args:
        file: the file's name, for errors.
        text: the whole file.

    Raises:
        QueryFileError: a line has none of the forms above, is given twice, or a part is missing.
    """
    entries, first_line = _entries(file, text)
    single: dict[str, str] = {}
    parameters: dict[str, Parameter] = {}
    columns: dict[str, Column] = {}
    for line, entry in entries:
        if entry.startswith("param "):
            parameter = _parameter(file, line, entry.removeprefix("param "))
            if parameter.name in parameters:
                raise QueryFileError(file, line, f"the parameter {parameter.name!r} is declared twice")
            parameters[parameter.name] = parameter
        elif entry.startswith("column "):
            column = _column(file, line, entry.removeprefix("column "))
            if column.name in columns:
                raise QueryFileError(file, line, f"the column {column.name!r} is declared twice")
            columns[column.name] = column
        else:
            key, _, value = entry.partition(":")
            if key not in {"question", "asked by"} or not value.strip():
                raise QueryFileError(
                    file, line, "expected `question: ...`, `asked by: ...`, `param ...` or `column ...`"
                )
            if key in single:
                raise QueryFileError(file, line, f"the line {key!r} is declared twice")
            single[key] = value.strip()
    for key in ("question", "asked by"):
        if key not in single:
            raise QueryFileError(file, 1, f"the header has no `-- {key}: ...` line")
    if not columns:
        raise QueryFileError(file, 1, "the header declares no column")
    asked_by = tuple(who.strip() for who in single["asked by"].split(","))
    return Header(single["question"], asked_by, tuple(parameters.values()), tuple(columns.values()), first_line)


def _entries(file: str, text: str) -> tuple[list[tuple[int, str]], int]:
    """Cut the header into entries with their lines, continuation lines joined."""
    entries: list[tuple[int, str]] = []
    for line, raw in enumerate(text.splitlines(), start=1):
        if not raw.startswith("--"):
            return entries, line
        comment = raw.removeprefix("--").rstrip()
        if not comment:
            continue
        if comment.startswith("    "):
            if not entries:
                raise QueryFileError(file, line, "a continuation line with nothing above it")
            start, entry = entries[-1]
            entries[-1] = (start, f"{entry} {comment.strip()}")
        else:
            entries.append((line, comment.strip()))
    raise QueryFileError(file, len(text.splitlines()) or 1, "the file has no SQL after its header")


def _parameter(file: str, line: int, entry: str) -> Parameter:
    match = _PARAM.fullmatch(entry)
    if match is None:
        raise QueryFileError(file, line, "expected `param NAME TYPE {ALLOWED} = DEFAULT: MEANING`")
    if match["type"] not in TYPES:
        raise QueryFileError(file, line, f"unknown type {match['type']}; known: {', '.join(sorted(TYPES))}")
    choices, minimum, maximum = _allowed(file, line, match["type"], match["allowed"])
    required = match["default"] is None
    parameter = Parameter(match["name"], match["type"], required, None, choices, minimum, maximum, match["meaning"])
    if required or match["default"].strip() == "NULL":
        return parameter
    try:
        default = parameter.accept(match["default"].strip())
    except ValueError as error:
        raise QueryFileError(file, line, f"the default of {match['name']!r} {error}") from error
    return Parameter(match["name"], match["type"], required, default, choices, minimum, maximum, match["meaning"])


def _allowed(file: str, line: int, type_name: str, text: str | None) -> tuple[tuple[str, ...], int | None, int | None]:
    if text is None:
        return (), None, None
    if match := _RANGE.fullmatch(text.strip()):
        if type_name not in {"BIGINT", "DOUBLE"}:
            raise QueryFileError(file, line, f"a range is for numbers, not for {type_name}")
        low, high = (int(match[side]) if match[side] else None for side in ("low", "high"))
        return (), low, high
    if type_name != "VARCHAR":
        raise QueryFileError(file, line, f"a list of choices is for VARCHAR, not for {type_name}")
    return tuple(choice.strip() for choice in text.split(",")), None, None


def _bounds(minimum: int | None, maximum: int | None) -> str:
    if minimum is None:
        return f"at most {maximum}"
    return f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"


def _column(file: str, line: int, entry: str) -> Column:
    match = _COLUMN.fullmatch(entry)
    if match is None:
        raise QueryFileError(file, line, "expected `column NAME TYPE [UNIT]: MEANING`")
    return Column(match["name"], match["type"], match["unit"], match["meaning"])
