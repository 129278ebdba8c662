"""Of statements made at random, none shows what is another tenant's."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st
from support.two_tenants import MARK, NUMBER, OURS
from tracehold_collector.sql.bounds import bounds_of
from tracehold_collector.sql.check import judge
from tracehold_collector.sql.tables import TABLES

TEXTS = ("name", "agent", "run_id", "model", "type", "status", "tenant", "span_id", "service")
NUMBERS = ("started_at", "input_tokens", "output_tokens", "duration_ns", "cost_usd")
TABLE = st.sampled_from(["events", "events_readable", "priced_events", "(SELECT * FROM events)", '"EVENTS"'])


def columns(name: str) -> st.SearchStrategy[str]:
    texts = st.sampled_from(TEXTS).map(lambda column: f"{name}.{column}")
    numbers = st.sampled_from(NUMBERS).map(lambda column: f"{name}.{column}")
    return st.one_of(
        texts,
        numbers,
        texts.map(lambda text: f"{text}::INTEGER"),
        texts.map(lambda text: f"TRY_CAST({text} AS DOUBLE)"),
        texts.map(lambda text: f"upper({text}) || '.'"),
        texts.map(lambda text: f"error({text})"),
        numbers.map(lambda number: f"{number}::UTINYINT"),
        numbers.map(lambda number: f"1 / ({number} - {NUMBER})"),
    )


def conditions(name: str) -> st.SearchStrategy[str]:
    values = st.sampled_from(["''", f"'{MARK}'", f"'{OURS}'", str(NUMBER), "0", "NULL", "'1'", "10"])
    compares = st.sampled_from(["=", "<>", ">=", "<", "IS DISTINCT FROM", "LIKE", "IN", "IS NOT NULL OR 1 ="])
    plain = st.builds(
        lambda column, compare, value: f"{column} {compare} {f'({value}, {value})' if compare == 'IN' else value}",
        columns(name), compares, values,
    )  # fmt: skip
    inner = f"EXISTS (SELECT 1 FROM events q WHERE q.run_id = {name}.run_id OR q.tenant <> {name}.tenant)"  # noqa: S608
    return st.recursive(
        st.one_of(plain, st.just(inner), st.just("true")),
        lambda part: st.one_of(
            st.builds("({} AND {})".format, part, part),
            st.builds("({} OR {})".format, part, part),
            st.builds("NOT {}".format, part),
        ),
        max_leaves=4,
    )


@st.composite
def selects(draw: st.DrawFn) -> str:
    table, other = draw(TABLE), draw(TABLE)
    column = columns("a")
    listed = draw(st.one_of(st.just("a.*"), st.lists(column, min_size=1, max_size=3).map(", ".join)))
    aggregate = draw(st.sampled_from(["min({})", "max({})", "list({})", "string_agg({}::VARCHAR, ',')", "count({})"]))
    shape = draw(st.sampled_from(["plain", "join", "group", "window", "union", "cte", "lateral"]))
    where = draw(conditions("a"))
    if shape == "join":
        on = draw(st.sampled_from(["a.status = b.status", "a.tenant <> b.tenant", "true", "a.name::INT = b.name::INT"]))
        kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "FULL JOIN"]))
        return f"SELECT {listed}, b.* FROM {table} a {kind} {other} b ON {on} WHERE {where} LIMIT 5"  # noqa: S608
    if shape == "group":
        return f"SELECT {aggregate.format(draw(column))} FROM {table} a WHERE {where} GROUP BY a.status"  # noqa: S608
    if shape == "window":
        value = draw(column)
        return f"SELECT first_value({value}) OVER (ORDER BY a.started_at) FROM {table} a WHERE {where}"  # noqa: S608
    if shape == "union":
        return f"SELECT a.name FROM {table} a WHERE {where} UNION ALL SELECT a.name FROM {other} a"  # noqa: S608
    if shape == "cte":
        return f"WITH events AS (SELECT {listed} FROM {table} a WHERE {where}) SELECT * FROM events, runs"  # noqa: S608
    if shape == "lateral":
        return f"SELECT {listed}, l.* FROM {table} a, LATERAL (SELECT * FROM runs r WHERE r.run_id >= a.run_id) l"  # noqa: S608
    return f"SELECT {listed} FROM {table} a WHERE {where} ORDER BY {draw(column)} LIMIT 7"  # noqa: S608


@given(text=selects())
def test_no_statement_shows_another_tenants_mark(
    text: str, engine: duckdb.DuckDBPyConnection, outcome: Callable[[str], str]
) -> None:
    judge(engine, text, TABLES)
    # What the asker wrote may come back in an error; what stands in the rows may not.
    asked = text.replace(f"'{MARK}'", "'x'").replace(str(NUMBER), "7")
    seen = outcome(asked)
    assert MARK not in seen.lower()
    assert str(NUMBER) not in seen
    outcome(text)


FIELDS = st.sampled_from(["a", "b"])
WORDS = st.text(st.sampled_from("ab()\"'\\ and&=><1"), max_size=8)
SIMPLE = st.one_of(
    st.builds(lambda name, value: pc.field(name) >= value, FIELDS, st.integers(-5, 5)),
    st.builds(lambda name, value: pc.field(name) < value, FIELDS, st.integers(-5, 5)),
    st.builds(lambda value: pc.field("s") == value, WORDS),
    st.builds(lambda name: pc.field(name).is_null(), FIELDS),
    st.builds(lambda name, values: pc.field(name).isin(values), FIELDS, st.lists(st.integers(-5, 5), min_size=1)),
)
FILTERS = st.recursive(
    SIMPLE,
    lambda part: st.one_of(
        st.builds(lambda x, y: x & y, part, part),
        st.builds(lambda x, y: x | y, part, part),
        st.builds(lambda x: ~x, part),
    ),
    max_leaves=6,
)
ROWS = st.fixed_dictionaries({"a": st.integers(-6, 6), "b": st.integers(-6, 6), "s": WORDS})


@given(condition=FILTERS, rows=st.lists(ROWS, min_size=1, max_size=20))
def test_a_bound_never_loses_a_row_that_the_filter_keeps(
    condition: pc.Expression, rows: list[dict[str, object]]
) -> None:
    import pyarrow as pa  # noqa: PLC0415 - for this test only

    compare = {
        "==": lambda x, y: x == y, ">=": lambda x, y: x >= y, "<=": lambda x, y: x <= y,
        ">": lambda x, y: x > y, "<": lambda x, y: x < y,
    }  # fmt: skip
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())])
    kept = pa.Table.from_pylist(rows, schema).filter(condition).to_pylist()
    for bound in bounds_of(str(condition)):
        assert all(compare[bound.compare](row[bound.column], bound.value) for row in kept)


def test_a_bound_is_found_where_there_is_one() -> None:
    condition = (pc.field("a") >= 5) & ((pc.field("s") == "x y") & (pc.field("b") < -1))
    assert sorted(bounds_of(str(condition))) == [("a", ">=", 5), ("b", "<", -1), ("s", "==", "x y")]
    assert bounds_of(str((pc.field("a") >= 5) | (pc.field("b") < 1))) == []
