"""The conversation's past as a tool: a model can look up what was said before (SES-41..43)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from tracehold.core.errors import ConfigurationError
from tracehold.core.scope import Scope
from tracehold.retrieval.types import RetrievalResult
from tracehold.sessions.search import ConversationSearch
from tracehold.tools.base import Parameters, Tool, ToolParameter
from tracehold.tools.response import ToolResponse

_NAME: Final = "conversation_search"

DEFAULT_PROMPTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "conversation_search_description": (
            "Search earlier messages of this conversation and of past ones. Use it when the user refers to something "
            "that you cannot see. Returns the messages that fit best, one per line, with the time each was written."
        ),
        "conversation_search_query": "What to look for: words that the messages are likely to contain.",
        "conversation_search_empty": "The query is empty. Say in a few words what to look for.",
        "conversation_search_nothing": "No earlier message was found for this query.",
    }
)
"""The tool's texts, as the model reads them."""

_MAX_LINE_CHARS: Final = 2_000
"""Of one message: a hit is a reminder, and must not fill the model's window."""


class ConversationSearchTool(Tool):
    """A tool named `conversation_search` over a `ConversationSearch`; it only reads and needs no confirmation (SES-41).

    The model gives the query and nothing else: whose conversations are searched is decided here (SES-42).

    Args:
        conversation_search: what is searched.
        scope: whose; matched as `ConversationSearch.search` does.
        top_k: how many messages it returns at most.
        prompts: texts to use instead of `DEFAULT_PROMPTS`, by name; keys of other packages may stand beside them.

    Raises:
        ConfigurationError: such a text is no text.
    """

    # Earlier messages include what tools brought in from outside.
    external_content = True
    supports_parallel = True

    def __init__(
        self,
        conversation_search: ConversationSearch,
        *,
        scope: Scope | None = None,
        top_k: int = 5,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        self._prompts = {key: (prompts or {}).get(key, text) for key, text in DEFAULT_PROMPTS.items()}
        for key, text in self._prompts.items():
            if not isinstance(text, str):
                raise ConfigurationError(f"prompts[{key!r}] must be a text, not {type(text).__name__}")
        super().__init__(_NAME, self._prompts["conversation_search_description"])
        self._search = conversation_search
        self._scope = scope
        self._top_k = top_k

    def get_parameters(self) -> list[ToolParameter]:
        """Return the one parameter, `query` (SES-42)."""
        return [ToolParameter("query", "string", self._prompts["conversation_search_query"])]

    def run(self, parameters: Parameters) -> ToolResponse:
        """Search, and list the hits one per line; also in `data`, as results (SES-43)."""
        query = parameters.get("query")
        if not isinstance(query, str) or not query.strip():
            return ToolResponse.error(self._prompts["conversation_search_empty"])
        hits = self._search.search(query, top_k=self._top_k, scope=self._scope)
        if not hits:
            return ToolResponse.ok(self._prompts["conversation_search_nothing"], data=[])
        return ToolResponse.ok("\n".join(map(_line, hits)), data=hits)


def _line(hit: RetrievalResult) -> str:
    text = " ".join(hit.content.split())
    if len(text) > _MAX_LINE_CHARS:
        text = f"{text[:_MAX_LINE_CHARS]} [{len(text) - _MAX_LINE_CHARS} more characters]"
    return f"[{_time(hit.metadata.get('time'))}] {text}"


def _time(value: object) -> str:
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return "time unknown"
