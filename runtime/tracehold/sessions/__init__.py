"""The history of conversations: where it is kept, and how it is searched."""

from tracehold.sessions.search import ConversationSearch as ConversationSearch
from tracehold.sessions.search_tool import ConversationSearchTool as ConversationSearchTool
from tracehold.sessions.sqlite import SqliteSessionStore as SqliteSessionStore
from tracehold.sessions.store import ScopeSummary as ScopeSummary
from tracehold.sessions.store import SessionStore as SessionStore
