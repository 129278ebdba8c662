"""A plain OpenTelemetry program, without Tracehold, that sends GenAI spans by OTLP/HTTP.

pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def main() -> None:
    """Send one agent's run: a model call and a tool call."""
    provider = TracerProvider(resource=Resource.create({"service.name": "plain-otel"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = trace.get_tracer("example", tracer_provider=provider)
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "planner"}
    call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 15,
    }
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}
    with tracer.start_as_current_span("invoke_agent planner", attributes=agent):
        with tracer.start_as_current_span("chat gpt-4o-mini", attributes=call):
            pass
        with tracer.start_as_current_span("execute_tool weather", attributes=tool):
            pass
    provider.shutdown()
    print("made 3 spans")  # whether they arrived, the exporter's log tells


if __name__ == "__main__":
    main()
