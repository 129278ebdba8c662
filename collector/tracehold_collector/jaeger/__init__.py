"""The store in Jaeger's terms: its search, its spans, its two forms of JSON. The HTTP side is in `api`."""
