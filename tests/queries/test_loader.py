"""The loader refuses a file whose header and SQL disagree, and says where."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tracehold_queries import QueryFileError, UnknownQueryError, catalogue, get
from tracehold_queries.loader import parse_query

HEADER = """\
-- question: What?
-- asked by: engineer, auditor
--
-- param since TIMESTAMP = NULL: not before
-- param limit BIGINT {1..10} = 5: rows at most,
--     never more
-- column n BIGINT [rows]: how many
"""
SQL = "\nSELECT $limit::BIGINT AS n WHERE $since::TIMESTAMP IS NULL\n"


def test_a_header_becomes_a_description_that_json_can_carry():
    query = parse_query("what.sql", HEADER + SQL)
    assert json.loads(json.dumps(query.describe())) == {
        "name": "what",
        "question": "What?",
        "asked_by": ["engineer", "auditor"],
        "parameters": [
            {
                "name": "since",
                "type": "TIMESTAMP",
                "required": False,
                "default": None,
                "choices": [],
                "minimum": None,
                "maximum": None,
                "meaning": "not before",
            },
            {
                "name": "limit",
                "type": "BIGINT",
                "required": False,
                "default": 5,
                "choices": [],
                "minimum": 1,
                "maximum": 10,
                "meaning": "rows at most, never more",
            },
        ],
        "columns": [{"name": "n", "type": "BIGINT", "unit": "rows", "meaning": "how many"}],
    }


@pytest.mark.parametrize(
    ("header", "sql", "line", "message"),
    [
        (HEADER, "\nSELECT $limit AS n, $since, $other\n", 9, r"\$other is used and not declared"),
        (HEADER, "\nSELECT 1 AS n\n-- $since\nWHERE $limit = 1\n", 4, "'since' is declared and not used"),
        (HEADER, "\nSELECT '$since' AS n WHERE $limit = 1\n", 4, "'since' is declared and not used"),
        (HEADER, "\nSELECT $since, $limit,\n ? AS n\n", 10, "parameters have names"),
        (HEADER, "\nSELECT $since, $limit, $1 AS n\n", 9, "parameters have names"),
        (HEADER + "-- param limit BIGINT = 1: again\n", SQL, 8, "'limit' is declared twice"),
        (HEADER + "-- column n BIGINT: again\n", SQL, 8, "'n' is declared twice"),
        (HEADER + "-- question: And?\n", SQL, 8, "'question' is declared twice"),
        (HEADER + "-- param a BIGINT\n", SQL, 8, "expected `param"),
        (HEADER + "-- param a INTEGER: x\n", SQL, 8, "unknown type INTEGER"),
        (HEADER + "-- param a BIGINT = many: x\n", SQL, 8, "default of 'a' takes a whole number"),
        (HEADER + "-- param a BIGINT {1..3} = 9: x\n", SQL, 8, "default of 'a' takes 1 to 3"),
        (HEADER + "-- param a VARCHAR {1..3} = x: x\n", SQL, 8, "a range is for numbers"),
        (HEADER + "-- param a BIGINT {one, two}: x\n", SQL, 8, "choices is for VARCHAR"),
        (HEADER + "-- column A\n", SQL, 8, "expected `column"),
        (HEADER + "-- remark: x\n", SQL, 8, "expected `question"),
        (HEADER, "", 7, "no SQL after its header"),
        ("-- asked by: x\n-- column n BIGINT: x\n", "SELECT 1 AS n\n", 1, "no `-- question"),
        ("-- question: x\n-- asked by: x\n", "SELECT 1 AS n\n", 1, "declares no column"),
        ("--     more\n", "SELECT 1 AS n\n", 1, "nothing above it"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_line(header, sql, line, message):
    with pytest.raises(QueryFileError, match=message) as caught:
        parse_query("what.sql", header + sql)
    assert str(caught.value).startswith(f"what.sql:{line}: ")


def test_a_dollar_inside_a_text_or_a_comment_is_no_parameter():
    sql = "\nSELECT $limit::BIGINT AS n -- costs $money\nWHERE '$a''$b' <> \"$c\" /* $d */ AND $since IS NULL\n"
    assert parse_query("what.sql", HEADER + sql).sql.endswith(sql)


def test_a_query_name_that_no_url_could_carry_is_refused():
    with pytest.raises(QueryFileError, match="lower-case"):
        parse_query("What now.sql", HEADER + SQL)


def test_the_catalogue_is_sorted_and_holds_what_ships():
    names = list(catalogue())
    assert sorted(names) == names
    assert {"runs", "run", "waterfall", "run_events", "gate_denials", "spend_by_model_day", "spend"} < set(names)


def test_every_query_lets_the_server_bind_tenants_and_users_filter_by_one():
    for query in catalogue().values():
        declared = {parameter.name: parameter for parameter in query.parameters}
        assert declared["tenants"].type == "VARCHAR[]"
        if query.name != "gaps":  # about the collector, and so about every tenant
            assert declared["tenant"].type == "VARCHAR"
        assert "tenants" not in {parameter["name"] for parameter in query.describe()["parameters"]}


def test_an_unknown_query_is_answered_with_those_that_exist():
    with pytest.raises(
        UnknownQueryError,
        match=r"there is no query 'nope'; these exist: completeness, denial_retries, facets, gaps",
    ):
        get("nope")


def test_reading_the_catalogue_loads_no_database_engine():
    code = (
        "import sys, tracehold_queries as q; q.catalogue(); "
        "assert not {'duckdb', 'pandas', 'pyarrow'} & set(sys.modules), 'loaded too early'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
