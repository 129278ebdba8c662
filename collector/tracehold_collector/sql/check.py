"""Says of a parsed statement whether it may run: one SELECT over the tables on offer, with functions that only compute.

The tree is DuckDB's own (`json_serialize_sql`), so that nothing is judged by its spelling. What is not known here is
refused. This is the first of several walls (decision 21): behind it is a process that has no other data and no files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import duckdb

from tracehold_collector.sql.functions import FUNCTIONS, OPERATORS, TABLE_FUNCTIONS

MAX_NODES: Final = 20_000

_EXPRESSIONS: Final = frozenset(
    {
        "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION",
        "LAMBDA", "LAMBDA_REF", "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW",
    }
)  # fmt: skip

_NODES: Final = frozenset(
    {
        "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE",
        "BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EMPTY", "EXPRESSION_LIST", "PIVOT",
        "ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER",
        "ORDER_DEFAULT", "ASCENDING", "DESCENDING",
    }
)  # fmt: skip

_NO_PLACE: Final = 2**64 - 1


class RefusedError(Exception):
    """A statement that may not run; the text says what in it, and what to do."""


def judge(connection: duckdb.DuckDBPyConnection, text: str, tables: Collection[str]) -> duckdb.Statement:
    """Return the one statement in `text`, parsed, when it may run.

    Args:
        connection: whose parser reads it; nothing is run.
        text: what somebody wrote.
        tables: names of the tables on offer.

    Raises:
        RefusedError: it may not run.
        duckdb.Error: it cannot be parsed.
    """
    statements = connection.extract_statements(text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise RefusedError("give one SELECT statement; nothing else is run here")
    (tree,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()[0]
    check(json.loads(tree), [name.lower() for name in tables])
    return statements[0]


def check(tree: Mapping[str, Any], tables: Collection[str]) -> None:
    """Raise `RefusedError` unless the statement may run.

    Args:
        tree: what `json_serialize_sql` made of the statement.
        tables: names of the tables on offer, in lower case.
    """
    statements = tree.get("statements") or []
    if tree.get("error") or len(statements) != 1:
        raise RefusedError("give one SELECT statement; nothing else is run here")
    if statements[0].get("named_param_map"):
        raise RefusedError("a statement has no parameters here: write the value into it")
    nodes = list(_nodes(statements[0]["node"]))
    known = {*tables, *_named_parts(nodes)}
    for node in nodes:
        _check_node(node, known, tables)


def _nodes(root: Any) -> Iterator[dict[str, Any]]:
    """Every object of the tree. Without recursion: a statement may be nested deeply."""
    pending = [root]
    seen = 0
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            seen += 1
            if seen > MAX_NODES:
                raise RefusedError("this statement has too many parts; write a shorter one")
            yield value
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _named_parts(nodes: Collection[dict[str, Any]]) -> set[str]:
    """The names that WITH clauses give."""
    named = {str(node["cte_name"]).lower() for node in nodes if isinstance(node.get("cte_name"), str)}
    for node in nodes:
        parts = node.get("cte_map")
        if isinstance(parts, dict):
            named |= {str(entry["key"]).lower() for entry in parts.get("map") or []}
    return named


def _check_node(node: dict[str, Any], known: Collection[str], tables: Collection[str]) -> None:
    kind, form = node.get("class"), node.get("type")
    if isinstance(kind, str):
        if kind not in _EXPRESSIONS:
            raise RefusedError(f"{_words(kind)} cannot be used here{_place(node)}")
        if "function_name" in node:
            _check_function(node)
    elif isinstance(form, str):
        if form == "SHOW_REF":
            raise RefusedError(
                "DESCRIBE, SHOW and SUMMARIZE are not run here: GET /api/v1/sql lists tables and columns"
            )
        if form not in _NODES and not form.endswith("_TYPE_INFO"):
            raise RefusedError(f"{_words(form)} cannot be used here{_place(node)}")
        if form == "BASE_TABLE":
            _check_table(node, known, tables)
        elif form == "TABLE_FUNCTION":
            name = str(node["function"].get("function_name", "")).lower()
            if name not in TABLE_FUNCTIONS:
                raise RefusedError(
                    f"{name[:60]}() cannot be read from{_place(node)}; a statement reads {', '.join(sorted(tables))}, "
                    f"and {', '.join(sorted(TABLE_FUNCTIONS))}"
                )


def _check_function(node: dict[str, Any]) -> None:
    name = str(node["function_name"]).lower()
    # The parser writes `main` itself for what it makes of brackets and keywords, such as a list or an EXTRACT.
    if node.get("schema") not in {None, "", "main"} or node.get("catalog") not in {None, "", "system"}:
        raise RefusedError(f"write functions without a schema{_place(node)}")
    if name not in FUNCTIONS and name not in OPERATORS:
        raise RefusedError(f"the function {name[:60]} is not among those a statement may call{_place(node)}")


def _check_table(node: dict[str, Any], known: Collection[str], tables: Collection[str]) -> None:
    name = str(node.get("table_name", ""))
    if node.get("schema_name") or node.get("catalog_name"):
        raise RefusedError(f"write tables without a schema{_place(node)}: {', '.join(sorted(tables))}")
    if name.lower() not in known:
        raise RefusedError(f"there is no table {name[:60]!r}{_place(node)}; there are: {', '.join(sorted(tables))}")


def _words(name: str) -> str:
    return name.replace("_", " ").lower()


def _place(node: Mapping[str, Any]) -> str:
    place = node.get("query_location")
    return f" (at byte {place})" if isinstance(place, int) and place < _NO_PLACE else ""
