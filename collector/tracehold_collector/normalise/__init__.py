"""One item to one record, pure functions: OTLP spans of any dialect, Tracer events, the engine's log."""
