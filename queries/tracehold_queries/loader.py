"""Read the `.sql` files of this package, and refuse one whose header and SQL disagree."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

from tracehold_queries.errors import QueryFileError, UnknownQueryError
from tracehold_queries.header import Header, parse_header
from tracehold_queries.query import Query

# What may hold a `$` that is no parameter: comments, texts, quoted names. Kept in one pattern so that a quote
# inside a comment, or dashes inside a text, are read the way DuckDB reads them.
_OPAQUE: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.DOTALL)
_PARAMETER: Final = re.compile(r"\$([A-Za-z0-9_]*)|\?")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


def catalogue() -> dict[str, Query]:
    """Give every query this package ships, sorted by name.

    Raises:
        QueryFileError: a file breaks the rules; the text names file and line.
    """
    return dict(_catalogue())


def get(name: str) -> Query:
    """Give one query by name.

    Raises:
        UnknownQueryError: there is none; the text lists those that exist.
    """
    queries = _catalogue()
    if name not in queries:
        raise UnknownQueryError(name, queries)
    return queries[name]


def parse_query(file: str, text: str) -> Query:
    """Parse one `.sql` file.

    Args:
        file: its name, ending in `.sql`; the query is named after it.
        text: all of it.

    Raises:
        QueryFileError: the header is malformed, or it and the SQL disagree about the parameters.
    """
    name = file.removesuffix(".sql")
    if not _NAME.fullmatch(name):
        raise QueryFileError(file, 1, "a query's name is lower-case letters, digits and underscores")
    header = parse_header(file, text)
    _check_parameters(file, text, header)
    return Query(name, header.question, header.asked_by, header.parameters, header.columns, text)


@cache
def _catalogue() -> dict[str, Query]:
    folder = resources.files("tracehold_queries") / "sql"
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".sql")), key=lambda item: item.name)
    queries = [parse_query(item.name, item.read_text(encoding="utf-8")) for item in files]
    return {query.name: query for query in queries}


def _check_parameters(file: str, text: str, header: Header) -> None:
    declared = {parameter.name for parameter in header.parameters}
    used = set()
    visible = _OPAQUE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for line, code in enumerate(visible.splitlines(), start=1):
        for match in _PARAMETER.finditer(code):
            parameter = match[1]
            if not parameter or parameter[0].isdigit():
                raise QueryFileError(file, line, "parameters have names, such as $since; `?`, `$1` and `$$` do not")
            if parameter not in declared:
                raise QueryFileError(file, line, f"${parameter} is used and not declared in the header")
            used.add(parameter)
    for line, raw in enumerate(text.splitlines()[: header.first_line - 1], start=1):
        for name in declared - used:
            if raw.startswith(f"-- param {name} "):
                raise QueryFileError(file, line, f"the parameter {name!r} is declared and not used")
