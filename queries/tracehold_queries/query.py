"""A named query: its SQL, what it declares about itself, and the ways to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from tracehold_queries.errors import QueryParameterError
from tracehold_queries.header import RESERVED, Column, Parameter

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Query:
    """One question to the store.

    Attributes:
        name: the file's name without `.sql`.
        question: what it answers, in plain words.
        asked_by: the users who ask it.
        parameters: in the order of the file.
        columns: in the order of the answer.
        sql: the text DuckDB gets, header included, unchanged.
    """

    name: str
    question: str
    asked_by: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    sql: str

    def bind(self, params: Mapping[str, object]) -> dict[str, Any]:
        """Convert and check `params` and fill in the defaults.

        Args:
            params: by name; text or Python objects; `None` is NULL.

        Returns:
            A value for every declared parameter, ready for DuckDB.

        Raises:
            QueryParameterError: a name is unknown, a required one is missing, or a value cannot be used. The
                text lists every fault and repeats no value.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        faults = []
        if unknown := sorted(set(params) - set(known)):
            takes = ", ".join(name for name in known if name not in RESERVED)
            faults.append(f"unknown parameter {', '.join(map(repr, unknown))}; it takes {takes}")
        bound: dict[str, Any] = {}
        for name, parameter in known.items():
            try:
                bound[name] = parameter.accept(params[name]) if name in params else _default(parameter)
            except ValueError as error:
                faults.append(f"{name} {error}")
        if faults:
            raise QueryParameterError(self.name, faults)
        return bound

    def columns_and_rows(
        self, connection: duckdb.DuckDBPyConnection, **params: object
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run the query on `connection`.

        Returns:
            The column names and the rows. Timestamps are naive `datetime` in UTC.

        Raises:
            QueryParameterError: see `bind`.
            duckdb.Error: the store cannot be read.
        """
        result = connection.execute(self.sql, self.bind(params))
        return [item[0] for item in result.description or ()], result.fetchall()

    def rows(self, connection: duckdb.DuckDBPyConnection, **params: object) -> list[dict[str, Any]]:
        """Run the query and give each row as a dict. Raises as `columns_and_rows` does."""
        names, rows = self.columns_and_rows(connection, **params)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def arrow(self, connection: duckdb.DuckDBPyConnection, **params: object) -> pa.Table:
        """Run the query and give an Arrow table. Raises as `columns_and_rows` does."""
        return connection.execute(self.sql, self.bind(params)).to_arrow_table()

    def df(self, connection: duckdb.DuckDBPyConnection, **params: object) -> pd.DataFrame:
        """Run the query and give a pandas frame. Raises as `columns_and_rows` does.

        Whole numbers stay whole beside a NULL (`Int64`): as floats, nanoseconds would be rounded.
        """
        import pandas as pd  # noqa: PLC0415 - belongs to the extra `queries`
        import pyarrow as pa  # noqa: PLC0415 - as above

        frame: pd.DataFrame = self.arrow(connection, **params).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
        return frame

    def describe(self) -> dict[str, Any]:
        """Describe the query as JSON-like data, without the parameters only a server may bind."""
        return {
            "name": self.name,
            "question": self.question,
            "asked_by": list(self.asked_by),
            "parameters": [_describe(item) for item in self.parameters if item.name not in RESERVED],
            "columns": [
                {"name": item.name, "type": item.type, "unit": item.unit, "meaning": item.meaning}
                for item in self.columns
            ],
        }


def _default(parameter: Parameter) -> Any:
    if parameter.required:
        raise ValueError("must be given")
    return parameter.default


def _describe(parameter: Parameter) -> dict[str, Any]:
    default = parameter.default
    return {
        "name": parameter.name,
        "type": parameter.type,
        "required": parameter.required,
        "default": default.isoformat() if isinstance(default, date) else default,
        "choices": list(parameter.choices),
        "minimum": parameter.minimum,
        "maximum": parameter.maximum,
        "meaning": parameter.meaning,
    }
