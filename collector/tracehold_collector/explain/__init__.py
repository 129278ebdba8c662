"""Says how a file would be read: which attribute filled which column, by whose rule, and what no rule read."""

from __future__ import annotations

from tracehold_collector.explain.items import Explanation, Reading, explain_event, explain_log, explain_span
from tracehold_collector.explain.whole_file import explain_file

__all__ = ["Explanation", "Reading", "explain_event", "explain_file", "explain_log", "explain_span"]
