"""Search over short texts without any service: SQLite FTS5, and vectors when an embedder is given."""

from tracehold.retrieval.bookkeeping import InMemoryBookkeeping as InMemoryBookkeeping
from tracehold.retrieval.bookkeeping import SqliteBookkeeping as SqliteBookkeeping
from tracehold.retrieval.bookkeeping import SyncBookkeeping as SyncBookkeeping
from tracehold.retrieval.fusion import ReciprocalRankFusion as ReciprocalRankFusion
from tracehold.retrieval.hybrid import HybridRetriever as HybridRetriever
from tracehold.retrieval.index_protocol import IndexItem as IndexItem
from tracehold.retrieval.index_protocol import IndexSync as IndexSync
from tracehold.retrieval.index_sync import SyncIndexSync as SyncIndexSync
from tracehold.retrieval.keyword import SqliteKeywordIndex as SqliteKeywordIndex
from tracehold.retrieval.tool_retriever import ToolRetriever as ToolRetriever
from tracehold.retrieval.types import Embedder as Embedder
from tracehold.retrieval.types import FusionStrategy as FusionStrategy
from tracehold.retrieval.types import KeywordIndex as KeywordIndex
from tracehold.retrieval.types import Reranker as Reranker
from tracehold.retrieval.types import RetrievalConfig as RetrievalConfig
from tracehold.retrieval.types import RetrievalResult as RetrievalResult
from tracehold.retrieval.types import VectorStore as VectorStore
from tracehold.retrieval.vectors import SqliteVectorStore as SqliteVectorStore
