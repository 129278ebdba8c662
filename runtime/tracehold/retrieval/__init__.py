"""Search over short texts without any service: SQLite FTS5, and vectors when an embedder is given."""

from tracehold.retrieval.fusion import ReciprocalRankFusion as ReciprocalRankFusion
from tracehold.retrieval.hybrid import HybridRetriever as HybridRetriever
from tracehold.retrieval.keyword import SqliteKeywordIndex as SqliteKeywordIndex
from tracehold.retrieval.types import Embedder as Embedder
from tracehold.retrieval.types import FusionStrategy as FusionStrategy
from tracehold.retrieval.types import KeywordIndex as KeywordIndex
from tracehold.retrieval.types import Reranker as Reranker
from tracehold.retrieval.types import RetrievalConfig as RetrievalConfig
from tracehold.retrieval.types import RetrievalResult as RetrievalResult
from tracehold.retrieval.types import VectorStore as VectorStore
from tracehold.retrieval.vectors import SqliteVectorStore as SqliteVectorStore
