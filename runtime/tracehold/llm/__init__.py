"""Model clients: the protocol, and one for each of the two wire formats that most providers speak."""

from tracehold.llm.anthropic_client import AnthropicClient as AnthropicClient
from tracehold.llm.openai_client import OpenAIClient as OpenAIClient
from tracehold.llm.protocol import LLMClient as LLMClient
from tracehold.llm.protocol import LLMResponse as LLMResponse
from tracehold.llm.protocol import StreamStats as StreamStats
