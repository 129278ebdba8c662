"""The parts of the SQLite event store: its file, its threads, and what they do there."""
