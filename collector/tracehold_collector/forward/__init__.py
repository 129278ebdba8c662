"""What the collector took in, sent on as OTLP to any backend: Jaeger, Tempo, Phoenix, another collector."""

from tracehold_collector.forward.forwarder import Forwarder, ForwardStatus
from tracehold_collector.forward.otlp import OutgoingSpan, outgoing_span, to_otlp

__all__ = ["ForwardStatus", "Forwarder", "OutgoingSpan", "outgoing_span", "to_otlp"]
