"""The Tracer, its exporters and the words its events use."""
