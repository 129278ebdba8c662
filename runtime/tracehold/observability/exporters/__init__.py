"""Where cleaned events go. Each exporter is a module; the OpenTelemetry one needs the extra `otel`."""
