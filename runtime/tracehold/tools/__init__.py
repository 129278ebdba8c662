"""Tools: what a model may ask for, and the registry that checks and runs it."""

from tracehold.tools.base import Tool as Tool
from tracehold.tools.base import ToolParameter as ToolParameter
from tracehold.tools.base import ToolResponse as ToolResponse
