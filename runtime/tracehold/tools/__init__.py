"""Tools: what a model may ask for, and the registry that checks and runs it."""

from tracehold.tools.base import Tool as Tool
from tracehold.tools.base import ToolParameter as ToolParameter
from tracehold.tools.base import ToolResponse as ToolResponse
from tracehold.tools.functions import FunctionTool as FunctionTool
from tracehold.tools.functions import tool as tool
from tracehold.tools.registry import Refusal as Refusal
from tracehold.tools.registry import ToolRegistry as ToolRegistry
