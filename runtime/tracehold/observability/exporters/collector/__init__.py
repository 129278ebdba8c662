"""Ship events from the agent's process to the collector, in the background and without loss."""

from tracehold.observability.exporters.collector.exporter import CollectorExporter

__all__ = ["CollectorExporter"]
