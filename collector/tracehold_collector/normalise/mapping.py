"""The version of the mapping from each dialect to our columns: the tables of this package, taken together.

A store notes from when on which version read what it holds (table `mapping_versions`), and `tracehold explain` prints
the one it explains by, so that two answers about one span can be told apart. Whoever changes a table gives it a new
version; a test compares the tables' digest with the one that is written down for the version.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from tracehold_collector.normalise import dialects, log_dialects, outcomes, verdict_rules

MAPPING_VERSION: Final = "2026-11-30.1"
"""The day of the last change, and which of that day."""

_TABLES: Final = {
    dialects: (
        "FIELD_KEYS",
        "KIND_KEYS",
        "NAMED_BY_LOGFIRE",
        "LOGFIRE_ERROR_LEVEL",
        "LANGFUSE_PARTS",
        "MLFLOW_USAGE",
        "MLFLOW_FIELDS",
        "CLAUDE_CODE_FIELDS",
    ),
    log_dialects: ("DIALECTS",),
    outcomes: ("STATUS_WORDS", "GATED"),
    verdict_rules: (
        "VERDICT_RULES",
        "TOOL_STATUS_WORDS",
        "AGENTCORE_WORDS",
        "AGENTCORE_GATE",
        "AGENTCORE_LOG_ONLY",
        "CLAUDE_CODE_WAITS",
        "ADK_ANSWERS",
        "WAITS",
        "MERGED_BY_ADK",
    ),
}


def mapping_digest() -> str:
    """Return what the tables say as 16 hex digits; the order of rows counts, since the first one decides."""
    said = {module.__name__: {name: getattr(module, name) for name in names} for module, names in _TABLES.items()}
    text = json.dumps(said, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else str(value)
