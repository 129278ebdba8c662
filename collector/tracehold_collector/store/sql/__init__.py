"""Statements of the write path."""
