"""Sends files to a running collector: recognises their form, cuts them into requests, remembers how far it came."""

from tracehold_collector.load.files import find_files, read_pieces
from tracehold_collector.load.loader import FileResult, load_files
from tracehold_collector.load.piece import Piece

__all__ = ["FileResult", "Piece", "find_files", "load_files", "read_pieces"]
