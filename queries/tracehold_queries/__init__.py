"""Named questions to a Tracehold store, one `.sql` file each, and the loader that runs them."""

from tracehold_queries.errors import QueryFileError, QueryPackageError, QueryParameterError, UnknownQueryError
from tracehold_queries.header import RESERVED, Column, Parameter
from tracehold_queries.loader import catalogue, get
from tracehold_queries.query import Query

__all__ = [
    "RESERVED",
    "Column",
    "Parameter",
    "Query",
    "QueryFileError",
    "QueryPackageError",
    "QueryParameterError",
    "UnknownQueryError",
    "catalogue",
    "get",
]
