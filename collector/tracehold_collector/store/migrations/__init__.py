"""Numbered SQL files, each applied once, in order, in a transaction that also records it."""
