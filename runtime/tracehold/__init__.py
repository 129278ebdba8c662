"""Tracehold: the flight recorder for AI agents."""
