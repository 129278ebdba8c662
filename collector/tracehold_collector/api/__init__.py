"""The HTTP side: ingest, reads, health and metrics."""
