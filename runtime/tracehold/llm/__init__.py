"""Model clients: the protocol, and one for each of the two wire formats that most providers speak."""

from tracehold.llm.protocol import LLMClient as LLMClient
from tracehold.llm.protocol import LLMResponse as LLMResponse
from tracehold.llm.protocol import StreamStats as StreamStats
