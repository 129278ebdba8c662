"""Search over short texts without any service: SQLite FTS5, and vectors when an embedder is given."""

from tracehold.retrieval.types import Embedder as Embedder
from tracehold.retrieval.types import RetrievalResult as RetrievalResult
